package build

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
	"service-adapter/internal/yamltree"
)

// A Note is one remark of InitFrom about the conversion of a BOSH manifest into a pak: how a value was converted, or a
// decision that is left to the author. Text is a sentence without a final period; it begins with "decide:" if the
// author has to decide. Pos is the position of the value in the BOSH manifest. A Note is never an error.
type Note struct {
	Pos  diag.Pos
	Text string
}

// An adoption is the state of one conversion of a BOSH manifest into the manifest template of a pak. It contains the
// manifest, which becomes the template, the notes for the author, the errors, and the inputs, secrets and CredHub
// references that the definition of the pak must declare. The zero value is not usable, because its maps are nil; adopt
// creates and returns it.
type adoption struct {
	document brokerpak.Document
	root     *yaml.Node // the manifest, which becomes the template
	notes    []Note
	faults   diag.List

	group      string // the name of the first instance group that is not an errand
	names      variableNames
	declared   map[string]bool        // the names of the variables that the template declares under variables:
	literals   map[string]string      // the reference that replaces a secret, by the secret
	paired     map[*yaml.Node]bool    // mappings and lists whose certificates belong to the variable of a private key
	unknown    map[string]*undeclared // variables that the manifest does not declare, by their names in the manifest
	secrets    map[string]bool        // the names of the generated secrets of the definition
	carried    []carriedSecret        // the entries of carry_over of the definition, sorted by name
	inputs     []input                // the plan inputs of the definition
	references []string               // absolute CredHub paths, in the order of the manifest
	referenced map[string]bool        // the elements of references
}

// An input is a plan input that the definition of a generated pak declares. It has a name, a type such as "string", or
// "" if every type is allowed, a description on one line, whether a plan must have a value, and the value in the
// generated plan as YAML on one line, or "" if that plan has none.
type input struct {
	// Type is "" if every type is allowed.
	Name, Type string
	// Details is a description on one line.
	Details string
	// Required reports whether the plan must have a value.
	Required bool
	// Value is the value in the plan as YAML on one line. It is "" if the plan has none.
	Value string
}

// adopt converts a BOSH manifest, whose text and position document contains, into a manifest template with its inputs,
// secrets and references. The document is not modified. Text that YAML parsers interpret differently is converted with
// a note and is not an error. The notes of the result are sorted by position.
//
// The error is a diag.Errors. It contains the other defects of the YAML text, such as a syntax error or a repeated key.
// If the text has none, it contains the defects of the structure: no list instance_groups or an empty one, an instance
// group without a name that plainName matches, a job without a name, or errands only. If the manifest has none of these
// either, it contains the references that BOSH cannot interpolate. The result is nil or incomplete if there is an
// error, and must not be used.
func adopt(document brokerpak.Document) (*adoption, error) {
	a := &adoption{
		document: document, names: variableNames{taken: map[string]bool{}, suffixes: map[string]int{}},
		declared: map[string]bool{}, literals: map[string]string{}, paired: map[*yaml.Node]bool{},
		unknown: map[string]*undeclared{},
		secrets: map[string]bool{}, referenced: map[string]bool{},
	}
	root, diags := document.Tree()
	ambiguous := map[diag.Pos]bool{}
	for _, finding := range diags.All() {
		if finding.Rule == "yaml-ambiguous" {
			ambiguous[finding.Pos] = true
		} else {
			a.faults.Add(finding)
		}
	}
	if err := a.faults.Err(); err != nil {
		return nil, err
	}
	a.root = root
	scalars(nil, root, func(_ []string, node, _ *yaml.Node) {
		if ambiguous[document.At(node.Line, node.Column)] {
			a.readAsBosh(node)
		}
	})
	a.removeDeploymentKeys()
	if err := a.faults.Err(); err != nil {
		return nil, err
	}
	a.collectNames()
	scalars(nil, root, a.replaceSecrets)
	scalars(nil, root, a.copyReplacer())
	scalars(nil, root, a.replaceVariables)
	a.declareUnknown()
	a.carrySecrets()
	restyle(root)
	slices.SortStableFunc(a.notes, func(x, y Note) int {
		return cmp.Or(cmp.Compare(x.Pos.Line, y.Pos.Line), cmp.Compare(x.Pos.Column, y.Pos.Column))
	})
	return a, a.faults.Err()
}

// notef appends a note to a.notes, at the position of a node of the manifest, with a text that is formatted as by
// fmt.Sprintf. The format must begin with "decide:" if the note asks the author for a decision.
func (a *adoption) notef(node *yaml.Node, format string, args ...any) {
	a.notes = append(a.notes, Note{a.document.At(node.Line, node.Column), fmt.Sprintf(format, args...)})
}

// manifestRule is the rule of the findings about a BOSH manifest that cannot be converted.
const manifestRule = "bosh-manifest"

// errorf adds an error to a.faults, at the position of a node of the manifest, with a message that is formatted as by
// fmt.Sprintf and the rule manifestRule. The conversion continues; adopt returns all added errors later.
func (a *adoption) errorf(node *yaml.Node, format string, args ...any) {
	a.faults.Errorf(a.document.At(node.Line, node.Column), manifestRule, format, args...)
}

// replaceScalar replaces the content of a scalar node in place. The node keeps its position, but not its style and
// comments. A string that the YAML library would read as another type, such as "true", is written in quotes. Any
// other content must be a scalar that a YAML library decodes, such as a boolean, a number or nil, and is written
// without quotes; nil becomes null.
func replaceScalar(node *yaml.Node, content any) {
	replacement := textNode(fmt.Sprint(content))
	if _, isText := content.(string); !isText {
		_ = replacement.Encode(content) // a value that YAML decoded can be encoded
	}
	replacement.Line, replacement.Column = node.Line, node.Column
	*node = *replacement
}

// readAsBosh replaces a scalar that YAML parsers interpret differently by the value that the BOSH CLI reads, such as
// "yes" by true, and adds a note. A scalar that the YAML library of the BOSH CLI cannot parse becomes a string with
// the same text, and is not an error. The caller chooses the scalars; readAsBosh does not check whether a scalar is
// ambiguous.
func (a *adoption) readAsBosh(node *yaml.Node) {
	var content any
	if err := yaml2.Unmarshal([]byte(node.Value), &content); err != nil {
		content = node.Value
	}
	replaceScalar(node, content)
	a.notef(node, "written as the BOSH CLI reads it, because YAML parsers interpret it differently")
}

// templateKeys are the top-level keys of a manifest that the template keeps. The broker sets all others, or BOSH does
// not have them.
var templateKeys = []string{ //nolint:gochecknoglobals // a constant table
	"addons", "features", "instance_groups", "properties", "stemcells", "tags", "update", "variables",
}

// planKeys are the keys of an instance group that the broker's plan sets.
var planKeys = []string{ //nolint:gochecknoglobals // a constant table
	"instances", "vm_type", "vm_resources", "azs", "networks", "persistent_disk", "persistent_disk_type",
	"migrated_from",
}

// removeDeploymentKeys removes from the manifest the parts that the broker and its plans set, and the top-level keys
// that BOSH does not have: all top-level keys except templateKeys, all keys of stemcells except alias (and os, if the
// manifest has several stemcells), the keys of instance groups that set their size and networks (planKeys), and the
// key release of all jobs, also of those in addons. It adds a note for each removed top-level key, and another one
// for the first group that is not an errand, whose name it stores in a.group. The key stemcells and each instance
// group with a plain name get one note each, even if they lose no keys.
//
// It adds an error, and removes nothing, if the manifest has no list of instance groups or an empty one. Other errors,
// which do not stop the removal, are those of convertGroup and removeReleases: a group without a plain name, or a job
// of a group or addon without a name. If all groups and their jobs are valid, it is an error that all groups are
// errands.
func (a *adoption) removeDeploymentKeys() {
	groups := get(a.root, "instance_groups")
	if groups == nil || groups.Kind != yaml.SequenceNode || len(groups.Content) == 0 {
		a.errorf(a.root, "the manifest has no list instance_groups; "+
			"one of version 1, with jobs and resource_pools, must be converted first")
		return
	}
	for _, key := range removeKeys(a.root, func(key string) bool { return !slices.Contains(templateKeys, key) }) {
		a.notef(key, "%s: left out, because the broker sets it or BOSH has no such key", key.Value)
	}
	if stemcells := get(a.root, "stemcells"); stemcells != nil {
		a.notef(stemcells, "stemcells: their aliases are kept; the broker sets their versions")
		for _, stemcell := range stemcells.Content {
			removeKeys(stemcell, func(key string) bool {
				return key != "alias" && (key != "os" || len(stemcells.Content) == 1)
			})
		}
	}
	for _, group := range groups.Content {
		a.convertGroup(group)
	}
	if a.group == "" && !a.faults.HasErrors() {
		a.errorf(groups, "all instance groups are errands, so there is nothing to bind to")
	}
	if addons := get(a.root, "addons"); addons != nil {
		for _, addon := range addons.Content {
			a.removeReleases(addon)
		}
	}
}

// plainName matches names that need no escapes in YAML and in paths. Some need quotes in YAML; see quotedKey.
var plainName = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

// convertGroup removes from an instance group the keys that the broker's plan sets (planKeys, such as instances, azs
// and networks), and the key release from its jobs. It adds a note with the names of the jobs and the removed values,
// even if there are none. If a.group is "" and the group is not an errand, convertGroup sets a.group to the name of
// the group and adds a second note.
//
// If the group is not a mapping with a name of letters, digits and the characters - _ . only (plainName), convertGroup
// changes nothing and only adds an error. In any other group, each job without a name is an error.
func (a *adoption) convertGroup(group *yaml.Node) {
	name := get(group, "name")
	if name == nil || yamltree.IsNull(name) || !plainName.MatchString(name.Value) {
		a.errorf(group,
			"an instance group must be a mapping with a name of letters, digits and the characters - _ . only; "+
				"the broker's plans refer to the group by that name")
		return
	}
	if lifecycle := get(group, "lifecycle"); a.group == "" && (lifecycle == nil || lifecycle.Value != "errand") {
		a.group = name.Value
		a.notef(name, "decide: which credentials a binding contains; now it contains the addresses of %q as hosts",
			a.group)
	}
	var removed []string
	for _, key := range planKeys {
		if value := get(group, key); value != nil {
			removed = append(removed, key+" "+flowText(value))
			remove(group, key)
		}
	}
	jobs := a.removeReleases(group)
	a.notef(name, "instance group %q: kept with its jobs %s; the broker's plan sets its size, which was: %s",
		name.Value, diag.Names(jobs), cmp.Or(strings.Join(removed, ", "), "nothing"))
}

// removeReleases removes the key release from each job of owner, the mapping of an instance group or an addon, because
// the broker sets it. It returns the names of the jobs in the order of the manifest, or nil if owner has no key jobs or
// no job has a name. It adds an error to a.faults for a job without a name, which is missing from the result.
func (a *adoption) removeReleases(owner *yaml.Node) []string {
	var names []string
	jobs := get(owner, "jobs")
	if jobs == nil {
		return nil
	}
	for _, job := range jobs.Content {
		if name := get(job, "name"); name != nil && !yamltree.IsNull(name) {
			names = append(names, name.Value)
		} else {
			a.errorf(job, "a job must be a mapping with a name")
		}
		remove(job, "release")
	}
	return names
}

// flowText returns a node as YAML on one line, such as "[z1, z2]", for a message: each run of white space becomes a
// blank, also within texts. The node is not modified.
func flowText(node *yaml.Node) string {
	flow := *node
	flow.Style |= yaml.FlowStyle
	text, _ := yaml.Marshal(&flow) // a node that was parsed can be encoded
	return strings.Join(strings.Fields(string(text)), " ")
}
