package brokerpak

import (
	"slices"
	"strings"

	"github.com/hashicorp/go-version"
	"gopkg.in/yaml.v3"

	"service-adapter/internal/diag"
	"service-adapter/internal/value"
)

// PackVersion is the version of the brokerpak format that manifests and definitions must declare. No other version
// exists.
const PackVersion = 1

// platforms are the OS/ARCH pairs that the format allows.
var platforms = []string{ //nolint:gochecknoglobals // a constant table
	"darwin/amd64", "darwin/arm64", "freebsd/386", "freebsd/amd64", "freebsd/arm", "linux/386", "linux/amd64",
	"linux/arm", "linux/arm64", "openbsd/386", "openbsd/amd64", "solaris/amd64", "windows/386", "windows/amd64",
}

// Kind returns the kind of the binary, which depends only on its name: Tofu for exactly "tofu", Provider for a name
// with the prefix "terraform-provider-", and OtherBinary for any other name, also for "".
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

// parseManifest parses and checks the text of manifest.yml and adds all errors to diags; it returns what it could
// decode even then. The parameter file is the name of the file in error messages; the file is not read. Errors are
// invalid YAML, repeated keys, unknown keys, because other brokers reject them, missing required keys, values of the
// wrong type or form, such as an unknown platform, a packversion other than 1, and violations of the rules of
// checkBinaries and checkUpgradePath. Text after the first YAML document is a warning. If the text is empty, too
// large (see parseDocument), not valid YAML or not a mapping, that is an error, and the result is the zero Manifest.
func parseManifest(file, text string, diags *diag.List) Manifest {
	var manifest Manifest
	doc, root := parseDocument(file, text, diags)
	if root == nil {
		return manifest
	}
	var upgradePath []Path
	mapping := doc.mapping(root, "the manifest", true, doc.manifestKeys(&manifest, &upgradePath))
	manifest.UpgradePath = value.Convert(upgradePath, func(step Path) string { return step.Name })
	if root.Kind != yaml.MappingNode {
		return manifest
	}
	if mapping.nonEmpty("packversion") && manifest.PackVersion != PackVersion {
		doc.failf(mapping.posOf("packversion"), "packversion", "packversion must be %d", PackVersion)
	}
	checkBinaries(manifest.Binaries, diags)
	checkUpgradePath(upgradePath, manifest.Binaries, diags)
	return manifest
}

// manifestKeys returns descriptions of the keys of manifest.yml. Decoding a key stores its value in manifest and adds
// errors to the diagnostics of d. The exception is terraform_upgrade_path, whose steps are appended to the parameter
// upgradePath, which keeps their positions; the caller has to copy the versions to the manifest.
func (d *document) manifestKeys(manifest *Manifest, upgradePath *[]Path) fields {
	nonEmpty := schema{"type": "array", "minItems": 1}
	return d.keys("", manifest, map[string]field{
		"packversion": d.integer("packversion", &manifest.PackVersion).withSchema(schema{"const": PackVersion}),
		"name": d.text("name", &manifest.Name).
			withDoc("The name of the brokerpak: lower-case letters, digits, hyphens and underscores are recommended."),
		"version": d.text("version", &manifest.Version).
			withDoc("The version of the brokerpak; semantic versioning is recommended."),
		"metadata": d.textMap("metadata", &manifest.Metadata).
			withDoc("Free information about the brokerpak, such as its authors and repository."),
		"platforms": d.platforms(&manifest.Platforms).withSchema(nonEmpty),
		"terraform_binaries": d.binaries(&manifest.Binaries).withSchema(nonEmpty).
			withDoc("OpenTofu, its providers and other binaries that are bundled."),
		"service_definitions": d.paths("service_definitions", &manifest.Definitions).withSchema(nonEmpty).
			withDoc("The files of the service definitions, relative to the manifest."),
		"parameters": entries(d, "parameters", true, &manifest.Parameters, nil, nil).
			withDoc("Environment variables that operators may set for OpenTofu."),
		"required_env_variables": d.texts("required_env_variables", &manifest.RequiredEnv).
			withDoc("Environment variables that must be set and are passed to OpenTofu."),
		"env_config_mapping": d.textMap("env_config_mapping", &manifest.EnvConfigMapping).
			withDoc("Environment variable to configuration key: the expression config(\"KEY\") returns the " +
				"variable's value."),
		"terraform_upgrade_path": d.upgradePath(upgradePath).
			withDoc("The versions of OpenTofu to step through in an upgrade, ascending. Each must be bundled."),
		"terraform_state_provider_replacements": d.textMap(
			"terraform_state_provider_replacements", &manifest.ProviderReplacements).
			withDoc("Old to new names of providers in the state, such as registry.terraform.io/-/random."),
	})
}

// platforms returns the field of the key platforms, a list of platforms on which the pak runs; decoding appends them to
// target. Decoding adds an error to the diagnostics of d for a platform that the format does not allow, or that lacks
// os or arch, for an unknown key, and for an entry that is not a mapping. Such a platform is stored all the same. Null
// is an empty list; any other value that is not a list is reported as an error.
func (d *document) platforms(target *[]Platform) field {
	return entries(d, "platforms", true, target, d.platformKeys, func(mapping mappingNode, platform *Platform) bool {
		if mapping.nonEmpty("os") && mapping.nonEmpty("arch") && !slices.Contains(platforms, platform.String()) {
			d.failf(mapping.pos, "platform", "unknown platform %q; allowed: %s", platform,
				strings.Join(platforms, ", "))
		}
		return true
	})
}

// platformKeys returns descriptions of the required keys os and arch of an entry of platforms. Decoding a key stores
// any scalar except null in platform as text: the allowed values are only in the JSON Schemas of the keys, and the
// field of platforms checks the combination. A list or mapping is reported as an error in the diagnostics of d and
// not stored.
func (d *document) platformKeys(platform *Platform) fields {
	var systems, architectures []any
	for _, name := range platforms {
		system, architecture, _ := strings.Cut(name, "/")
		systems, architectures = append(systems, system), append(architectures, architecture)
	}
	return d.keys("", platform, map[string]field{
		"os":   d.text("os", &platform.OS).withSchema(oneOf(systems...)),
		"arch": d.text("arch", &platform.Arch).withSchema(oneOf(append(architectures, 386)...)),
	})
}

// binaries returns the field of the key terraform_binaries, a list of programs that the pak contains; decoding appends
// them to target in the order of the file, and sets ProviderFQN of providers (see providerFQN). Decoding adds errors to
// the diagnostics of d for a provider whose key provider has the wrong form, which results in the ProviderFQN "", for
// an entry without name or version, for unknown keys, for values of the wrong type, and for an entry that is not a
// mapping. Such an entry is stored all the same. The form of the key provider of other programs is not checked. Null is
// an empty list; any other value that is not a list is reported as an error. checkBinaries checks the versions and the
// key default later.
func (d *document) binaries(target *[]Binary) field {
	keys := func(binary *Binary) fields {
		return d.keys("", binary, map[string]field{
			"provider": d.text("provider", &binary.Provider).
				withDoc("The provider as [[HOSTNAME/]NAMESPACE/]TYPE; required if it is not HashiCorp's."),
			"url_template": d.text("url_template", &binary.URLTemplate).
				withDoc("Where the binary is fetched from: a URL or a local path with ${name}, ${version}, ${os} " +
					"and ${arch}."),
			"default": d.boolean("default", &binary.Default).
				withDoc("Marks the OpenTofu that runs the templates if there are several; it must be the highest " +
					"version."),
		})
	}
	return entries(d, "terraform_binaries", true, target, keys, func(mapping mappingNode, binary *Binary) bool {
		if binary.Kind() == Provider {
			binary.ProviderFQN = d.providerFQN(mapping.posOf("provider"), binary.Name, binary.Provider)
		}
		return true
	})
}

// providerFQN returns the full name HOST/NAMESPACE/TYPE of a provider, such as
// "registry.terraform.io/hashicorp/random". The parameter name is the name of the binary, such as
// "terraform-provider-random". The parameter provider is the value of the key provider, [[HOSTNAME/]NAMESPACE/]TYPE; if
// it is "", the type is the name without "terraform-provider-".
//
// The default host is registry.terraform.io, Terraform's registry, because published paks were written for it, and the
// default namespace is hashicorp. If provider has more than three parts, or a part that is empty or "..", providerFQN
// adds an error at pos to the diagnostics of d and returns "".
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

// paths returns the field of a key whose value is a list of paths of files of the pak; decoding appends them to target
// with their positions. The label is the name of the key in error messages. An empty entry, null, a list and a mapping
// are reported as errors in the diagnostics of d and stored with the path "". Null in place of the list is an empty
// list; any other value that is not a list is reported as an error. Decoding does not check whether the files exist.
func (d *document) paths(label string, target *[]Path) field {
	var names []string
	f := d.texts(label, &names)
	f.decode = func(node *yaml.Node) {
		d.sequence(node, label, func(element *yaml.Node) {
			file := Path{Pos: d.pos(element)}
			d.text("an entry of "+label, &file.Name).decode(element)
			if file.Name == "" {
				d.errorf(element, "required", "an entry of %s must not be empty", label)
			}
			*target = append(*target, file)
		})
	}
	return f
}

// upgradePath returns the field of the key terraform_upgrade_path, a list of mappings with the key version; decoding
// appends them to target in the order of the file. Name of each Path is a version of OpenTofu and not a path, and Pos
// is the position of the version or, if the entry does not have the key, of the entry. Decoding adds errors to the
// diagnostics of d for a version that is missing, empty or not a scalar, for an unknown key, and for an entry that is
// not a mapping. Such an entry is stored all the same, with the Name "" if it has no scalar version. Null is an empty
// list; any other value that is not a list is reported as an error. checkUpgradePath checks the versions later.
func (d *document) upgradePath(target *[]Path) field {
	keys := func(step *Path) fields {
		return fields{{"version", "The version of OpenTofu.", required(d.text("version", &step.Name))}}
	}
	return entries(d, "terraform_upgrade_path", true, target, keys, func(mapping mappingNode, step *Path) bool {
		step.Pos = mapping.posOf("version")
		return true
	})
}

// checkBinaries checks the rules that concern several entries of terraform_binaries, or that depend on the kind of a
// binary, and adds an error to diags for each violation: a version of OpenTofu or a provider that is not a version such
// as 1.2.3, a version of OpenTofu that is listed twice, and a default mark on a binary that is not OpenTofu. If the
// list has several entries for OpenTofu, exactly the highest must be marked as the default. A list without OpenTofu is
// allowed. An empty version is not reported as invalid, but two entries for OpenTofu with an empty version count as a
// repetition.
func checkBinaries(binaries []Binary, diags *diag.List) {
	var tofus, defaults []Binary
	seen := map[string]bool{}
	for _, binary := range binaries {
		if binary.Kind() != OtherBinary && binary.Version != "" {
			if _, err := version.NewVersion(binary.Version); err != nil {
				diags.Errorf(binary.Pos, "version", "version %q of %s is not a version such as 1.2.3", binary.Version,
					binary.Name)
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

// checkDefaultTofu adds an error to diags unless exactly one entry for OpenTofu is marked as the default and no other
// has a higher version. It adds at most one error. tofus are all entries for OpenTofu in terraform_binaries, and
// defaults those of them with the mark. If there are fewer than two entries, checkDefaultTofu adds no error, whether
// the entry is marked or not. Versions that are invalid are neither higher nor lower than others.
func checkDefaultTofu(tofus, defaults []Binary, diags *diag.List) {
	if len(tofus) < 2 {
		return
	}
	switch len(defaults) {
	case 0:
		diags.Errorf(tofus[0].Pos, "default", "there are %d versions of tofu; mark the highest with default: true",
			len(tofus))
	case 1:
		highest := defaults[0]
		for _, other := range tofus {
			if olderThan(highest.Version, other.Version) {
				highest = other
			}
		}
		if highest.Version != defaults[0].Version {
			diags.Errorf(defaults[0].Pos, "default", "the default tofu must be the highest version, which is %s",
				highest.Version)
		}
	default:
		diags.Errorf(defaults[1].Pos, "default", "only one tofu may be marked with default: true")
	}
}

// checkUpgradePath checks the steps of terraform_upgrade_path, whose Name is a version of OpenTofu, against the
// entries of terraform_binaries. It adds an error to diags for each step that is not a version. For any other step,
// it adds an error if the step is not higher than the previous step that is a version, and another error in each of
// these cases:
//   - no OpenTofu of the pak has exactly this text as its version;
//   - the pak has that OpenTofu, the step is the last one, and the OpenTofu is not marked as the default, even if it
//     is the only one.
//
// Steps without a version are skipped, because decoding has already reported them. If the last step has no valid
// version, no step is compared with the default. An empty path is allowed.
func checkUpgradePath(path []Path, binaries []Binary, diags *diag.List) {
	previous := "0.0.0"
	for i, step := range path {
		if step.Name == "" {
			continue // the decoder has reported it as missing
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

// olderThan reports whether version a, such as "1.9.0", is lower than version b. Numbers are compared as numbers, so
// 1.9 is lower than 1.10, and a pre-release such as 1.9.0-rc1 is lower than its release. The result is false if the
// versions are equal, or if one of them is not a version.
func olderThan(a, b string) bool {
	va, errA := version.NewVersion(a)
	vb, errB := version.NewVersion(b)
	return errA == nil && errB == nil && va.LessThan(vb)
}
