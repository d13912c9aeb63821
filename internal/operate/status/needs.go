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

// A Pak describes an installed pak, with the reasons to keep it installed while all others stay installed. A pak
// without reasons can be removed from the configuration; Needed is then false and Needs empty. It is an element of the
// list "paks" in the JSON of `status`.
type Pak struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Path    string `json:"path"`
	// Tofu is the default version of the pak's OpenTofu, and "" for a pak without one.
	Tofu   string `json:"tofu_version,omitempty"`
	Needed bool   `json:"needed"`
	Needs  []Need `json:"needs"`
}

// A Need is one reason to keep a pak installed: its kind (template, opentofu, provider, command or unknown), the name
// of the required service, provider or command, the version of the provider or OpenTofu, and the numbers of stored
// bindings and service instances that have this need, which are 0 for a template. The constants below explain the
// kinds. A Need is an element of the JSON of `status`. The zero value is not a reason.
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

// A requirement holds the recorded properties of stored bindings and service instances that determine which paks their
// destruction and their upgrade require: the pak and the OpenTofu version, the providers and the template. Items with
// equal properties share a requirement, which contains their numbers.
type requirement struct {
	lifecycle.AppliedWith
	// providers are those that the record names and that the template uses.
	providers []opentofu.Provider
	// files is the recorded template.
	files               map[string]string
	bindings, instances int
}

// A requirements collects the requirements of all stored bindings and service instances. It contains one requirement
// for all items with the same recorded properties, and the number of items whose records cannot be read.
// newRequirements returns one; the zero value is not usable.
type requirements struct {
	// byKey contains the requirements by the properties on which they depend.
	byKey map[string]*requirement
	// used contains the short addresses of the providers of each template, by the digest of the template.
	used map[string][]string
	// unreadable counts the items whose requirements are not known.
	unreadable Need
}

// newRequirements returns a new, empty requirements, to which its method add adds stored bindings and service
// instances.
func newRequirements() *requirements {
	return &requirements{
		byKey: map[string]*requirement{}, used: map[string][]string{}, unreadable: Need{What: NeedUnknown},
	}
}

// add adds a stored binding or service instance to the requirements, and returns the first 12 characters of the digest
// of its recorded template, by which the page of `status` identifies the template. If its record cannot be read, add
// returns "" and counts it in r.unreadable.
func (r *requirements) add(stored *lifecycle.Stored) (template string) {
	if stored.Record == nil {
		countItem(&r.unreadable.Bindings, &r.unreadable.Instances, stored.Kind)
		return ""
	}
	record := stored.Record
	digest := brokerpak.Digest(record.Templates)
	applied := lifecycle.AppliedWith{Pak: stored.Pak, PakVersion: stored.PakVersion, Tofu: stored.Tofu}
	key := string(value.MustJSON([]any{applied, digest, record.Providers}))
	required := r.byKey[key]
	if required == nil {
		if _, inspected := r.used[digest]; !inspected {
			r.used[digest] = providersOf(record.Templates)
		}
		required = &requirement{AppliedWith: applied, files: record.Templates}
		for _, provider := range record.Providers {
			if slices.Contains(r.used[digest], bundled.ShortAddress(provider.FQN)) {
				required.providers = append(required.providers, provider)
			}
		}
		r.byKey[key] = required
	}
	countItem(&required.bindings, &required.instances, stored.Kind)
	return digest[:templateDigits]
}

// countItem adds one to *bindings if kind is lifecycle.Binding, and otherwise to *instances. Neither pointer may be
// nil.
func countItem(bindings, instances *int, kind lifecycle.Kind) {
	if kind == lifecycle.Binding {
		*bindings++
	} else {
		*instances++
	}
}

// providersOf returns the short addresses, such as "hashicorp/random", of the providers that a template uses, in no
// particular order. Providers that are built into OpenTofu are left out. files maps the names of the template's files
// to their contents. Of a file with syntax errors, only the parts that can be parsed are considered. The result is
// nil if no provider is used; an address can occur several times.
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

// needsOfPaks returns a description of each of the installed paks, in their order, with the reasons to keep it
// installed while all others stay installed. all contains the requirements of the stored bindings and service
// instances. A pak is needed for each of its services that no earlier pak has, because requests use the templates of
// the first pak that has the service. It is also needed for each requirement that all paks together meet better than
// the other paks alone; see addRequirement. Items whose requirements cannot be read are a reason to keep every pak.
// The result is empty, and not nil, without paks.
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

// A collectedNeeds is the set of reasons to keep one pak. It maps each reason without its numbers to the same reason
// with the numbers of bindings and instances, which the method add sums up. An empty map means that the pak is not
// needed; a nil map is not usable.
type collectedNeeds map[Need]Need

// add adds a need to c. If c contains a need of the same kind, name and version, the numbers of bindings and instances
// are added to that need instead.
func (c collectedNeeds) add(need Need) {
	key := Need{What: need.What, Name: need.Name, Version: need.Version}
	sum := c[key]
	key.Bindings, key.Instances = sum.Bindings+need.Bindings, sum.Instances+need.Instances
	c[Need{What: need.What, Name: need.Name, Version: need.Version}] = key
}

// sorted returns a new slice of the needs, sorted by their kinds in the order template, OpenTofu, provider, command,
// unknown, and then by name and version. Without needs it is empty and not nil.
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

// addRequirement adds the reasons to keep pak that result from required, the requirement of some stored bindings and
// instances. all are the installed paks, and others the same paks without pak. A reason is an OpenTofu that can read
// the states, a provider, or a command of the recorded template, if the paks in all provide it, and those in others do
// not, or only in a version or with arguments that may not fit.
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

// A match ranks how well a pak provides a provider or a command; a greater value is better. absent, the zero value,
// means that the pak does not provide it. uncertain means that the pak has only older or incompatible versions of the
// provider, or an executable that may take other arguments. suitable means that the pak has the recorded version of the
// provider or a newer, compatible one, or an executable that takes the recorded arguments; see providerMatch and
// commandMatch.
type match int

const (
	absent match = iota
	// uncertain means an older or incompatible version of a provider, which may not read what the recorded one created,
	// or an executable that may take other arguments.
	uncertain
	suitable
)

// bestOf returns the greatest match that any of the paks has for required, which is a provider or a command. A match is
// a rank and does not identify a pak. matchOf returns the match of one pak. Without paks the result is absent.
func bestOf[R any](paks []*brokerpak.Pak, required R, matchOf func(*brokerpak.Pak, R) match) match {
	best := absent
	for _, pak := range paks {
		best = max(best, matchOf(pak, required))
	}
	return best
}

// providerMatch returns how well pak provides a recorded provider: suitable if the pak bundles the recorded version or
// a newer one with the same major version (and for 0.x also the same minor version), uncertain if it bundles only other
// versions, and absent if it does not bundle the provider.
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

// A command is an executable that the recorded template of stored bindings or instances runs, with the command lines in
// which the template does so. name is the name of the executable in terraform_binaries of a manifest.
type command struct {
	name string
	// lines are the command lines of the template; see bundled.Commands.
	lines []string
}

// commandMatch returns how well pak provides a command. The match is absent if the pak does not bundle an executable of
// this name. It is suitable if the templates of the pak do not run the executable, or if they contain all command lines
// of run. It is uncertain if one of these lines is missing from them, because the executable may then accept other
// arguments.
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
