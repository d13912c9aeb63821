package build

import (
	"regexp"
	"slices"
	"strings"

	"service-adapter/internal/author/release"
	"service-adapter/internal/value"
)

// variableFields are the fields of variables that BOSH generates, with the last keys of properties that take them. The
// first one that matches applies.
var variableFields = []struct { //nolint:gochecknoglobals // a constant table
	field string
	keys  *regexp.Regexp
}{
	{"ca", regexp.MustCompile(`(?i)^(.+_)?ca(_cert|_certificate|_certs)?$`)},
	{"public_key", regexp.MustCompile(`(?i)^(.+_)?public_key$`)},
	{"private_key", regexp.MustCompile(`(?i)^((.+_)?private_key|key|(tls|ssl|server|cert)_key)$`)},
	{"certificate", regexp.MustCompile(`(?i)^(.+_)?(cert|certificate|crt)$`)},
}

// variableField returns the field of a variable that BOSH generates, such as "private_key", which a property takes
// according to the last key of its name. It returns "" if no entry of variableFields matches the key.
func variableField(last string) string {
	for _, candidate := range variableFields {
		if candidate.keys.MatchString(last) {
			return candidate.field
		}
	}
	return ""
}

// isVariableType reports whether typ, the type that a spec states for a property, is one that BOSH generates as a
// variable: certificate, rsa or ssh.
func isVariableType(typ string) bool {
	return slices.Contains([]string{"certificate", "rsa", "ssh"}, typ)
}

// isKeyOrCertificate reports whether a property is a key or a certificate according to its type or the last key of its
// path, which must not be empty.
func isKeyOrCertificate(path []string, property release.Property) bool {
	return isVariableType(property.Type) || variableField(path[len(path)-1]) != ""
}

// generatedByBosh chooses the properties of a job that become references to variables which BOSH generates. It adds
// these variables to m, and returns the references by the names of the properties. They are properties of the types
// certificate, rsa and ssh, and certificates, authorities and keys that are properties of the same mapping if one of
// these is a private key. If several properties of a mapping take the same field of the variable, only the first one
// does. Properties with a default, mappings, and variables of which the templates of the job require no part are left
// out. required is the result of requiredProperties.
func (m *jobManifest) generatedByBosh(job *release.Job, required map[string]bool) map[string]string {
	references, mappings := map[string]string{}, mappingsOf(job)
	properties := map[string]map[string]string{} // mapping → field of the variable → property
	isRequired := map[string]bool{}              // of each mapping
	for _, name := range value.Keys(job.Properties) {
		property, path := job.Properties[name], strings.Split(name, ".")
		parent, field := strings.Join(path[:len(path)-1], "."), variableField(path[len(path)-1])
		switch {
		case property.HasDefault, mappings[name]:
		case isVariableType(property.Type):
			if required[name] {
				references[name] = "((" + m.variable(job, path, property.Type) + "))"
			}
		case field != "" && properties[parent][field] == "":
			if properties[parent] == nil {
				properties[parent] = map[string]string{}
			}
			properties[parent][field] = name
			isRequired[parent] = isRequired[parent] || required[name]
		}
	}
	for _, parent := range value.Keys(properties) {
		fields := properties[parent]
		kind, unused := "certificate", "public_key"
		if fields["certificate"] == "" {
			kind, unused = "rsa", "ca"
		}
		isKey := kind == "certificate" || namedSecret(strings.Split(fields["private_key"], "."))
		if !isRequired[parent] || fields["private_key"] == "" || !isKey {
			continue
		}
		delete(fields, unused)
		variable := m.variable(job, strings.Split(parent, "."), kind)
		for field, name := range fields {
			references[name] = "((" + variable + "." + field + "))"
		}
	}
	return references
}

// variable adds a variable of the type kind, which BOSH generates for properties of a job, to m.variables. It returns
// the variable's name, which is built from the name of the job and the path of the property or mapping. A certificate
// gets a note, because it is self-signed.
func (m *jobManifest) variable(job *release.Job, path []string, kind string) string {
	name := m.name(append([]string{job.Name}, path...))
	m.variables = append(m.variables, boshVariable{name, kind})
	if kind == "certificate" {
		m.notef("decide: who signs the certificate %s, and for which names; for now it is self-signed", name)
	}
	return name
}
