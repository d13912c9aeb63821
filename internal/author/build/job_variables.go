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

// variableField returns the field of a BOSH variable that a property takes according to the last key of its name, by
// the patterns in variableFields: "ca" for keys such as ca and server_ca_cert, "public_key" for keys such as
// host_public_key, "private_key" for keys such as key, server_key and tls_private_key, and "certificate" for keys
// such as crt and tls_cert. Upper and lower case do not matter. It returns "" if no pattern matches the key.
func variableField(last string) string {
	for _, candidate := range variableFields {
		if candidate.keys.MatchString(last) {
			return candidate.field
		}
	}
	return ""
}

// isVariableType reports whether typ, the type that the spec of a job states for a property, is one that BOSH generates
// as a variable: certificate, rsa or ssh. It returns false for "", which means that the spec states no type.
func isVariableType(typ string) bool {
	return slices.Contains([]string{"certificate", "rsa", "ssh"}, typ)
}

// isKeyOrCertificate reports whether a property is a key or a certificate, because its type in the spec is certificate,
// rsa or ssh, or because variableField returns a field for the last key of its path, such as "tls_cert". path is the
// list of the keys of its name and must not be empty.
func isKeyOrCertificate(path []string, property release.Property) bool {
	return isVariableType(property.Type) || variableField(path[len(path)-1]) != ""
}

// generatedByBosh chooses the properties of a job whose values BOSH will generate. It adds their variables to
// m.variables, with a note for each certificate, and returns the references by the dotted names of the properties; the
// map is empty, and not nil, if it chooses none. required is the result of requiredProperties for the job. It chooses
//
//   - each required property of the type certificate, rsa or ssh, with a reference to a variable of its own such as
//     ((web_tls));
//   - in a mapping with a certificate and a private key, both of these and, if there is one, the authority, as the
//     parts of one variable of the type certificate: ((web_tls.certificate)), ((web_tls.private_key)) and
//     ((web_tls.ca));
//   - in a mapping without a certificate, a private key whose name denotes a secret and, if there is one, the public
//     key, as the parts of a variable of the type rsa.
//
// The last key of a name decides which part a property is; see variableField. A property of one of the three types is
// never a part, and the properties without a dot in their names count as one mapping. If several properties of a
// mapping are the same part, only the first one by name counts. A mapping is left out if the templates of the job
// require none of its parts. Properties with a default, and properties that are mappings of others, are never chosen.
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

// variable appends a BOSH variable of the type kind (certificate, rsa or ssh) to m.variables, and returns its unique
// name. The name consists of the name of the job and the keys of path, the path of a property or mapping of the job,
// such as "web_tls". For a certificate, variable also adds a note to m in which the author is asked to decide who signs
// it and for which names, because the variable is self-signed at first.
func (m *jobManifest) variable(job *release.Job, path []string, kind string) string {
	name := m.name(append([]string{job.Name}, path...))
	m.variables = append(m.variables, boshVariable{name, kind})
	if kind == "certificate" {
		m.notef("decide: who signs the certificate %s, and for which names; for now it is self-signed", name)
	}
	return name
}
