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

// variableField returns the field of a variable that a property takes according to its last key, or "".
func variableField(last string) string {
	for _, candidate := range variableFields {
		if candidate.keys.MatchString(last) {
			return candidate.field
		}
	}
	return ""
}

// isVariableType reports whether a type that a spec states is that of a variable that BOSH generates.
func isVariableType(typ string) bool {
	return slices.Contains([]string{"certificate", "rsa", "ssh"}, typ)
}

// isKeyOrCertificate reports whether a property is a key or a certificate according to its type or its name.
func isKeyOrCertificate(path []string, property release.Property) bool {
	return isVariableType(property.Type) || variableField(path[len(path)-1]) != ""
}

// generatedByBosh returns references to variables that BOSH generates by the names of the properties of a job that have
// them: properties of the types certificate, rsa and ssh, and certificates and private keys that are properties of the
// same mapping. Variables of which the templates of the job need no part are left out. The variables are added to m.
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

// variable adds a variable that BOSH generates for properties of a job, and returns its name, which is built from those
// of the job and of the property or mapping at a path. It adds a note for a certificate.
func (m *jobManifest) variable(job *release.Job, path []string, kind string) string {
	name := m.name(append([]string{job.Name}, path...))
	m.variables = append(m.variables, boshVariable{name, kind})
	if kind == "certificate" {
		m.notef("decide: who signs the certificate %s, and for which names; for now it is self-signed", name)
	}
	return name
}
