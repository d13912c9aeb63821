package brokerpak

import (
	"slices"
	"strings"

	"github.com/hashicorp/go-version"
	"gopkg.in/yaml.v3"

	"service-adapter/internal/diag"
)

// PackVersion is the only version of the format there is.
const PackVersion = 1

// platforms are the platforms that the format admits.
var platforms = []string{ //nolint:gochecknoglobals // a constant table
	"darwin/amd64", "darwin/arm64", "freebsd/386", "freebsd/amd64", "freebsd/arm", "linux/386", "linux/amd64",
	"linux/arm", "linux/arm64", "openbsd/386", "openbsd/amd64", "solaris/amd64", "windows/386", "windows/amd64",
}

// Kind tells what the binary is, by its name.
func (b Binary) Kind() BinaryKind {
	switch {
	case b.Name == "tofu":
		return Tofu
	case strings.HasPrefix(b.Name, "terraform-provider-"):
		return Provider
	default:
		return OtherBinary
	}
}

// parseManifest reads manifest.yml, in which unknown keys are errors, because other brokers refuse them.
func parseManifest(file, text string, diags *diag.List) Manifest {
	var manifest Manifest
	doc, root := parseDocument(file, text, diags)
	if root == nil {
		return manifest
	}
	var upgradePath []Path
	at := doc.mapping(root, "the manifest", true, fields{
		{"packversion", doc.integer("packversion", &manifest.PackVersion)},
		{"name", doc.text("name", &manifest.Name)},
		{"version", doc.text("version", &manifest.Version)},
		{"metadata", doc.textMap("metadata", &manifest.Metadata)},
		{"platforms", doc.platforms(&manifest.Platforms)},
		{"terraform_binaries", doc.binaries(&manifest.Binaries)},
		{"service_definitions", doc.paths("service_definitions", &manifest.Definitions)},
		{"parameters", doc.parameters(&manifest.Parameters)},
		{"required_env_variables", doc.texts("required_env_variables", &manifest.RequiredEnv)},
		{"env_config_mapping", doc.textMap("env_config_mapping", &manifest.EnvConfigMapping)},
		{"terraform_upgrade_path", doc.upgradePath(&upgradePath)},
		{"terraform_state_provider_replacements", doc.textMap(
			"terraform_state_provider_replacements", &manifest.ProviderReplacements)},
	})
	for _, step := range upgradePath {
		manifest.UpgradePath = append(manifest.UpgradePath, step.Name)
	}
	if root.Kind != yaml.MappingNode {
		return manifest
	}
	doc.checkManifest(at, &manifest)
	checkBinaries(manifest.Binaries, diags)
	checkUpgradePath(upgradePath, manifest.Binaries, diags)
	return manifest
}

func (d *document) checkManifest(at places, manifest *Manifest) {
	if manifest.PackVersion != PackVersion {
		d.failf(at.at("packversion"), "packversion", "packversion must be %d", PackVersion)
	}
	d.required(at, "name", "name", manifest.Name)
	d.required(at, "version", "version", manifest.Version)
	if len(manifest.Platforms) == 0 {
		d.failf(at.at("platforms"), "required", "platforms must have at least one entry, such as {os: linux, arch: amd64}")
	}
	if len(manifest.Binaries) == 0 {
		d.failf(at.at("terraform_binaries"), "required", "terraform_binaries must have at least one entry, an OpenTofu named \"tofu\"")
	}
	if len(manifest.Definitions) == 0 {
		d.failf(at.at("service_definitions"), "required", "service_definitions must name at least one file")
	}
}

func (d *document) platforms(target *[]Platform) field {
	return func(node *yaml.Node) {
		d.sequence(node, "platforms", func(element *yaml.Node) {
			var platform Platform
			d.mapping(element, "a platform", true, fields{
				{"os", d.text("os", &platform.OS)},
				{"arch", d.text("arch", &platform.Arch)},
			})
			if !slices.Contains(platforms, platform.String()) {
				d.errorf(element, "platform", "unknown platform %q; allowed: %s", platform, strings.Join(platforms, ", "))
			}
			*target = append(*target, platform)
		})
	}
}

func (d *document) binaries(target *[]Binary) field {
	return func(node *yaml.Node) {
		d.sequence(node, "terraform_binaries", func(element *yaml.Node) {
			binary := Binary{Pos: d.pos(element)}
			var provider string
			at := d.mapping(element, "an entry of terraform_binaries", true, fields{
				{"name", d.text("name", &binary.Name)},
				{"version", d.text("version", &binary.Version)},
				{"source", d.text("source", &binary.Source)},
				{"provider", d.text("provider", &provider)},
				{"url_template", d.text("url_template", &binary.URLTemplate)},
				{"default", d.boolean("default", &binary.Default)},
			})
			d.required(at, "name", "name of an entry of terraform_binaries", binary.Name)
			d.required(at, "version", "version of an entry of terraform_binaries", binary.Version)
			if binary.Kind() == Provider {
				binary.ProviderFQN = d.providerFQN(at.at("provider"), binary.Name, provider)
			}
			*target = append(*target, binary)
		})
	}
}

// providerFQN derives host/namespace/type. The default host is the one that published paks were made for.
func (d *document) providerFQN(pos diag.Pos, name, provider string) string {
	const host, namespace = "registry.terraform.io", "hashicorp"
	if provider == "" {
		return host + "/" + namespace + "/" + strings.TrimPrefix(name, "terraform-provider-")
	}
	parts := strings.Split(provider, "/")
	if len(parts) > 3 || slices.Contains(parts, "") || slices.Contains(parts, "..") {
		d.failf(pos, "provider", "provider %q must have the form [[HOSTNAME/]NAMESPACE/]TYPE", provider)
		return ""
	}
	return strings.Join(append([]string{host, namespace}[:3-len(parts)], parts...), "/")
}

func (d *document) paths(what string, target *[]Path) field {
	return func(node *yaml.Node) {
		d.sequence(node, what, func(element *yaml.Node) {
			file := Path{Pos: d.pos(element)}
			d.text("an entry of "+what, &file.Name)(element)
			d.required(places{self: file.Pos}, "", "an entry of "+what, file.Name)
			*target = append(*target, file)
		})
	}
}

func (d *document) parameters(target *[]Parameter) field {
	return func(node *yaml.Node) {
		d.sequence(node, "parameters", func(element *yaml.Node) {
			var parameter Parameter
			at := d.mapping(element, "a parameter", true, fields{
				{"name", d.text("name", &parameter.Name)},
				{"description", d.text("description", &parameter.Description)},
			})
			d.required(at, "name", "name of a parameter", parameter.Name)
			d.required(at, "description", "description of a parameter", parameter.Description)
			*target = append(*target, parameter)
		})
	}
}

func (d *document) upgradePath(target *[]Path) field {
	return func(node *yaml.Node) {
		d.sequence(node, "terraform_upgrade_path", func(element *yaml.Node) {
			var step Path
			at := d.mapping(element, "a step of terraform_upgrade_path", true, fields{{"version", d.text("version", &step.Name)}})
			step.Pos = at.at("version")
			*target = append(*target, step)
		})
	}
}

// checkBinaries holds the rules between entries: versions, and which OpenTofu is the default.
func checkBinaries(binaries []Binary, diags *diag.List) {
	var tofus, defaults []Binary
	seen := map[string]bool{}
	for _, binary := range binaries {
		if binary.Kind() != OtherBinary && binary.Version != "" && !isRelease(binary.Version) {
			if _, err := version.NewVersion(binary.Version); err != nil {
				diags.Errorf(binary.Pos, "version", "version %q of %s is not a version such as 1.2.3", binary.Version, binary.Name)
			}
		}
		if binary.Kind() != Tofu {
			if binary.Default {
				diags.Errorf(binary.Pos, "default", "default is only allowed for tofu, not for %s", binary.Name)
			}
			continue
		}
		if seen[binary.Version] {
			diags.Errorf(binary.Pos, "duplicate", "tofu %s is listed twice", binary.Version)
		}
		seen[binary.Version] = true
		tofus = append(tofus, binary)
		if binary.Default {
			defaults = append(defaults, binary)
		}
	}
	checkDefaultTofu(tofus, defaults, diags)
}

// isRelease tells whether a text is a version of three short numbers, as nearly all are. The library's expression takes as long to compile
// as the whole manifest to read.
func isRelease(text string) bool {
	numbers := strings.Split(text, ".")
	return len(numbers) == 3 && !slices.ContainsFunc(numbers, func(number string) bool {
		return number == "" || len(number) > 9 || strings.Trim(number, "0123456789") != ""
	})
}

func checkDefaultTofu(tofus, defaults []Binary, diags *diag.List) {
	if len(tofus) < 2 {
		return
	}
	switch len(defaults) {
	case 0:
		diags.Errorf(tofus[0].Pos, "default", "there are %d versions of tofu; mark the highest with default: true", len(tofus))
	case 1:
		highest := defaults[0]
		for _, other := range tofus {
			if olderThan(highest.Version, other.Version) {
				highest = other
			}
		}
		if highest.Version != defaults[0].Version {
			diags.Errorf(defaults[0].Pos, "default", "the default tofu must be the highest version, which is %s", highest.Version)
		}
	default:
		diags.Errorf(defaults[1].Pos, "default", "only one tofu may be marked with default: true")
	}
}

// checkUpgradePath: ascending versions, each bundled, the last one the default.
func checkUpgradePath(path []Path, binaries []Binary, diags *diag.List) {
	previous := "0.0.0"
	for i, step := range path {
		if _, err := version.NewVersion(step.Name); err != nil {
			diags.Errorf(step.Pos, "version", "%q is not a version such as 1.2.3", step.Name)
			continue
		}
		if !olderThan(previous, step.Name) {
			diags.Errorf(step.Pos, "upgrade-path", "versions must ascend: %s does not follow %s", step.Name, previous)
		}
		previous = step.Name
		at := slices.IndexFunc(binaries, func(b Binary) bool { return b.Kind() == Tofu && b.Version == step.Name })
		switch {
		case at < 0:
			diags.Errorf(step.Pos, "upgrade-path", "tofu %s is not listed in terraform_binaries", step.Name)
		case i == len(path)-1 && !binaries[at].Default:
			diags.Errorf(step.Pos, "upgrade-path", "the last step must be the tofu marked with default: true")
		}
	}
}

// olderThan compares two versions; what is no version is never older.
func olderThan(a, b string) bool {
	va, errA := version.NewVersion(a)
	vb, errB := version.NewVersion(b)
	return errA == nil && errB == nil && va.LessThan(vb)
}

// DefaultTofu returns the OpenTofu that runs the pak's templates: the one marked as default, or the only one.
func (m *Manifest) DefaultTofu() (Binary, bool) {
	var tofus []Binary
	for _, binary := range m.Binaries {
		if binary.Kind() == Tofu {
			if binary.Default {
				return binary, true
			}
			tofus = append(tofus, binary)
		}
	}
	if len(tofus) != 1 {
		return Binary{}, false
	}
	return tofus[0], true
}
