package lint

import (
	"iter"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/expr"
	"service-adapter/internal/diag"
	"service-adapter/internal/value"
	"service-adapter/internal/vars"
	"service-adapter/internal/yamltree"
)

// A templateDocument is a parsed BOSH template: the manifest template or an ops file. root is never nil; a template
// that cannot be parsed is not represented.
type templateDocument struct {
	brokerpak.Document
	root *yaml.Node
}

// documents checks the BOSH templates without rendering them, adds the findings to c.diags and the files to c.files,
// and sets c.documentTrees to the templates that are valid YAML. It reports whether the templates can be rendered: it
// returns false if a text is missing or if a text has errors. The service must have a bosh section.
func (c *serviceCheck) documents() bool {
	missing, faults := false, &diag.List{}
	var documents []templateDocument
	for _, text := range c.service.Provision.Bosh.Documents() {
		if text.Text == "" {
			missing = true // reported by the parser
			continue
		}
		c.files[text.Pos.File] = true
		root, findings := text.Tree()
		faults.Append(findings)
		if root != nil {
			documents = append(documents, templateDocument{text, root})
		}
	}
	types := c.variableTypes()
	declared := declaredVariables(documents, types, faults)
	for _, document := range documents {
		document.variables(document.root, types, declared, faults)
	}
	c.diags.Append(faults)
	c.planOwned(documents)
	c.documentTrees = documents
	c.rotatedAuthorities(documents)
	return !missing && !faults.HasErrors()
}

// ownedByPlan matches the path of a key of an instance group whose value the broker's plan sets. The submatch is the
// key.
var ownedByPlan = regexp.MustCompile(`^/instance_groups/name=[^/]+/(instances|vm_type|vm_resources|azs)\??$`)

// planOwned warns about keys of instance groups that templates set although the broker's plan replaces their values.
// Ops files for the completed manifest may set these keys, because they are applied after the plan.
func (c *serviceCheck) planOwned(documents []templateDocument) {
	warn := func(document templateDocument, node *yaml.Node, key string) {
		c.diags.Warnf(document.At(node.Line, node.Column), "plan-owned",
			"the broker's plan replaces %s of an instance group, so this value is lost; "+
				"instance_groups of provision.bosh can compute it", key)
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
				if node, _ := yamltree.Get(group, key); node != nil {
					warn(document, node, key)
				}
			}
		}
	}
}

// declaredVariables returns the names of BOSH variables that the documents declare under `variables:`, including those
// that ops files add. A name may be contained several times. It adds an error to faults for each name that is a key of
// taken, because an input or a secret has it.
func declaredVariables(documents []templateDocument, taken map[string]string, faults *diag.List) (declared []string) {
	for _, document := range documents {
		for _, name := range document.declarations() {
			declared = append(declared, name.Value)
			if _, ok := taken[name.Value]; ok {
				faults.Errorf(document.At(name.Line, name.Column), "bosh-variable",
					"variable %q under variables has the name of an input or secret, which would replace it; "+
						"rename one", name.Value)
			}
		}
	}
	return declared
}

// declarations yields the variables that the document declares under `variables:`, including those that an ops file
// adds: the mapping of each and the node of its name, in the order of the document.
func (d templateDocument) declarations() iter.Seq2[*yaml.Node, *yaml.Node] {
	var added []*yaml.Node
	if _, list := yamltree.Get(d.root, "variables"); list != nil {
		added = append(added, list)
	}
	for _, operation := range operations(d.root) {
		if strings.HasPrefix(operation.path, "/variables") {
			added = append(added, operation.added)
		}
	}
	return func(yield func(entry, name *yaml.Node) bool) {
		for _, node := range added { // a list of variables, or a single one
			for _, entry := range append([]*yaml.Node{node}, node.Content...) {
				if _, name := yamltree.Get(entry, "name"); name != nil && !yield(entry, name) {
					return
				}
			}
		}
	}
}

// rotatedAuthorities warns about references to the certificate of an authority, ((CA.certificate)), if a variable of
// the documents is a certificate that the authority signs. The key "ca" of that variable contains all authorities that
// are trusted during a rotation.
func (c *serviceCheck) rotatedAuthorities(documents []templateDocument) {
	signed := map[string]string{} // the first variable that an authority signs, by the name of the authority
	for _, document := range documents {
		for entry, name := range document.declarations() {
			_, options := yamltree.Get(entry, "options")
			_, authority := yamltree.Get(options, "ca")
			if authority != nil && authority.Value != "" && signed[authority.Value] == "" {
				signed[authority.Value] = name.Value
			}
		}
	}
	for _, document := range documents {
		document.eachReference(document.root, func(node *yaml.Node, at int, reference string) {
			name, key := vars.Split(reference)
			if leaf := signed[name]; leaf != "" && key == "certificate" {
				c.diags.Warnf(document.position(node, at), "rotated-authority",
					"%s is one authority at any time; ((%s.ca)) contains the old and the new one during a rotation",
					reference, leaf)
			}
		})
	}
}

// eachReference calls visit for each ((variable)) in the scalars below a node of the document, with its scalar and its
// offset in the value of the scalar.
func (d templateDocument) eachReference(node *yaml.Node, visit func(node *yaml.Node, at int, reference string)) {
	for _, child := range node.Content {
		d.eachReference(child, visit)
	}
	if node.Kind != yaml.ScalarNode {
		return
	}
	for _, match := range vars.Reference.FindAllStringIndex(node.Value, -1) {
		visit(node, match[0], node.Value[match[0]:match[1]])
	}
}

// variableTypes returns the variables that BOSH templates can use without declaring them: inputs, plan properties,
// references, secrets and the outputs of the provision template. The value is the type of an input, or "" if the type
// is not known or if several declarations of an input differ. The service must have a bosh section.
func (c *serviceCheck) variableTypes() map[string]string {
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

// variables adds an error to faults for each invalid ((variable)) below a node of the document. See variableFault for
// types and declared.
func (d templateDocument) variables(node *yaml.Node, types map[string]string, declared []string, faults *diag.List) {
	d.eachReference(node, func(node *yaml.Node, at int, reference string) {
		if text, hint, names := variableFault(reference, reference == node.Value, types, declared); text != "" {
			faults.Errorf(d.position(node, at), "bosh-variable", "%s %s%s%s", reference, text, hint, names)
		}
	})
}

// position returns the position in the file of a byte of a scalar's value.
func (d templateDocument) position(node *yaml.Node, offset int) diag.Pos {
	at := brokerpak.Document(expr.SourceOf(node, "", strings.Split(d.Text, "\n"))).AtByte(offset)
	return d.At(at.Line, at.Column)
}

// variableFault returns the reason why a reference such as "((name))" is invalid, as the end of a sentence that begins
// with the reference. It is invalid if BOSH cannot interpolate it, if neither types nor declared contains its name, or
// if an input that is a boolean, an object or an array is only a part of a text. text is "" if it is valid; an absolute
// CredHub path is always valid. hint and names complete the sentence and may be empty. whole means that the value
// consists of the reference alone. types are the results of variableTypes, and declared the declared BOSH variables.
func variableFault(
	reference string, whole bool, types map[string]string, declared []string,
) (text string, hint diag.Hint, names string) {
	name, reason := vars.ReferenceName(reference, whole)
	if reason != "" {
		return reason, "", ""
	}
	if strings.HasPrefix(name, "/") {
		return "", "", "" // a path of CredHub, which the operator must allow
	}
	name, key, _ := strings.Cut(name, ".")
	typ, isInput := types[name]
	switch {
	case !isInput && !slices.Contains(declared, name):
		all := slices.Concat(value.Keys(types), declared)
		return "is neither an input, a secret nor declared under variables",
			diag.Suggest(name, all), "; there are " + diag.Names(all)
	case isInput && !whole && key == "" && (typ == "boolean" || typ == "object" || typ == "array"):
		return "has the type " + typ + ", which BOSH cannot put into a text; " +
			"make it the whole value, or a computed input of type string", "", ""
	default:
		return "", "", ""
	}
}
