package build

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"service-adapter/brokerpak"
	"service-adapter/internal/author/release"
	"service-adapter/internal/value"
)

// A jobManifest is the text of a manifest template with jobs of releases, and the inputs, secrets and BOSH variables
// that their properties refer to. Each property of a job has its description as a comment, and
//
//   - a property with a default is a comment with the default, so that later versions of the release may change it;
//   - a password or another secret is a generated secret of the definition;
//   - a certificate with its private key, and a private key alone, are a variable that BOSH generates, if a template of
//     the job needs one of them, and otherwise a comment, because such values usually turn on a feature;
//   - any other property is an input of plans. It is required if a template of the job needs a value. Otherwise it is
//     null unless a plan sets it, which BOSH treats as a property that is not set.
type jobManifest struct {
	text      strings.Builder
	names     variableNames
	inputs    []input
	secrets   []string
	variables []boshVariable
	notes     []string
}

// A boshVariable is a variable that BOSH generates. Type is certificate, rsa or ssh.
type boshVariable struct{ Name, Type string }

// A propertyNode is a key in the properties of a job. A node with children is a mapping.
type propertyNode struct {
	children map[string]*propertyNode
	// property is the declaration of the property with this name. It is nil for a mapping that is not declared.
	property *release.Property
	// reference is the value of the property in the manifest, a reference with its parentheses. It is "" for a property
	// that is a comment.
	reference string
}

// isSet reports whether the manifest contains the node, because it or a node below it has a reference.
func (n *propertyNode) isSet() bool {
	for _, child := range n.children {
		if child.isSet() {
			return true
		}
	}
	return n.reference != ""
}

// notef adds a note. The format must begin with "decide:" if the note asks for a decision.
func (m *jobManifest) notef(format string, args ...any) {
	m.notes = append(m.notes, fmt.Sprintf(format, args...))
}

// line appends a line to the manifest, indented by a number of levels of two blanks each.
func (m *jobManifest) line(level int, text string) {
	m.text.WriteString(strings.Repeat("  ", level) + text + "\n")
}

// jobLevel is the indentation of a job in the manifest, and propertyLevel that of its properties.
const jobLevel, propertyLevel = 1, 3

// addJob appends a job with its properties to the manifest, and adds the inputs, secrets and BOSH variables to which
// they refer to m; jobManifest says which property becomes which of these. A property whose name contains a key that
// plainName does not match is left out with a note. A secret with a default gets a note as well; see input and variable
// for further notes.
func (m *jobManifest) addJob(job *release.Job) {
	m.line(jobLevel, "- name: "+job.Name)
	root := &propertyNode{}
	required := requiredProperties(job)
	job = withNestedReads(job, required)
	generated, mappings := m.generatedByBosh(job, required), mappingsOf(job)
	for _, name := range value.Keys(job.Properties) {
		path := strings.Split(name, ".")
		if slices.ContainsFunc(path, func(key string) bool { return !plainName.MatchString(key) }) {
			m.notef("the property %q of the job %s is left out, because of its name", name, job.Name)
			continue
		}
		property := job.Properties[name]
		node := root.descendant(path)
		node.property = &property
		switch {
		case property.HasDefault:
			if text, _ := property.Default.(string); namedSecret(path) && text != "" {
				m.notef("decide: the secret property %s of the job %s has a default, which everybody who has the "+
					"release knows", name, job.Name)
			}
		case mappings[name]: // its parts are properties of their own
		case generated[name] != "":
			node.reference = generated[name]
		case isKeyOrCertificate(path, property) && !required[name]:
		case (namedSecret(path) || property.Type == "password") && !isKeyOrCertificate(path, property):
			node.reference = m.secret(path)
		default:
			node.reference = m.input(job, name, property, required[name])
		}
	}
	if len(root.children) == 0 {
		return
	}
	if root.isSet() {
		m.line(jobLevel+1, "properties:")
	} else {
		m.line(jobLevel+1, "properties: {}")
	}
	m.writeProperties(root, strings.Repeat("  ", propertyLevel), "")
}

// descendant returns the node at a path below n. It creates the nodes that are missing.
func (n *propertyNode) descendant(path []string) *propertyNode {
	for _, key := range path {
		if n.children == nil {
			n.children = map[string]*propertyNode{}
		}
		if n.children[key] == nil {
			n.children[key] = &propertyNode{}
		}
		n = n.children[key]
	}
	return n
}

// mappingsOf returns the dotted names of all mappings in which a property of the job is nested.
func mappingsOf(job *release.Job) map[string]bool {
	mappings := map[string]bool{}
	for name := range job.Properties {
		for at := strings.LastIndex(name, "."); at >= 0; at = strings.LastIndex(name, ".") {
			name = name[:at]
			mappings[name] = true
		}
	}
	return mappings
}

// requiredProperties returns whether a property is required, by its name: a template of the job fails without it if all
// other properties have their defaults. Properties that templates read only under conditions which the defaults do not
// satisfy are false. Properties that templates never read, or read with a default, are not in the map.
func requiredProperties(job *release.Job) map[string]bool {
	required := map[string]bool{}
	for _, read := range job.Reads() {
		skipped := slices.ContainsFunc(read.Conditions, func(condition release.Condition) bool {
			isTrue := job.Properties[condition.Property].Default == true
			return isTrue == condition.Negated
		})
		required[read.Property] = required[read.Property] || !skipped
	}
	return required
}

// withNestedReads returns a copy of the job that also declares each required property below a declared property without
// a default, such as tls.server.ca if the spec declares only tls.server. Such a property has neither a description nor
// a default. required is the result of requiredProperties. The job is not modified.
func withNestedReads(job *release.Job, required map[string]bool) *release.Job {
	extended := *job
	extended.Properties = maps.Clone(job.Properties)
	for name := range required {
		ancestor := name
		for at := strings.LastIndex(ancestor, "."); at >= 0 && required[name]; at = strings.LastIndex(ancestor, ".") {
			ancestor = ancestor[:at]
			_, exists := extended.Properties[name]
			if declared, isDeclared := job.Properties[ancestor]; isDeclared && !declared.HasDefault && !exists {
				extended.Properties[name] = release.Property{}
			}
		}
	}
	return &extended
}

// name returns a unique name of an input, a secret or a variable for the property at a path of keys, and marks it as
// taken. See choose for the characters of the name.
func (m *jobManifest) name(path []string) string {
	return m.names.choose([]string{strings.Trim(strings.Join(path, "_"), "_")})
}

// secret adds a generated secret of the definition for the property at a path of keys to m.secrets, and returns its
// reference, "((NAME))".
func (m *jobManifest) secret(path []string) string {
	name := m.name(path)
	m.secrets = append(m.secrets, name)
	return "((" + name + "))"
}

// changeMe is the value of an input that the author has to replace.
const changeMe = "change-me"

// input adds an input of plans for the property with a dotted name to m.inputs, and returns its reference, "((NAME))".
// The plan has a value only if the property is required: the example of the spec, unless it contains a reference or an
// expression, or else a sample value of the type, or else changeMe. A required input gets a note.
func (m *jobManifest) input(job *release.Job, name string, property release.Property, required bool) string {
	added := input{
		Name: m.name(strings.Split(name, ".")), Type: inputType(property), Required: required,
		Details: oneComment(property.Description),
	}
	if added.Details == "" {
		added.Details = fmt.Sprintf("The property %s of the job %s", name, job.Name)
	}
	if required {
		var sample any = changeMe
		switch text := string(value.MustJSON(property.Example)); {
		case property.Example != nil && !strings.Contains(text, "((") && !strings.Contains(text, "${"):
			sample = property.Example
		case added.Type != "" && added.Type != "string":
			sample = brokerpak.Variable{Type: added.Type}.SampleValue()
		}
		added.Value = flow(sample)
		m.notef("decide: ((%s)) is an input of plans, because the job %s needs its property %s; its value in the plan "+
			"is a sample", added.Name, job.Name, name)
	}
	m.inputs = append(m.inputs, added)
	return "((" + added.Name + "))"
}

// inputType returns the type of the input for a property: that of its example, or else the type in the spec, with
// "object" for "hash". It returns "", which allows any type, if neither of them is a type that inputs can have.
func inputType(property release.Property) string {
	types := []string{"string", "integer", "number", "boolean", "array", "object"}
	if property.Example != nil {
		kind := value.Kind(property.Example) // such as "an integer"
		kind = kind[strings.LastIndex(kind, " ")+1:]
		if slices.Contains(types, kind) {
			return kind
		}
	}
	if property.Type == "hash" {
		return "object"
	}
	if slices.Contains(types, property.Type) {
		return property.Type
	}
	return ""
}

// writeProperties appends the children of a node to the manifest, sorted by key, each after its description as a
// comment. margin is the indentation. comment is "" for lines that are set in the manifest. Otherwise it is "# " and
// the indentation inside of the comment, and all children are parts of that comment: a mapping without references is a
// comment as a whole. A property without a reference is a comment with its default.
func (m *jobManifest) writeProperties(node *propertyNode, margin, comment string) {
	for _, key := range value.Keys(node.children) {
		child := node.children[key]
		if child.property != nil {
			for line := range strings.Lines(child.property.Description) {
				if line = oneComment(line); line != "" {
					m.text.WriteString(margin + comment + "# " + line + "\n")
				}
			}
		}
		below := comment
		if below == "" && !child.isSet() {
			below = "# "
		}
		m.text.WriteString(margin + below + quotedKey(key) + ":")
		switch {
		case len(child.children) > 0:
			m.text.WriteString("\n")
			if below == "" {
				m.writeProperties(child, margin+"  ", "")
			} else {
				m.writeProperties(child, margin, below+"  ")
			}
		case child.reference != "":
			m.text.WriteString(" " + child.reference + "\n")
		default:
			m.text.WriteString(defaultComment(*child.property) + "\n")
		}
	}
}

// quotedKey returns a key as a YAML scalar, in quotes only if it needs them.
func quotedKey(key string) string {
	text, _ := word(key) // a plain name can be encoded
	return text
}

// defaultComment returns the default of a property for a comment, after a blank: the value as JSON, or a remark on its
// length if it has more than 200 bytes. It returns "" for a property without a default.
func defaultComment(property release.Property) string {
	const longest = 200
	text := oneComment(string(value.MustJSON(property.Default)))
	switch {
	case !property.HasDefault:
		return ""
	case len(text) > longest:
		return fmt.Sprintf(" # the default has %d characters", len(text))
	default:
		return " " + text
	}
}

// oneComment returns a text on one line, for a comment in a template. Runs of white space and of characters that are
// not printable become one blank. "((" and "${" are torn apart by a blank, so that the comment contains no reference
// and no expression.
func oneComment(text string) string {
	text = strings.Map(func(char rune) rune {
		if unicode.IsGraphic(char) && char != unicode.ReplacementChar {
			return char
		}
		return ' '
	}, text)
	text = strings.Join(strings.Fields(text), " ")
	for strings.Contains(text, "((") {
		text = strings.ReplaceAll(text, "((", "( (")
	}
	return strings.ReplaceAll(text, "${", "$ {")
}

// writeVariables appends the section of the variables that BOSH generates to the manifest, if there are any.
func (m *jobManifest) writeVariables() {
	if len(m.variables) == 0 {
		return
	}
	m.line(0, "variables:")
	for _, variable := range m.variables {
		m.line(0, "- name: "+quotedKey(variable.Name))
		m.line(1, "type: "+variable.Type)
		if variable.Type == "certificate" {
			m.line(1, "options: {is_ca: true, common_name: "+quotedKey(variable.Name)+"}")
		}
	}
}
