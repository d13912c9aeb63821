package status

import (
	"cmp"
	"slices"

	"service-adapter/adapter/session"
	"service-adapter/brokerpak"
	"service-adapter/internal/bundled"
	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/hclfile"
	"service-adapter/internal/value"
)

// A Pak is an installed pak and the reasons to keep it. A pak without such reasons can be removed from the
// configuration, while all others stay installed.
type Pak struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Path    string `json:"path"`
	// Tofu is the default version of the pak's OpenTofu, and "" for a pak without one.
	Tofu   string `json:"tofu_version,omitempty"`
	Needed bool   `json:"needed"`
	Needs  []Need `json:"needs"`
}

// A Need is a reason to keep a pak installed.
type Need struct {
	// What is the kind of the reason, one of the constants below.
	What string `json:"what"`
	// Name is the name of the service, provider or command, and Version that of the provider or OpenTofu. They are ""
	// where they do not apply.
	Name    string `json:"name,omitempty"`
	Version string `json:"version,omitempty"`
	// Bindings and Instances are the numbers of items with this need; both are 0 for NeedTemplate.
	Bindings  int `json:"bindings"`
	Instances int `json:"instances"`
}

// The values of Need.What.
const (
	// NeedTemplate means that requests for the service use the templates of this pak.
	NeedTemplate = "template"
	// NeedOpenTofu means that without this pak no OpenTofu that is new enough would work on the states of the items.
	NeedOpenTofu = "opentofu"
	// NeedProvider means that no other pak has the provider in the recorded version or a compatible newer one.
	NeedProvider = "provider"
	// NeedCommand means that the templates of the items run a command that no other pak has, or that may take other
	// arguments in all other paks.
	NeedCommand = "command"
	// NeedUnknown means that the needs of the items are not known, because their states or records are unreadable.
	NeedUnknown = "unknown"
)

// A requirement holds the recorded properties of stored items that determine which paks their destruction and upgrade
// require. Items with equal requirements are counted together in bindings and instances.
type requirement struct {
	lifecycle.AppliedWith
	// providers are those that the record names and that the template uses.
	providers []opentofu.Provider
	// files is the recorded template.
	files               map[string]string
	bindings, instances int
}

// requirements collects the requirements of stored items.
type requirements struct {
	// byKey contains the requirements by the properties on which they depend.
	byKey map[string]*requirement
	// used contains the short addresses of the providers of each template, by the digest of the template.
	used map[string][]string
	// unreadable counts the items whose requirements are not known.
	unreadable Need
}

// newRequirements returns empty requirements.
func newRequirements() *requirements {
	return &requirements{
		byKey: map[string]*requirement{}, used: map[string][]string{}, unreadable: Need{What: NeedUnknown},
	}
}

// add counts a stored item in the requirements, and returns the identification of its template; see Group.Template. For
// an item whose record cannot be read it returns "" and counts the item in r.unreadable.
func (r *requirements) add(stored *lifecycle.Stored) (template string) {
	if stored.Record == nil {
		countItem(&r.unreadable.Bindings, &r.unreadable.Instances, stored.Kind)
		return ""
	}
	record := stored.Record
	digest := brokerpak.Digest(record.Templates)
	applied := lifecycle.AppliedWith{Pak: stored.Pak, PakVersion: stored.PakVersion, Tofu: stored.Tofu}
	key := string(value.MustJSON([]any{applied, digest, record.Providers}))
	found := r.byKey[key]
	if found == nil {
		if _, inspected := r.used[digest]; !inspected {
			r.used[digest] = providersOf(record.Templates)
		}
		found = &requirement{AppliedWith: applied, files: record.Templates}
		for _, provider := range record.Providers {
			if slices.Contains(r.used[digest], bundled.ShortAddress(provider.FQN)) {
				found.providers = append(found.providers, provider)
			}
		}
		r.byKey[key] = found
	}
	countItem(&found.bindings, &found.instances, stored.Kind)
	return digest[:templateDigits]
}

// countItem adds one to *bindings if the kind is that of bindings, and otherwise to *instances.
func countItem(bindings, instances *int, kind lifecycle.Kind) {
	if kind == lifecycle.Binding {
		*bindings++
	} else {
		*instances++
	}
}

// providersOf returns the short addresses of the providers that a template uses, without those that are built into
// OpenTofu, in no particular order. files are the contents of the template's files by name. Defects of the template are
// ignored.
func providersOf(files map[string]string) []string {
	module, _ := hclfile.Inspect(files) // the template was applied with OpenTofu
	var addresses []string
	for name := range module.Providers {
		if address := bundled.SourceOf(module, name); address != "" {
			addresses = append(addresses, address)
		}
	}
	return addresses
}

// needsOfPaks returns the paks, in their order, with the reasons to keep each of them while all others stay installed.
// Items whose needs are not known are a reason to keep every pak. The result is not nil.
func needsOfPaks(paks []*brokerpak.Pak, all *requirements) []Pak {
	result := []Pak{}
	for n, pak := range paks {
		tofu, _ := pak.Manifest.DefaultVersion() // "" for a pak without OpenTofu
		needs := collectedNeeds{}
		for _, service := range pak.Services {
			isService := func(other *brokerpak.Service) bool { return other.Name == service.Name }
			if first, _ := session.FindService(paks, isService); first == pak {
				needs.add(Need{What: NeedTemplate, Name: service.Name})
			}
		}
		others := slices.Delete(slices.Clone(paks), n, n+1)
		for _, required := range all.byKey {
			needs.addRequirement(pak, paks, others, required)
		}
		if all.unreadable.Bindings+all.unreadable.Instances > 0 {
			needs.add(all.unreadable)
		}
		sorted := needs.sorted()
		result = append(result, Pak{
			Name: pak.Manifest.Name, Version: pak.Manifest.Version, Path: pak.Path, Tofu: tofu,
			Needed: len(sorted) > 0, Needs: sorted,
		})
	}
	return result
}

// collectedNeeds are the reasons to keep one pak. The keys are the reasons without numbers. The numbers of equal
// reasons are added up.
type collectedNeeds map[Need]Need

// add adds a need. If an equal need is present, the numbers of bindings and instances are added to it.
func (c collectedNeeds) add(need Need) {
	key := Need{What: need.What, Name: need.Name, Version: need.Version}
	sum := c[key]
	key.Bindings, key.Instances = sum.Bindings+need.Bindings, sum.Instances+need.Instances
	c[Need{What: need.What, Name: need.Name, Version: need.Version}] = key
}

// sorted returns the needs in the order template, OpenTofu, provider, command, unknown, and then by name and version.
// The result is not nil.
func (c collectedNeeds) sorted() []Need {
	order := []string{NeedTemplate, NeedOpenTofu, NeedProvider, NeedCommand, NeedUnknown}
	needs := []Need{}
	for _, need := range c {
		needs = append(needs, need)
	}
	slices.SortFunc(needs, func(a, b Need) int {
		return cmp.Or(
			cmp.Compare(slices.Index(order, a.What), slices.Index(order, b.What)),
			cmp.Compare(a.Name, b.Name), opentofu.Compare(a.Version, b.Version), cmp.Compare(a.Version, b.Version),
		)
	})
	return needs
}

// addRequirement adds the needs that items with a requirement have of a pak. A need is something that all paks together
// provide and the others, which are all without pak, do not provide, or not as well: an OpenTofu that works on the
// states, a provider, or a command.
func (c collectedNeeds) addRequirement(pak *brokerpak.Pak, all, others []*brokerpak.Pak, required *requirement) {
	need := func(what, name, version string) {
		c.add(Need{
			What: what, Name: name, Version: version, Bindings: required.bindings, Instances: required.instances,
		})
	}
	reads := func(paks []*brokerpak.Pak) bool {
		version := lifecycle.TofuFor(paks, required.Pak, required.PakVersion)
		return version != "" && !opentofu.Older(version, required.Tofu)
	}
	if reads(all) && !reads(others) {
		tofu, _ := pak.Manifest.DefaultVersion() // an OpenTofu that reads the states exists
		need(NeedOpenTofu, "", tofu)
	}
	for _, provider := range required.providers {
		if bestOf(others, provider, providerMatch) < bestOf(all, provider, providerMatch) {
			need(NeedProvider, provider.FQN, provider.Version)
		}
	}
	for _, binary := range pak.Manifest.Binaries {
		if binary.Kind() != brokerpak.OtherBinary {
			continue
		}
		lines := bundled.Commands(required.files, binary.Name)
		run := command{name: binary.Name, lines: lines}
		if len(lines) > 0 && bestOf(others, run, commandMatch) < bestOf(all, run, commandMatch) {
			need(NeedCommand, binary.Name, "")
		}
	}
}

// A match is how well a pak provides something. A greater value is better.
type match int

const (
	absent match = iota
	// uncertain means another version of a provider, which may not read what the recorded one created, or an
	// executable that may take other arguments.
	uncertain
	suitable
)

// bestOf returns the best match of the paks with a requirement, as matchOf determines it for each pak, and absent
// without paks.
func bestOf[R any](paks []*brokerpak.Pak, required R, matchOf func(*brokerpak.Pak, R) match) match {
	best := absent
	for _, pak := range paks {
		best = max(best, matchOf(pak, required))
	}
	return best
}

// providerMatch returns how well a pak provides a recorded provider. The recorded version and a compatible newer one
// are suitable, as for `pak diff`. Any other version is uncertain. The match is absent if the pak does not have the
// provider.
func providerMatch(pak *brokerpak.Pak, recorded opentofu.Provider) match {
	best := absent
	for _, binary := range bundled.Providers(pak, recorded.FQN) {
		if binary.FileVersion() == recorded.Version || bundled.Compatible(recorded.Version, binary.Version) {
			return suitable
		}
		best = uncertain
	}
	return best
}

// A command is an executable that a recorded template runs.
type command struct {
	name string
	// lines are the command lines of the template; see bundled.Commands.
	lines []string
}

// commandMatch returns how well a pak provides a command, by the rules of `pak diff`. An executable of the pak is
// suitable if the templates of the pak do not run it, or if they contain all recorded command lines. It is uncertain if
// a recorded command line is missing from them. Without the executable, the match is absent.
func commandMatch(pak *brokerpak.Pak, run command) match {
	if _, ok := bundled.Executable(pak, run.name); !ok {
		return absent
	}
	current := bundled.PakCommands(pak, run.name)
	missing := func(line string) bool { return !slices.Contains(current, line) }
	if len(current) == 0 || !slices.ContainsFunc(run.lines, missing) {
		return suitable
	}
	return uncertain
}
