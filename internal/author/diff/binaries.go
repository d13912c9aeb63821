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

// compareBinaries adds findings about the providers and the other executables that the two paks bundle, but not about
// OpenTofu. Bindings and instances are destroyed with the template and the providers of the pak that created them, so
// what the new pak lacks must remain available in an older pak.
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

// compareProvider adds a finding about a provider of the old pak if the new pak does not have the same version of it.
// The change is safe if the new pak replaces the provider by another one in states, if the new version is compatible,
// or if the old pak is installed. Any other version needs an upgrade. See addMissing for a provider that the new pak
// lacks.
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
		}), "provider %q %s is gone", before.ProviderFQN, before.Version)
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

// compareExecutable adds findings about an executable of the old pak: that the new pak lacks it, that it has another
// version, that it has other inputs as the command of a bind, or that the templates of the new pak no longer run it
// with the arguments of an old template. The last is reported once at most, and only if the new templates still run the
// executable. Another version alone is safe; see addMissing for the other verdicts.
func (c *comparison) compareExecutable(before brokerpak.Binary) {
	after, ok := bundled.Executable(c.new, before.Name)
	if !ok {
		c.addMissing("executable-removed", before.Pos, slices.ContainsFunc(c.installed, func(pak *brokerpak.Pak) bool {
			_, ok := bundled.Executable(pak, before.Name)
			return ok
		}), "executable %q is gone", before.Name)
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
				"executable %q may take other arguments, because no template runs %s any longer",
				before.Name, shorten(command))
			return
		}
	}
}

// compareInputs adds a finding about an executable that is the command of a bind in both paks, if it has inputs in the
// new pak that it lacks in the old one: a binding of the old pak is deleted with the inputs that its record has. See
// addMissing for the verdict. pos is the position of the executable in the new pak.
func (c *comparison) compareInputs(executable string, pos diag.Pos) {
	before, after := commandInputs(c.old, executable), commandInputs(c.new, executable)
	added := slices.DeleteFunc(value.Keys(after), func(name string) bool { return before[name] })
	if before != nil && len(added) > 0 {
		c.addMissing("executable-inputs", pos, c.oldInstalled(),
			"executable %q may need the inputs %s, which existing bindings lack", executable, diag.Names(added))
	}
}

// commandInputs returns the names of the inputs that an executable gets as the command of the binds of a pak. The
// variables of outputs, which the command does not get, are left out. The result is nil if no bind has this command.
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

// addMissing adds a finding about a binary of the old pak that the new pak lacks, and without which instances and
// bindings of the old pak cannot be deleted. format is a clause, to which the consequence is appended. provided means
// that one of the installed paks contains the binary, so that the change is safe. If it is false, the change breaks
// deletions if the installed paks are known, and else the finding is a warning.
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

// keepOld returns the advice to keep the old pak installed.
func (c *comparison) keepOld() string {
	old := c.old.Manifest
	return "keep " + old.Name + " " + old.Version + " in `paks` until nothing that it created is left"
}

// oldInstalled reports whether the old pak, identified by its name and version, is one of the installed paks. If it is,
// the adapter destroys the bindings and instances of the old pak with that pak's binaries, so that the new pak does not
// need them. It returns false if the installed paks are not known.
func (c *comparison) oldInstalled() bool {
	return slices.ContainsFunc(c.installed, func(pak *brokerpak.Pak) bool {
		return pak.Manifest.Name == c.old.Manifest.Name && pak.Manifest.Version == c.old.Manifest.Version
	})
}

// replacement returns the provider that replaces a provider in states according to the manifest of the new pak. It
// returns "" if there is none, or if the new pak does not contain it.
func (c *comparison) replacement(fqn string) string {
	for old, replacement := range c.new.Manifest.ProviderReplacements {
		isReplaced := opentofu.Provider{FQN: fqn}.SameProvider(opentofu.Provider{FQN: old})
		if isReplaced && len(bundled.Providers(c.new, replacement)) > 0 {
			return replacement
		}
	}
	return ""
}
