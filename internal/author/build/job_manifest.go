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

// A jobManifest is the text of a manifest template with jobs of BOSH releases, and the inputs, secrets and BOSH
// variables that their properties refer to, with notes for the author. InitRelease creates one and adds the jobs; the
// zero value is not usable, because the maps in names are nil. Each property of a job has its description as a
// comment. A template of the job needs a property if requiredProperties returns true for it. The first of these cases
// that applies decides what else is written:
//
//   - A property in which others are nested, such as tls if tls.cert is also a property, is only the mapping of
//     these.
//   - A property with a default is a comment with the default, so that later versions of the release may change it.
//   - A property of the type certificate, rsa or ssh is a variable that BOSH generates, if a template needs it. A
//     certificate and its private key, with the CA if there is one, are the parts of one such variable, if a
//     template needs one of them. So are a private key without a certificate whose name denotes a secret, and its
//     public key if there is one. See generatedByBosh.
//   - Any key or certificate that is not part of such a variable is a required input of plans if a template needs
//     it, and otherwise a comment, because such values usually turn on a feature.
//   - A password or another secret is a generated secret of the definition.
//   - Any other property is an input of plans. It is required if a template needs it. Otherwise it is null unless a
//     plan sets it, which BOSH treats as a property that is not set.
//
// A property is left out, with a note, if a key of its name has other characters than letters, digits and - _ .
// (plainName).
type jobManifest struct {
	text      strings.Builder
	names     variableNames
	inputs    []input
	secrets   []string
	variables []boshVariable
	notes     []string
}

// A boshVariable is an entry of the section variables of a manifest template, whose value BOSH generates. Name is the
// name in references, and Type is certificate, rsa or ssh.
type boshVariable struct{ Name, Type string }

// A propertyNode is a key in the properties of a job: a property, or a mapping that contains others. A node with
// children is a mapping. A node also has the declaration of its property, or nil, and the reference that is its value
// in the manifest. The reference of a mapping is "", and so is that of a property that is written as a comment; see
// isSet. The zero value is the root, or a mapping without a declaration, before children are added.
type propertyNode struct {
	children map[string]*propertyNode
	// property is the declaration of the property with this name. It is nil for a mapping that is not declared.
	property *release.Property
	// reference is the value of the property in the manifest, a reference with its parentheses. It is "" for a property
	// that is a comment.
	reference string
}

// isSet reports whether the manifest contains the node as a value and not only as a comment, because the node or a node
// below it has a reference. The node must not be nil.
func (n *propertyNode) isSet() bool {
	for _, child := range n.children {
		if child.isSet() {
			return true
		}
	}
	return n.reference != ""
}

// notef formats a note as fmt.Sprintf does and appends it to m.notes. The format must begin with "decide:" if the note
// asks the author for a decision.
func (m *jobManifest) notef(format string, args ...any) {
	m.notes = append(m.notes, fmt.Sprintf(format, args...))
}

// line appends a text and a line break to the manifest, indented by two blanks for each level; level 0 is not indented.
func (m *jobManifest) line(level int, text string) {
	m.text.WriteString(strings.Repeat("  ", level) + text + "\n")
}

// jobLevel is the indentation of a job in the manifest, and propertyLevel that of its properties.
const jobLevel, propertyLevel = 1, 3

// addJob appends a job with its properties to the text of the manifest, which must end with the key jobs of an
// instance group or with its previous job. It adds to m the inputs, secrets and BOSH variables to which the
// properties refer; see jobManifest for the properties that become each of these. It adds notes for a property that
// is left out because a key of its name has other characters than letters, digits and - _ . (plainName), for a
// property whose name denotes a secret and whose default is a text other than "", for each required input, and for
// each certificate that BOSH generates. The job is not modified.
func (m *jobManifest) addJob(job *release.Job) {
	m.line(jobLevel, "- name: "+quotedKey(job.Name))
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
				m.notef("decide: the secret property %s of the job %s has a default, which is public with the release",
					name, job.Name)
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

// descendant returns the node at a path of keys below n. It creates the nodes that are missing and adds them to the
// tree. For an empty path it returns n.
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

// mappingsOf returns the set of the dotted names of all mappings in which a property of the job is nested: "tls" and
// "tls.server" for the property "tls.server.ca". The map is empty, and not nil, if no name has a dot.
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

// requiredProperties returns the properties that the templates of a job read without a default argument, by their
// dotted names, and whether each of them is required. The value is true if a template executes such a read, and
// therefore fails when the property has no value, while all other properties have their defaults in the spec. It is
// false if the templates read the property only under conditions, such as tls.enabled, that these defaults do not
// satisfy. The value can be wrong if the property of a condition has a default other than a boolean, such as a text:
// that default counts as false, but Ruby treats every value except false and null as true.
//
// A default of the property itself does not matter: a property with a default in the spec may have the value true, so
// the caller must check Property.HasDefault. The map also contains names that the spec does not declare, such as
// tls.server.ca if it declares only tls.server. Properties that templates never read, or read only with a default
// argument or in a way that package release cannot analyse, are not in the map. The map is never nil.
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

// withNestedReads returns a copy of the job whose properties also include each required property below a declared
// property without a default, such as tls.server.ca if the spec declares only tls.server. An added property has neither
// a description nor a default. required is the result of requiredProperties for the job; only names with the value true
// count. The job and its map of properties are not modified.
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
// taken in m.names. The name consists of all keys, joined by underscores, with a number at the end if that is taken:
// "db_password" or "db_password_2". Characters that are not allowed in such names become underscores, and underscores
// and hyphens at both ends are removed; see allowedName. If nothing remains, the name is "secret", with a number if
// necessary.
func (m *jobManifest) name(path []string) string {
	return m.names.choose([]string{strings.Trim(strings.Join(path, "_"), "_")})
}

// secret appends a new generated secret of the definition, for the property at a path of keys, to m.secrets, and
// returns its reference, such as "((db_password))". The name is chosen by the method name.
func (m *jobManifest) secret(path []string) string {
	name := m.name(path)
	m.secrets = append(m.secrets, name)
	return "((" + name + "))"
}

// changeMe is the value of an input that the author has to replace.
const changeMe = "change-me"

// input appends a new input of plans, for the property of a job with a dotted name, to m.inputs, and returns its
// reference, such as "((db_port))". The input has a unique name (see the method name), the type of inputType, and as
// its description that of the property on one line, or else a text that names property and job. required means that a
// plan must have a value. Only then, the generated plan has a value for the input and the author gets a note. The
// value is the example in the spec, if there is one that contains neither "((" nor "${". Otherwise it is a sample
// value of the input's type, and "change-me" for a string or if the type is not known.
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

// inputType returns the type of the plan input for a property: "string", "integer", "number", "boolean", "array" or
// "object". It is the type of the example in the spec of the job, or else the type that the spec states, with "object"
// for "hash". It returns "", which means that the input allows every type, if neither of them is one of these types.
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

// writeProperties appends the children of a node, with all nodes below them, to the text of the manifest. They are
// sorted by key, and each follows its description, which is written as a comment. A property without a reference is
// written as a comment, with its default if it has one, and a mapping without references is a comment as a whole.
//
// margin is the indentation of the lines, in blanks. comment is "" for children of a mapping that is set in the
// manifest. If the mapping itself is a comment, comment is "# " and the further indentation inside of the comment, and
// all lines begin with margin and comment.
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

// quotedKey returns a key, or another name that plainName matches, as a YAML scalar, in quotes if YAML would not read
// the plain text as the same string, such as "true" or "1".
func quotedKey(key string) string {
	text, _ := word(key) // a plain name can be encoded
	return text
}

// defaultComment returns the default of a property as text to append after "key:" in a comment. The text begins with a
// blank and is the default as JSON, which oneComment puts on one line. A blank is inserted into "((" and "${", so that
// the comment contains no reference and no expression. If that line has more than 200 bytes, the text is instead the
// remark " # the default has N characters", in which N is the number of these bytes. The result is "" for a property
// without a default.
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
// not printable become one blank, and are removed at both ends. A blank is inserted into "((" and "${", so that the
// comment contains no reference and no expression. The result is "" if no other character remains.
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

// writeVariables appends the section variables, with an entry for each of m.variables, to the text of the manifest. A
// certificate is declared as a self-signed authority whose common name is the name of the variable. writeVariables
// writes no section if m.variables is empty.
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
