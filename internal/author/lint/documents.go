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

// A templateDocument is a parsed YAML text of provision.bosh: the manifest template, an ops file or a BOSH config. root
// is its root node, which is never nil, because a text that is not valid YAML has no templateDocument. In root, aliases
// and merge keys are resolved.
type templateDocument struct {
	brokerpak.Document
	root *yaml.Node
}

// documents checks the BOSH templates of the service (the manifest template, the ops files and the BOSH configs)
// without rendering them: their YAML, the references ((variable)) and the declared variables, and the findings of
// planOwned and rotatedAuthorities. It adds the findings to c.diags and the files to c.files, and sets c.documentTrees
// to the templates that are valid YAML.
//
// documents reports whether the templates can be rendered. The result is false if the text of a template is empty,
// because its file is missing, which was reported before, or if a template has an error such as invalid YAML or an
// invalid ((variable)). Warnings do not change the result. The service must have a bosh section.
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

// planOwned adds a warning to c.diags wherever a document sets the key instances, vm_type, vm_resources or azs of an
// instance group, because the plan that the broker sends replaces the value. documents are all BOSH templates of the
// service that are valid YAML; planOwned skips the ops files for the completed manifest, which are applied after the
// plan.
//
// A manifest sets a key if an entry of its list instance_groups has the key. An ops file sets it if an operation with
// a value has the path of the key, such as /instance_groups/name=db/azs. Keys within a whole group that an operation
// adds are not reported, and neither are paths with an index instead of a name.
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

// declaredVariables returns the names of the BOSH variables that the documents declare under `variables:`, including
// those that ops files add, in the order of the documents. The result may contain a name several times, and is nil if
// there are none. The keys of taken are the names of inputs, secrets and other values of the service; for each declared
// name that is one of them, declaredVariables adds an error to faults.
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

// declarations yields the BOSH variables that the document declares: the entries of the list `variables` of a manifest,
// followed by those that the operations of an ops file add at a path that begins with /variables. Each pair is the
// mapping of a variable and the node of the value of its key name. Entries without a name are left out.
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

// rotatedAuthorities adds a warning to c.diags for each reference ((CA.certificate)) in the documents, if a variable of
// the documents names CA as its authority in options.ca. During a rotation, CA.certificate is only one of the trusted
// authorities. The warning recommends ((VARIABLE.ca)), which contains all of them, for the first VARIABLE that names
// CA.
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

// eachReference calls visit for each reference such as ((name)) in the scalars at and below node, keys of mappings
// included, even if BOSH cannot interpolate the reference because of its syntax. The arguments of visit are the
// scalar's node, the offset in bytes of the reference in the scalar's value, and the reference with its parentheses.
// node must not be nil.
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

// variableTypes returns the types of the variables that BOSH templates can use without declaring them, by name: the
// plan inputs, user inputs and computed inputs of the provision action, the properties and provision_overrides of the
// service's plans, the references and secrets of the bosh section, and the outputs of the provision template. The
// service must have a bosh section.
//
// The type of a name is, in the order of precedence:
//   - "", if the name is that of a secret or output
//   - "string", if it is that of a reference
//   - the declared type of the input with this name, such as "boolean", or "" if the input declares no type or a list
//     of types, or if several declarations differ
//   - "", for any other property or override of a plan
func (c *serviceCheck) variableTypes() map[string]string {
	action := &c.service.Provision
	names := typesOf(action, "", func(typ string, _ bool) string { return typ })
	for _, plan := range c.service.Plans {
		for _, name := range slices.Concat(value.Keys(plan.Properties), value.Keys(plan.ProvisionOverrides)) {
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

// variables adds an error to faults, at the position of the reference, for each invalid reference such as ((name)) at
// and below node, which must not be nil. A reference is invalid if BOSH cannot interpolate it because of its syntax,
// if its name is neither an absolute CredHub path nor a key of types nor one of declared, or if it inserts a whole
// boolean, object or array into a text; see variableFault. types are the types of the service's own variables, as
// variableTypes returns them, and declared the names of the declared BOSH variables.
func (d templateDocument) variables(node *yaml.Node, types map[string]string, declared []string, faults *diag.List) {
	d.eachReference(node, func(node *yaml.Node, at int, reference string) {
		if text, hint, names := variableFault(reference, reference == node.Value, types, declared); text != "" {
			faults.Errorf(d.position(node, at), "bosh-variable", "%s %s%s%s", reference, text, hint, names)
		}
	})
}

// position returns the position, in the file of the pak that contains the document, of a byte in the value of a scalar
// node. offset is the index of the byte, from 0 to the length of the value. If positions in the value are not known,
// for example in a folded scalar, position returns that of the scalar or of the document.
func (d templateDocument) position(node *yaml.Node, offset int) diag.Pos {
	at := brokerpak.Document(expr.SourceOf(node, "", strings.Split(d.Text, "\n"))).AtByte(offset)
	return d.At(at.Line, at.Column)
}

// variableFault returns the reason why a reference, such as "((name))" with its parentheses, is invalid, as the end of
// a sentence that begins with the reference. whole means that the reference is the complete value and not a part of a
// text. types are the results of variableTypes, and declared the names of the declared BOSH variables.
//
// A reference is invalid if BOSH cannot interpolate it because of its syntax (see vars.ReferenceName), or if its name
// is neither a key of types nor one of declared. A reference without a key, as in ((name)), to a boolean, object or
// array is also invalid if whole is false. An absolute CredHub path with valid syntax is always valid.
//
// text is "" if the reference is valid. If the name is unknown, names continues the sentence with the known names, of
// which at most nine are listed, and hint with a similar name, if there is one. Both are "" in all other cases.
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
