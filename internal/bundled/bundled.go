// Package bundled says which providers and executables a pak bundles, and which of them a template needs. Bindings and
// instances are destroyed with the template that created them, so that a pak must stay installed as long as a stored
// template needs a provider or an executable of it.
package bundled

import (
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/go-version"

	"service-adapter/brokerpak"
	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/hclfile"
)

// Providers returns the binaries of a pak that are versions of one provider, in the order of the manifest. fqn is the
// full address of the provider, HOST/NAMESPACE/TYPE, such as "registry.opentofu.org/hashicorp/random". The hosts
// registry.opentofu.org and registry.terraform.io count as one. The result is empty if the pak lacks the provider, or
// if fqn does not have three parts.
func Providers(pak *brokerpak.Pak, fqn string) []brokerpak.Binary {
	return slices.DeleteFunc(slices.Clone(pak.Manifest.Binaries), func(binary brokerpak.Binary) bool {
		wanted := opentofu.Provider{FQN: fqn}
		return binary.Kind() != brokerpak.Provider || !wanted.SameProvider(opentofu.Provider{FQN: binary.ProviderFQN})
	})
}

// Executable returns the first binary of a pak's manifest with this name that is neither OpenTofu nor a provider. It
// returns the zero Binary and false if there is none.
func Executable(pak *brokerpak.Pak, name string) (binary brokerpak.Binary, ok bool) {
	index := slices.IndexFunc(pak.Manifest.Binaries, func(b brokerpak.Binary) bool {
		return b.Kind() == brokerpak.OtherBinary && b.Name == name
	})
	if index < 0 {
		return brokerpak.Binary{}, false
	}
	return pak.Manifest.Binaries[index], true
}

// PakCommands returns the command lines, in the templates of all services of a pak, that contain the name of an
// executable as a word; see Commands. The order is that of the services, with the provision template before the bind
// template. A line that several templates contain is repeated. The result is nil if no line contains the name.
func PakCommands(pak *brokerpak.Pak, name string) []string {
	var all []string
	for _, service := range pak.Services {
		for _, action := range []brokerpak.Action{service.Provision, service.Bind} {
			all = append(all, Commands(action.Templates, name)...)
		}
	}
	return all
}

// Commands returns the command lines in a template that contain the name of an executable as a word: letters, digits,
// "_", "." and "-" belong to a word, so the name psql is a word of "/usr/bin/psql -c" and not of "psql-15". files maps
// the names of the template's files to their texts. A command line is the source text of the command arguments of a
// block, such as a provisioner, as hclfile.Commands returns it. The result is sorted and without repetitions, and nil
// if no line contains the name. Files with syntax errors are read as far as possible.
func Commands(files map[string]string, name string) []string {
	const notInNames = `[^\w.-]`
	word := regexp.MustCompile(`(^|` + notInNames + `)` + regexp.QuoteMeta(name) + `(` + notInNames + `|$)`)
	var all []string
	for _, command := range hclfile.Commands(files) {
		if word.MatchString(command) {
			all = append(all, command)
		}
	}
	return all
}

// Compatible reports whether the version newer is at least the version older and promises to be compatible with it:
// both have the same major number and, if that is 0, also the same minor number. Equal versions are compatible.
// Compatible returns false if one of the two texts is not a version such as "1.10.2".
func Compatible(older, newer string) bool {
	from, err := version.NewVersion(older)
	to, otherErr := version.NewVersion(newer)
	if err != nil || otherErr != nil || to.LessThan(from) {
		return false
	}
	significant := 1
	if from.Segments()[0] == 0 {
		significant = 2
	}
	return slices.Equal(from.Segments()[:significant], to.Segments()[:significant])
}

// SourceOf returns the short address of a provider that a template uses under a local name, such as "hashicorp/aws";
// see ShortAddress. If required_providers of the module contains no source for the local name, the address is
// "hashicorp/" and the local name. SourceOf does not check whether the module uses the local name. It returns "" for a
// provider that is built into OpenTofu, which no pak bundles.
func SourceOf(module *hclfile.Module, localName string) string {
	source := module.RequiredProviders[localName]
	if source == "" {
		source = localName
	}
	address := ShortAddress(source)
	if source == "terraform" || strings.HasPrefix(address, "terraform.io/builtin/") {
		return ""
	}
	return address
}

// ShortAddress returns the source address of a provider in a comparable form. It adds the default namespace hashicorp
// to a bare type, and removes the hosts registry.opentofu.org and registry.terraform.io, which are interchangeable.
// Both "random" and "registry.terraform.io/hashicorp/random" become "hashicorp/random". Any other address, for example
// with another host, is returned unchanged and not checked, except that "" becomes "hashicorp/".
func ShortAddress(source string) string {
	parts := strings.Split(source, "/")
	if parts[0] == "registry.opentofu.org" || parts[0] == "registry.terraform.io" {
		parts = parts[1:]
	}
	if len(parts) == 1 {
		parts = []string{"hashicorp", parts[0]}
	}
	return strings.Join(parts, "/")
}
