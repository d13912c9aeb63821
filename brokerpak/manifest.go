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
	return d.keys("", manifest, map[string]field{
		"packversion":         d.integer("packversion", &manifest.PackVersion).shaped(schema{"const": PackVersion}),
		"platforms":           d.platforms(&manifest.Platforms).shaped(some),
		"terraform_binaries":  d.binaries(&manifest.Binaries).shaped(some),
		"service_definitions": d.paths("service_definitions", &manifest.Definitions).shaped(some),
		"parameters":          entries(d, "parameters", true, &manifest.Parameters, nil, nil),
		"env_config_mapping": d.textMap("env_config_mapping", &manifest.EnvConfigMapping).
			meaning("Environment variable to configuration key: what the expression config(\"KEY\") finds."),
		"terraform_upgrade_path": d.upgradePath(upgradePath).
			meaning("The versions of OpenTofu to step through in an upgrade, ascending. Each must be bundled."),
		"terraform_state_provider_replacements": d.textMap("terraform_state_provider_replacements", &manifest.ProviderReplacements).
			meaning("Old to new names of providers in the state, such as registry.terraform.io/-/random."),
	})
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
	return d.keys("", platform, map[string]field{
		"os":   d.text("os", &platform.OS).shaped(oneOf(systems...)),
		"arch": d.text("arch", &platform.Arch).shaped(oneOf(append(architectures, 386)...)),
	})
}

func (d *document) binaries(target *[]Binary) field {
	return entries(d, "terraform_binaries", true, target, nil, func(at places, binary *Binary) bool {
		if binary.Kind() == Provider {
			binary.ProviderFQN = d.providerFQN(at.at("provider"), binary.Name, binary.Provider)
		}
		return true
	})
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
