package diff

import (
	"slices"
	"strings"

	"service-adapter/brokerpak"
	"service-adapter/internal/bundled"
	"service-adapter/internal/diag"
	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/hclfile"
	"service-adapter/internal/value"
)

// compareBinaries adds findings about the providers and other executables of the old pak that the new pak lacks, has
// in another version or, in the case of executables, runs differently; see compareProvider and compareExecutable. It
// reports neither binaries that only the new pak has nor versions of OpenTofu; compareDeclarations compares the
// latter. Bindings and instances are destroyed with the template and the providers of the pak that created them, so
// that binaries that the new pak lacks must remain available in an installed older pak.
func (c *comparison) compareBinaries() {
	for _, before := range c.old.Manifest.Binaries {
		switch before.Kind() {
		case brokerpak.Provider:
			c.compareProvider(before)
		case brokerpak.OtherBinary:
			c.compareExecutable(before)
		case brokerpak.Tofu: // compared with the templates
		}
	}
}

// compareProvider adds at most one finding about the provider before of the old pak. There are these cases:
//
//   - The new pak has the same version of the provider, alone or among others: there is no finding.
//   - The new pak has only other versions: the highest one counts. The verdict is safe if it is compatible with the
//     old one (not older, with the same major version and, for version 0, the same minor version), or if the old pak
//     is in c.installed (see oldInstalled), and otherwise needsUpgrade.
//   - The new pak has no version, and its manifest replaces the provider in states by one that it contains: the
//     verdict is safe.
//   - The new pak has no version and no replacement: the finding is that of addMissing. It is safe if a pak in
//     c.installed has any version of the provider.
func (c *comparison) compareProvider(before brokerpak.Binary) {
	all := bundled.Providers(c.new, before.ProviderFQN)
	if len(all) == 0 {
		if replacement := c.replacement(before.ProviderFQN); replacement != "" {
			c.add(safe, "provider-replaced", before.Pos, "provider %q is replaced by %q in states",
				before.ProviderFQN, replacement)
			return
		}
		c.addMissing("provider-removed", before.Pos, slices.ContainsFunc(c.installed, func(pak *brokerpak.Pak) bool {
			return len(bundled.Providers(pak, before.ProviderFQN)) > 0
		}), "provider %q %s was removed", before.ProviderFQN, before.Version)
		return
	}
	sameVersion := func(b brokerpak.Binary) bool { return b.FileVersion() == before.FileVersion() }
	if slices.ContainsFunc(all, sameVersion) {
		return
	}
	after := slices.MaxFunc(all, func(a, b brokerpak.Binary) int { return opentofu.Compare(a.Version, b.Version) })
	const text = "provider %q has version %s instead of %s"
	if bundled.Compatible(before.Version, after.Version) || c.oldInstalled() {
		c.add(safe, "provider-version", after.Pos, text, before.ProviderFQN, after.Version, before.Version)
		return
	}
	c.add(needsUpgrade, "provider-version", after.Pos, text+", which may not read what it created; "+c.keepOld(),
		before.ProviderFQN, after.Version, before.Version)
}

// compareExecutable adds findings about the executable before of the old pak. If the new pak lacks it, the only finding
// is that of addMissing; an executable of this name in an installed pak, whatever its version, counts as provided. A
// finding of addMissing is safe if an installed pak provides the executable. Otherwise these findings are added:
//
//   - that of compareInputs, if binds pass the executable additional inputs as their command;
//   - one with the verdict safe, if the version differs;
//   - at most one of addMissing, if the templates of the new pak still run the executable but lack a command line with
//     which the templates of the old pak run it. Only the old pak itself, if it is installed, counts as provided.
//
// If no template of the new pak runs the executable, the command lines are not compared.
func (c *comparison) compareExecutable(before brokerpak.Binary) {
	after, ok := bundled.Executable(c.new, before.Name)
	if !ok {
		c.addMissing("executable-removed", before.Pos, slices.ContainsFunc(c.installed, func(pak *brokerpak.Pak) bool {
			_, ok := bundled.Executable(pak, before.Name)
			return ok
		}), "executable %q was removed", before.Name)
		return
	}
	c.compareInputs(before.Name, after.Pos)
	if after.Version != before.Version {
		c.add(safe, "executable-version", after.Pos, "executable %q has version %s instead of %s",
			before.Name, after.Version, before.Version)
	}
	current := bundled.PakCommands(c.new, before.Name)
	if len(current) == 0 {
		return // the arguments that it takes now are not known
	}
	for _, command := range bundled.PakCommands(c.old, before.Name) {
		if !slices.Contains(current, command) {
			// Of the installed paks, only the old one helps: an unbind finds the executable of the recorded pak first,
			// and then that of the new one.
			c.addMissing("executable-arguments", after.Pos, c.oldInstalled(),
				"executable %q may take other arguments, because no template of the new pak runs %s",
				before.Name, shorten(command))
			return
		}
	}
}

// compareInputs adds a finding about the executable with this name if it is the command of a bind in both paks, and the
// new pak passes it inputs that the old pak did not. When a binding that the old pak created is deleted, the new
// executable receives only the inputs that were recorded at its creation, and must accept that the others are missing.
// The finding is safe if the old pak is installed; see addMissing for the other verdicts. pos is the position of the
// executable in the new pak.
func (c *comparison) compareInputs(executable string, pos diag.Pos) {
	before, after := commandInputs(c.old, executable), commandInputs(c.new, executable)
	added := slices.DeleteFunc(value.Keys(after), func(name string) bool { return before[name] })
	if before != nil && len(added) > 0 {
		c.addMissing("executable-inputs", pos, c.oldInstalled(),
			"executable %q may need the inputs %s, which existing bindings lack", executable, diag.Names(added))
	}
}

// commandInputs returns the set of the names of all inputs that an executable, with this name, receives as the command
// of binds in the services of a pak. The variables of outputs, which the command does not receive, are left out. The
// result is nil if no bind has this command, and empty if such binds have no inputs.
func commandInputs(pak *brokerpak.Pak, executable string) map[string]bool {
	var names map[string]bool
	for _, service := range pak.Services {
		if service.Bind.Command != executable {
			continue
		}
		if names == nil {
			names = map[string]bool{}
		}
		for _, name := range service.Bind.InputNames() {
			if !strings.HasPrefix(name, hclfile.OutputVariable) {
				names[name] = true
			}
		}
	}
	return names
}

// addMissing adds a finding about a binary without which instances and bindings of the old pak cannot be deleted, and
// which the new pak lacks or runs differently. rule and pos are those of the finding. format and args result in a
// clause, to which the consequence is appended. provided means that one of the installed paks can still delete them
// with its binary; the finding is then safe. If provided is false, the verdict is "breaks" if the installed paks are
// known, and "needs upgrade" if c.installed is empty.
func (c *comparison) addMissing(rule string, pos diag.Pos, provided bool, format string, args ...any) {
	switch {
	case provided:
		c.add(safe, rule, pos, format+"; an installed pak provides it", args...)
	case len(c.installed) > 0:
		c.add(breaks, rule, pos, format+", and no installed pak provides it; "+c.keepOld(), args...)
	default:
		c.add(needsUpgrade, rule, pos, format+"; "+c.keepOld(), args...)
	}
}

// keepOld returns the advice to keep the old pak installed, as the end of a message: "keep NAME VERSION in `paks` until
// no resource that it created exists".
func (c *comparison) keepOld() string {
	old := c.old.Manifest
	return "keep " + old.Name + " " + old.Version + " in `paks` until no resource that it created exists"
}

// oldInstalled reports whether one of the installed paks has the name and the version of the old pak. If so, the
// adapter destroys the bindings and instances of the old pak with that pak's binaries, so that the new pak does not
// need them. The result is false if the installed paks are not known, so that c.installed is empty.
func (c *comparison) oldInstalled() bool {
	return slices.ContainsFunc(c.installed, func(pak *brokerpak.Pak) bool {
		return pak.Manifest.Name == c.old.Manifest.Name && pak.Manifest.Version == c.old.Manifest.Version
	})
}

// replacement returns the address of the provider that replaces another provider in states, according to the manifest
// of the new pak. fqn is the full address HOST/NAMESPACE/TYPE of the replaced provider; the hosts
// registry.terraform.io and registry.opentofu.org count as the same. Replacements by a provider that the new pak does
// not contain are ignored. The result is "" if no other replacement matches. If several match, it is that of the
// first replaced address in alphabetical order.
func (c *comparison) replacement(fqn string) string {
	replacements := c.new.Manifest.ProviderReplacements
	for _, old := range value.Keys(replacements) {
		isReplaced := opentofu.Provider{FQN: fqn}.SameProvider(opentofu.Provider{FQN: old})
		if isReplaced && len(bundled.Providers(c.new, replacements[old])) > 0 {
			return replacements[old]
		}
	}
	return ""
}
