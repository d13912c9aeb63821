package pakbuild

import (
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak/vars"
	"service-adapter/internal/value"
)

// undeclared is a variable that the manifest does not declare, and the keys below it that are used.
type undeclared struct {
	first  *yaml.Node
	secret bool // of the broker, or by the name of a property
	keys   map[string]bool
}

// variable is a ((variable)) in parts: ((name.keys)).
type variable struct{ name, keys string }

// variableOf takes a variable apart.
func variableOf(found string) variable {
	text := strings.TrimPrefix(strings.TrimSpace(found[2:len(found)-2]), "!")
	name := vars.Credential(text)
	return variable{name, strings.TrimPrefix(text[len(name):], ".")}
}

// ofBroker are references to secrets that an adapter made: before the broker has seen the manifest, and after.
var ofBroker = regexp.MustCompile(`^(odb_secret:|/odb/.*/)([^/:]+)$`)

// numbered is the end that names of secrets must not have.
var numbered = regexp.MustCompile(`-([0-9]+)$`)

// variables finds the variables in a scalar that the manifest does not declare, and gives them names that a definition can have.
func (a *adoption) variables(path []string, node, _ *yaml.Node) {
	secret := path != nil && named(path)
	node.Value = vars.Reference.ReplaceAllStringFunc(node.Value, func(found string) string {
		return a.variable(node, found, secret && found == node.Value)
	})
}

// variable returns what stands in the place of a variable. Secret tells that it is the whole of a property that is a secret by its name.
func (a *adoption) variable(node *yaml.Node, found string, secret bool) string {
	v := variableOf(found)
	made := ofBroker.FindStringSubmatch(v.name)
	_, wrong := vars.ReferenceName(found, found == node.Value)
	switch {
	case made != nil:
		v.name = numbered.ReplaceAllString(made[2], "") // the number of a changed value
	case wrong != "":
		a.errorf(node, "%s %s; a manifest of spruce or another tool must be merged first", found, wrong)
		return found
	case a.declared[v.name], slices.Contains(a.secrets, v.name):
		return found
	case strings.HasPrefix(v.name, "/"):
		return "((" + a.reference(node, v) + "))"
	}
	if made != nil {
		v.keys = ""
	}
	name := a.rename(v.name)
	if a.unknown[name] == nil {
		a.unknown[name] = &undeclared{node, false, map[string]bool{}}
	}
	a.unknown[name].secret = a.unknown[name].secret || made != nil || secret && v.keys == ""
	if v.keys == "" {
		return "((" + name + "))"
	}
	a.unknown[name].keys[v.keys] = true
	return "((" + name + "." + v.keys + "))"
}

// rename gives a variable a name that inputs and secrets can have.
func (a *adoption) rename(variable string) string {
	name, known := a.renamed[variable]
	if !known {
		name = strings.Trim(numbered.ReplaceAllString(notInVariables.ReplaceAllString(variable, "_"), "_$1"), "-")
		if name != variable {
			name = a.newName([]string{name})
		}
		a.renamed[variable] = name
	}
	return name
}

// reference makes a path of CredHub a reference whose path the plan says: each operator has other paths, and allows them.
func (a *adoption) reference(node *yaml.Node, v variable) string {
	path := strings.TrimSuffix(v.name+"."+v.keys, ".")
	name, known := a.renamed[path]
	if !known {
		name = a.newName([]string{strings.ReplaceAll(path[strings.LastIndexByte(v.name, '/')+1:], "-", "_")})
		a.renamed[path] = name
		a.references = append(a.references, reference{name, a.newName([]string{name + "_path"})})
		by := a.references[len(a.references)-1].Input
		a.inputs = append(a.inputs, input{by, "string", `""`, "A path of CredHub that the operator allows, such as " + path})
		a.notef(node, "decide: ((%s)) is a credential of CredHub: plans name its path with the property %s, and the operator allows it", path, by)
	}
	return name
}

// declare declares what the variables stand for that the manifest does not declare.
func (a *adoption) declare() {
	for _, name := range value.Keys(a.unknown) {
		unknown := a.unknown[name]
		keys := value.Keys(unknown.keys)
		switch kind := generatedKind(keys); {
		case len(keys) == 0 && (unknown.secret || named([]string{name})):
			a.secrets = append(a.secrets, name)
			a.notef(unknown.first, "((%s)): a secret; it is a generated secret of the definition now", name)
		case kind != "":
			a.notef(unknown.first, "((%s)): declared nowhere; BOSH generates it as a variable of type %s now", name, kind)
			a.declareVariable(unknown.first, name, kind)
		case len(keys) > 0:
			fields := map[string]any{}
			for _, key := range keys {
				fields[key] = changeMe
			}
			a.inputs = append(a.inputs, input{name, "object", string(value.MustJSON(fields)), "The value of ((" + name + "))"})
			a.notef(unknown.first, "decide: ((%s)) is an input of plans; the plan's property says %s", name, changeMe)
		default:
			a.inputs = append(a.inputs, input{name, "string", changeMe, "The value of ((" + name + "))"})
			a.notef(unknown.first, "decide: ((%s)) is an input of plans; the plan's property says %s", name, changeMe)
		}
	}
	slices.Sort(a.secrets)
}

// changeMe is the value of an input that nobody knows.
const changeMe = "change-me"

// generatedKind is the type of a variable of BOSH with these keys; "" where there is none.
func generatedKind(keys []string) string {
	has := func(key string) bool { return slices.Contains(keys, key) }
	switch {
	case has("certificate") || has("ca"):
		return "certificate"
	case has("public_key_fingerprint"):
		return "ssh"
	case has("private_key") || has("public_key"):
		return "rsa"
	case has("password") && has("username"), has("password_hash"):
		return "user"
	default:
		return ""
	}
}
