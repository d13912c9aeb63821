package paklint

import (
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/expr"
	"service-adapter/brokerpak/vars"
	"service-adapter/internal/diag"
	"service-adapter/internal/value"
	"service-adapter/internal/yamltree"
)

// templateDocument is a YAML text that is interpolated.
type templateDocument struct {
	brokerpak.Document
	root *yaml.Node
}

// documents checks the texts of the BOSH templates without rendering them, and tells whether they can be rendered.
func (c *serviceCheck) documents() bool {
	missing, faults := false, &diag.List{}
	var documents []templateDocument
	for _, text := range c.service.Provision.Bosh.Documents() {
		if text.Text == "" {
			missing = true // reported by the parser
			continue
		}
		c.files[text.Pos.File] = true
		root, found := text.Tree()
		faults.Append(found)
		if root != nil {
			documents = append(documents, templateDocument{text, root})
		}
	}
	known := c.interpolated()
	declared := declaredVariables(documents, known, faults)
	for _, document := range documents {
		document.variables(document.root, known, declared, faults)
	}
	c.diags.Append(faults)
	c.planOwned(documents)
	return !missing && !faults.HasErrors()
}

// ownedByPlan is the path of what a plan says of an instance group; the group is its last part.
var ownedByPlan = regexp.MustCompile(`^/instance_groups/name=[^/]+/(instances|vm_type|vm_resources|azs)\??$`)

// planOwned warns of what templates set and the plan replaces. Ops files for the completed manifest have the last word.
func (c *serviceCheck) planOwned(documents []templateDocument) {
	warn := func(document templateDocument, node *yaml.Node, key string) {
		c.diags.Warnf(document.At(node.Line, node.Column), "plan-owned",
			"%s of an instance group is the plan's, so this is lost; instance_groups of provision.bosh can compute it", key)
	}
	for _, document := range documents {
		if slices.ContainsFunc(c.service.Provision.Bosh.Ops, func(ops brokerpak.Conditional) bool {
			return ops.Completed && ops.Document.Pos == document.Pos && ops.Document.Text == document.Text
		}) {
			continue
		}
		for _, operation := range operations(document.root) {
			if key := ownedByPlan.FindStringSubmatch(operation.path); key != nil {
				warn(document, operation.added, key[1])
			}
		}
		_, groups := yamltree.Get(document.root, "instance_groups")
		if groups == nil {
			continue
		}
		for _, group := range groups.Content {
			for _, key := range []string{"instances", "vm_type", "vm_resources", "azs"} {
				if at, _ := yamltree.Get(group, key); at != nil {
					warn(document, at, key)
				}
			}
		}
	}
}

// declaredVariables are the names under `variables:` of all documents; ops files add some. A name that is taken is a fault.
func declaredVariables(documents []templateDocument, taken map[string]string, faults *diag.List) (declared []string) {
	note := func(document templateDocument, entry *yaml.Node) {
		if _, name := yamltree.Get(entry, "name"); name != nil {
			declared = append(declared, name.Value)
			if _, ok := taken[name.Value]; ok {
				faults.Errorf(document.At(name.Line, name.Column), "bosh-variable",
					"variable %q under variables has the name of an input or secret, which would replace it; rename one", name.Value)
			}
		}
	}
	for _, document := range documents {
		var added []*yaml.Node
		if _, list := yamltree.Get(document.root, "variables"); list != nil {
			added = append(added, list)
		}
		for _, operation := range operations(document.root) {
			if strings.HasPrefix(operation.path, "/variables") {
				added = append(added, operation.added)
			}
		}
		for _, one := range added {
			note(document, one)
			for _, entry := range one.Content {
				note(document, entry)
			}
		}
	}
	return declared
}

// interpolated are the inputs, secrets and outputs of OpenTofu that templates can use, with the type of the input; "" where it
// may be any.
func (c *serviceCheck) interpolated() map[string]string {
	action := &c.service.Provision
	names := typesOf(action, "", func(typ string, _ bool) string { return typ })
	for _, plan := range c.service.Plans {
		for _, name := range value.Keys(plan.Properties) {
			if _, ok := names[name]; !ok {
				names[name] = ""
			}
		}
	}
	for _, reference := range action.Bosh.References {
		names[reference.Name] = "string"
	}
	for _, secret := range action.Bosh.Secrets {
		names[secret.Name] = ""
	}
	for _, output := range c.provision.Outputs {
		names[output] = ""
	}
	return names
}

// variables checks every ((variable)) of a tree of the document.
func (d templateDocument) variables(node *yaml.Node, known map[string]string, declared []string, faults *diag.List) {
	for _, child := range node.Content {
		d.variables(child, known, declared, faults)
	}
	if node.Kind != yaml.ScalarNode {
		return
	}
	for _, at := range vars.Reference.FindAllStringIndex(node.Value, -1) {
		found := node.Value[at[0]:at[1]]
		if text, hint, names := variableFault(found, found == node.Value, known, declared); text != "" {
			faults.Errorf(d.place(node, at[0]), "bosh-variable", "%s %s%s%s", found, text, hint, names)
		}
	}
}

// place is where a byte of a scalar stands.
func (d templateDocument) place(node *yaml.Node, offset int) diag.Pos {
	at := brokerpak.Document(expr.SourceOf(node, "", strings.Split(d.Text, "\n"))).AtByte(offset)
	return d.At(at.Line, at.Column)
}

// variableFault says what is wrong with a variable, as the end of a sentence; "" for nothing. A hint and the known names may follow.
func variableFault(found string, whole bool, known map[string]string, declared []string) (text string, hint diag.Hint, names string) {
	name, wrong := vars.ReferenceName(found, whole)
	if wrong != "" {
		return wrong, "", ""
	}
	if strings.HasPrefix(name, "/") {
		return "", "", "" // a path of CredHub, which the operator must allow
	}
	name, below, _ := strings.Cut(name, ".")
	typ, isInput := known[name]
	switch {
	case !isInput && !slices.Contains(declared, name):
		all := slices.Concat(value.Keys(known), declared)
		return "is neither an input, a secret nor declared under variables", diag.Suggest(name, all), "; there are " + diag.Names(all)
	case isInput && !whole && below == "" && (typ == "boolean" || typ == "object" || typ == "array"):
		return "has the type " + typ + ", which BOSH cannot put into a text; make it the whole value, or a computed input of type string", "", ""
	default:
		return "", "", ""
	}
}
