package pakbuild

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	yaml2 "gopkg.in/yaml.v2"
	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
)

// Note says what became of something in a manifest of which a pak was made, as a sentence without a final period.
type Note struct {
	Pos  diag.Pos
	Text string
}

// adoption makes the manifest template of a BOSH manifest, and finds out what its definition has to declare.
type adoption struct {
	document brokerpak.Document
	root     *yaml.Node // the manifest, which becomes the template
	notes    []Note
	faults   diag.List

	group      string                 // the first instance group that keeps running
	taken      map[string]bool        // names of variables
	declared   map[string]bool        // those under variables:
	literals   map[string]string      // a secret of the manifest → the variable in its place
	unknown    map[string]*undeclared // variables that are declared nowhere, by their names in the manifest
	secrets    []string
	inputs     []input
	references []string // paths of CredHub
}

// input is an input of plans that the definition declares, with its value in the plan, in JSON.
type input struct{ Name, Type, Value string }

// adopt reads a BOSH manifest. The error is a diag.Errors with all that is wrong in it.
func adopt(document brokerpak.Document) (*adoption, error) {
	a := &adoption{
		document: document, taken: map[string]bool{}, declared: map[string]bool{}, literals: map[string]string{}, unknown: map[string]*undeclared{},
	}
	root, diags := document.Tree()
	unclear := map[diag.Pos]bool{}
	for _, found := range diags.All() {
		if found.Rule == "yaml-ambiguous" {
			unclear[found.Pos] = true
		} else {
			a.faults.Add(found)
		}
	}
	if err := a.faults.Err(); err != nil {
		return nil, err
	}
	a.root = root
	scalars(nil, root, func(_ []string, node, _ *yaml.Node) {
		if unclear[document.At(node.Line, node.Column)] {
			a.readAsBosh(node)
		}
	})
	a.deployment()
	if err := a.faults.Err(); err != nil {
		return nil, err
	}
	a.names()
	for _, step := range []visitor{a.secret, a.copies, a.variables} {
		scalars(nil, root, step)
	}
	a.declare()
	restyle(root)
	slices.SortStableFunc(a.notes, func(x, y Note) int {
		return cmp.Or(cmp.Compare(x.Pos.Line, y.Pos.Line), cmp.Compare(x.Pos.Column, y.Pos.Column))
	})
	return a, a.faults.Err()
}

func (a *adoption) notef(node *yaml.Node, format string, args ...any) {
	a.notes = append(a.notes, Note{a.document.At(node.Line, node.Column), fmt.Sprintf(format, args...)})
}

func (a *adoption) errorf(node *yaml.Node, format string, args ...any) {
	a.faults.Errorf(a.document.At(node.Line, node.Column), "bosh-manifest", format, args...)
}

// write replaces a scalar, whose place stays known.
func write(node *yaml.Node, content any) {
	written := textNode(fmt.Sprint(content))
	if _, isText := content.(string); !isText {
		_ = written.Encode(content) // what was read can be written
	}
	written.Line, written.Column = node.Line, node.Column
	*node = *written
}

// readAsBosh writes a scalar that readers of YAML disagree about as BOSH's command reads it, so that all read the same.
func (a *adoption) readAsBosh(node *yaml.Node) {
	var read any
	if err := yaml2.Unmarshal([]byte(node.Value), &read); err != nil {
		read = node.Value
	}
	write(node, read)
	a.notef(node, "written as BOSH's command reads it, because readers of YAML disagree about it")
}

// kept are the keys of a manifest that a template has. The broker says all others, or they are none of BOSH's.
var kept = []string{"addons", "features", "instance_groups", "properties", "stemcells", "tags", "update", "variables"} //nolint:gochecknoglobals // a constant table

// ofPlan are the keys of an instance group that the broker's plan says.
var ofPlan = []string{"instances", "vm_type", "vm_resources", "azs", "networks", "persistent_disk", "persistent_disk_type", "migrated_from"} //nolint:gochecknoglobals // a constant table

// deployment takes out of the manifest what the plan and the broker say, and reports it.
func (a *adoption) deployment() {
	groups := get(a.root, "instance_groups")
	if groups == nil || groups.Kind != yaml.SequenceNode || len(groups.Content) == 0 {
		a.errorf(a.root, "the manifest has no list instance_groups; one of version 1, with jobs and resource_pools, must be converted first")
		return
	}
	for _, key := range take(a.root, func(key string) bool { return !slices.Contains(kept, key) }) {
		a.notef(key, "%s: left out, because the broker says it or it is no part of a deployment", key.Value)
	}
	if stemcells := get(a.root, "stemcells"); stemcells != nil {
		a.notef(stemcells, "stemcells: their aliases are kept, the broker says their versions")
		for _, stemcell := range stemcells.Content {
			take(stemcell, func(key string) bool { return key != "alias" && (key != "os" || len(stemcells.Content) == 1) })
		}
	}
	for _, group := range groups.Content {
		a.instanceGroup(group)
	}
	if a.group == "" && !a.faults.HasErrors() {
		a.errorf(groups, "all instance groups are errands, so there is nothing to bind to")
	}
	if addons := get(a.root, "addons"); addons != nil {
		for _, addon := range addons.Content {
			a.jobs(addon)
		}
	}
}

// plainName is a name that is written the same everywhere.
var plainName = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

func (a *adoption) instanceGroup(group *yaml.Node) {
	name := get(group, "name")
	if name == nil || !plainName.MatchString(name.Value) {
		a.errorf(group, "an instance group must be a mapping with a name of letters, digits and the characters - _ . only; the broker's plans call it by that")
		return
	}
	if lifecycle := get(group, "lifecycle"); a.group == "" && (lifecycle == nil || lifecycle.Value != "errand") {
		a.group = name.Value
		a.notef(name, "decide: what a binding gets; it gets the addresses of %q, as hosts", a.group)
	}
	var said []string
	for _, key := range ofPlan {
		if value := get(group, key); value != nil {
			said = append(said, key+" "+short(value))
			remove(group, key)
		}
	}
	jobs := a.jobs(group)
	a.notef(name, "instance group %q: kept with its jobs %s; the broker's plan says its size, which was: %s", name.Value, diag.Names(jobs), cmp.Or(strings.Join(said, ", "), "nothing"))
}

// jobs takes the releases out of the jobs of a group or an addon, and returns their names.
func (a *adoption) jobs(owner *yaml.Node) []string {
	var names []string
	jobs := get(owner, "jobs")
	if jobs == nil {
		return nil
	}
	for _, job := range jobs.Content {
		if name := get(job, "name"); name != nil {
			names = append(names, name.Value)
		} else {
			a.errorf(job, "a job must be a mapping with a name")
		}
		remove(job, "release")
	}
	return names
}

// short is a value in a note, in one line.
func short(node *yaml.Node) string {
	flow := *node
	flow.Style |= yaml.FlowStyle
	text, _ := yaml.Marshal(&flow) // what was read can be written
	return strings.Join(strings.Fields(string(text)), " ")
}
