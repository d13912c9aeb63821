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

// A sharedLink is a link that a job of an instance group shares with other deployments. The Director reports the
// addresses of such links only.
type sharedLink struct{ Name, Group string }

// An address is an entry of binding_with_dns of a plan. Note is a comment on it, or "".
type address struct {
	Name string
	Link sharedLink
	Note string
}

// DNS returns the entries of binding_with_dns that the binds of a plan need, in the order of their names. An entry has
// the link that jobs of the plan share if there is exactly one; otherwise it has placeholders, and its note says why.
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

// sharedLinks returns the links that jobs share in the manifest of an instance whose user sets no parameters, sorted.
// It returns nil if there are none, or if the manifest template is not YAML. An ops file that cannot be applied is
// ignored, because package lint reports it.
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

// A disk describes the persistent disk of an instance group in a plan. Omitted means that the group needs none. Check
// is the condition of the definition that concerns the disk, or "".
type disk struct {
	Omitted bool
	Check   string
}

// Disk returns the disk of an instance group, according to the checks of the definition that call plan.has_disk. A
// group needs no disk if checks concern only the disks of other groups. If there is no such check, or if a call
// computes its argument, the operator must decide, and the result is the zero value.
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

// addresses returns the sorted names, without duplicates, that binding_with_dns must contain because bind expressions
// use them: those of bosh.address("NAME") and bosh.dns["NAME"]. If the argument of bosh.address is computed, the name
// is a placeholder. all is true if an expression reads bosh.dns as a whole or with a computed key, so that the operator
// may add more names.
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
