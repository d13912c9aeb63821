package doc

import (
	"cmp"
	"slices"
	"strings"

	"github.com/cppforlife/go-patch/patch"
	"gopkg.in/yaml.v2"

	"service-adapter/brokerpak"
	"service-adapter/internal/value"
	"service-adapter/internal/vars"
)

// A sharedLink is a BOSH link that a job of an instance group shares with other deployments (provides: {LINK: {shared:
// true}}). Name is the name of the link, and Group that of the instance group; both may be placeholders in an address.
// The Director reports addresses of shared links only.
type sharedLink struct{ Name, Group string }

// An address is an entry of binding_with_dns of a plan: the broker sends the address of the entry's shared link to the
// adapter with each bind. Name is the name that bind expressions use for it. Note is the text of a comment on the
// entry, without "#", or "" for no comment.
type address struct {
	Name string
	Link sharedLink
	Note string
}

// DNS returns the entries of binding_with_dns for a plan: one for each name in c.Addresses, in their order. If the jobs
// in the plan's manifest share exactly one link (see sharedLinks), every entry has this link. Otherwise the entries
// have placeholders, and their notes say that no link is shared or list the shared links. The result is nil if
// c.Addresses is empty, because bind expressions name no addresses, even if they read all addresses.
func (c catalog) DNS(plan brokerpak.Plan) []address {
	var entries []address
	links := sharedLinks(c.Service, plan)
	for _, name := range c.Addresses {
		entry := address{Name: name, Link: sharedLink{placeholder + "link_provider", placeholder + "instance_group"}}
		switch len(links) {
		case 0:
			entry.Note = "The manifest shares no link. The Director has addresses only of links whose job has " +
				"provides: {LINK: {shared: true}}."
		case 1:
			entry.Link = links[0]
		default:
			entry.Note = "The manifest shares " + strings.Join(value.Convert(links, func(link sharedLink) string {
				return link.Name + " of " + link.Group
			}), ", ") + "."
		}
		entries = append(entries, entry)
	}
	return entries
}

// sharedLinks returns the links that jobs of instance groups share in the manifest of an instance of the plan whose
// user sets no parameters, sorted by the names of the links and then of the groups. A link with an alias (`as`) has the
// alias as its name. The manifest is the template, changed by the ops files of vars.OpsOfPlan; an ops file that is
// invalid or cannot be applied is skipped, because package lint reports it. sharedLinks returns nil if no link is
// shared, if the service has no provision.bosh section, or if the manifest template is not valid YAML.
func sharedLinks(service *brokerpak.Service, plan brokerpak.Plan) []sharedLink {
	if service.Provision.Bosh == nil {
		return nil
	}
	var manifest any
	if yaml.Unmarshal([]byte(service.Provision.Bosh.Manifest.Text), &manifest) != nil {
		return nil
	}
	for _, document := range vars.OpsOfPlan(service, plan) {
		var definitions []patch.OpDefinition
		if yaml.Unmarshal([]byte(document.Text), &definitions) != nil {
			continue
		}
		if ops, err := patch.NewOpsFromDefinitions(definitions); err == nil {
			if changed, err := ops.Apply(manifest); err == nil {
				manifest = changed
			}
		}
	}
	root, _ := value.Normalise(manifest).(map[string]any)
	var links []sharedLink
	for _, group := range value.Mappings(root["instance_groups"]) {
		for _, job := range value.Mappings(group["jobs"]) {
			provides, _ := job["provides"].(map[string]any)
			for name, item := range provides {
				if link, _ := item.(map[string]any); link["shared"] == true {
					name = cmp.Or(value.Text(link["as"]), name)
					links = append(links, sharedLink{name, value.Text(group["name"])})
				}
			}
		}
	}
	slices.SortFunc(links, func(a, b sharedLink) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Group, b.Group))
	})
	return links
}

// A disk describes the persistent disk of an instance group in a plan; see Disk. At most one of its fields is set:
// Omitted if the group needs no disk, or Check, the text of the first check of the definition that calls
// plan.has_disk for the group. The check may require or forbid the disk, so that the operator must read it. The zero
// value means that the definition does not decide whether the group needs a disk, and that the operator must.
type disk struct {
	Omitted bool
	Check   string
}

// Disk returns the disk of the instance group with a name, according to the calls of plan.has_disk("GROUP") in the
// checks of the definition, in their order. The service must have a provision.bosh section. There are these cases:
//   - A call for this group comes before any call with a computed argument: Check is the text of the first check with
//     such a call.
//   - A call with a computed argument comes before any call for this group, or there is no call: the result is the zero
//     value, so that the operator must decide.
//   - All calls concern other groups: the group needs no disk, and Omitted is true.
func (c catalog) Disk(group string) disk {
	var need disk
	for _, check := range c.Provision.Bosh.Checks {
		if check.That == nil {
			continue
		}
		for _, call := range check.That.Calls() {
			switch {
			case call.Name != "plan.has_disk":
			case call.Arg(0) == group:
				return disk{Check: check.That.Text()}
			case call.Arg(0) == "":
				return disk{}
			default:
				need.Omitted = true
			}
		}
	}
	return need
}

// addresses returns the names that binding_with_dns must contain because expressions of the bind action, or of outputs
// in provision.bosh, use them: those of bosh.address("NAME") and bosh.dns["NAME"] or bosh.dns.NAME. The names are
// sorted and without duplicates; nil means none. If the argument of bosh.address is computed, the name is the
// placeholder REPLACE_ME_name. all is true if an expression reads bosh.dns as a whole or with a computed key, so that
// the operator may add more names.
func addresses(service *brokerpak.Service) (names []string, all bool) {
	for _, template := range service.BindExpressions() {
		for _, call := range template.Calls() {
			if call.Name == "bosh.address" {
				names = append(names, cmp.Or(call.Arg(0), placeholder+"name"))
			}
		}
		for _, reference := range template.References() {
			if name, ok := reference.KeyOf("bosh.dns"); ok && name != "" {
				names = append(names, name)
			} else if ok {
				all = true
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), all
}
