package brokerpak

import (
	"slices"
	"strings"

	"github.com/hashicorp/go-version"
	"gopkg.in/yaml.v3"

	"service-adapter/internal/diag"
	"service-adapter/internal/value"
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
	at := doc.mapping(root, "the manifest", true, doc.manifestKeys(&manifest, &upgradePath))
	manifest.UpgradePath = value.Each(upgradePath, func(step Path) string { return step.Name })
	if root.Kind != yaml.MappingNode {
		return manifest
	}
	if at.filled("packversion") && manifest.PackVersion != PackVersion {
		doc.failf(at.at("packversion"), "packversion", "packversion must be %d", PackVersion)
	}
	checkBinaries(manifest.Binaries, diags)
	checkUpgradePath(upgradePath, manifest.Binaries, diags)
	return manifest
}

// manifestKeys are the keys of manifest.yml.
func (d *document) manifestKeys(manifest *Manifest, upgradePath *[]Path) fields {
	some := schema{"type": "array", "minItems": 1}
	replacements := d.textMap("terraform_state_provider_replacements", &manifest.ProviderReplacements)
	return fields{
		{"packversion", "The version of the format: 1.", required(d.integer("packversion", &manifest.PackVersion)).shaped(schema{"const": PackVersion})},
		{"name", "The name of the brokerpak: lower-case letters, digits, hyphens and underscores are recommended.", required(d.text("name", &manifest.Name))},
		{"version", "The version of the brokerpak; semantic versioning is recommended.", required(d.text("version", &manifest.Version))},
		{"metadata", "Free information about the brokerpak, such as its authors and repository.", d.textMap("metadata", &manifest.Metadata)},
		{"platforms", "The platforms on which the brokerpak runs.", required(d.platforms(&manifest.Platforms)).shaped(some)},
		{"terraform_binaries", "OpenTofu, its providers and other binaries that are bundled.", required(d.binaries(&manifest.Binaries)).shaped(some)},
		{
			"service_definitions", "The files of the service definitions, relative to the manifest.",
			required(d.paths("service_definitions", &manifest.Definitions)).shaped(some),
		},
		{"parameters", "Environment variables that operators may set for OpenTofu.", entries(d, "parameters", true, &manifest.Parameters, d.parameterKeys, nil)},
		{"required_env_variables", "Environment variables that must be set and are passed to OpenTofu.", d.texts("required_env_variables", &manifest.RequiredEnv)},
		{
			"env_config_mapping", "Environment variable to configuration key: what the expression config(\"KEY\") finds.",
			d.textMap("env_config_mapping", &manifest.EnvConfigMapping),
		},
		{"terraform_upgrade_path", "The versions of OpenTofu to step through in an upgrade, ascending. Each must be bundled.", d.upgradePath(upgradePath)},
		{"terraform_state_provider_replacements", "Old to new names of providers in the state, such as registry.terraform.io/-/random.", replacements},
	}
}

func (d *document) parameterKeys(parameter *Parameter) fields {
	return fields{
		{"name", "The environment variable, such as TF_VAR_redis_version.", required(d.text("name", &parameter.Name))},
		{"description", "What the variable means.", required(d.text("description", &parameter.Description))},
	}
}

func (d *document) platforms(target *[]Platform) field {
	return entries(d, "platforms", true, target, d.platformKeys, func(at places, platform *Platform) bool {
		if at.filled("os") && at.filled("arch") && !slices.Contains(platforms, platform.String()) {
			d.failf(at.self, "platform", "unknown platform %q; allowed: %s", platform, strings.Join(platforms, ", "))
		}
		return true
	})
}

func (d *document) platformKeys(platform *Platform) fields {
	var systems, architectures []any
	for _, name := range platforms {
		system, architecture, _ := strings.Cut(name, "/")
		systems, architectures = append(systems, system), append(architectures, architecture)
	}
	return fields{
		{"os", "The operating system, in Go's naming.", required(d.text("os", &platform.OS)).shaped(oneOf(systems...))},
		{"arch", "The architecture, in Go's naming.", required(d.text("arch", &platform.Arch)).shaped(oneOf(append(architectures, 386)...))},
	}
}

func (d *document) binaries(target *[]Binary) field {
	return entries(d, "terraform_binaries", true, target, d.binaryKeys, func(at places, binary *Binary) bool {
		if binary.Kind() == Provider {
			binary.ProviderFQN = d.providerFQN(at.at("provider"), binary.Name, textOf(at.values["provider"]))
		}
		return true
	})
}

func (d *document) binaryKeys(binary *Binary) fields {
	return fields{
		{"name", "tofu, terraform-provider-TYPE, or any other program.", required(d.text("name", &binary.Name))},
		{"version", "The version, such as 1.12.6.", required(d.text("version", &binary.Version))},
		{"source", "The URL of a zip of the source code.", d.text("source", &binary.Source)},
		{"provider", "The provider as [[HOSTNAME/]NAMESPACE/]TYPE; needed where it is not HashiCorp's.", d.text("provider", new(string))},
		{
			"url_template", "Where the binary is fetched from: a URL or a local path with ${name}, ${version}, ${os} and ${arch}.",
			d.text("url_template", &binary.URLTemplate),
		},
		{"default", "Marks the OpenTofu that runs the templates, where there are several; it must be the highest.", d.boolean("default", &binary.Default)},
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
	var names []string
	f := d.texts(what, &names)
	f.decode = func(node *yaml.Node) {
		d.sequence(node, what, func(element *yaml.Node) {
			file := Path{Pos: d.pos(element)}
			d.text("an entry of "+what, &file.Name).decode(element)
			if file.Name == "" {
				d.errorf(element, "required", "an entry of %s must not be empty", what)
			}
			*target = append(*target, file)
		})
	}
	return f
}

func (d *document) upgradePath(target *[]Path) field {
	keys := func(step *Path) fields {
		return fields{{"version", "The version of OpenTofu.", required(d.text("version", &step.Name))}}
	}
	return entries(d, "terraform_upgrade_path", true, target, keys, func(at places, step *Path) bool {
		step.Pos = at.at("version")
		return true
	})
}

// checkBinaries holds the rules between entries: versions, and which OpenTofu is the default.
func checkBinaries(binaries []Binary, diags *diag.List) {
	var tofus, defaults []Binary
	seen := map[string]bool{}
	for _, binary := range binaries {
		if binary.Kind() != OtherBinary && binary.Version != "" {
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
		if step.Name == "" {
			continue // reported as missing
		}
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
