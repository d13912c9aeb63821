package lint

import (
	"fmt"
	"slices"
	"strings"

	"service-adapter/internal/author/release"
	"service-adapter/internal/diag"
	"service-adapter/internal/value"
)

// declared reports errors for the properties that the manifest sets for a job itself and that contradict the job's
// spec: undeclared names and wrong structures; see declaredBelow. The properties of instance groups, of addons and of
// the whole manifest are not checked, because they are for all jobs. A value of the job's key properties that is not a
// mapping is not reported. The spec of the job must not be nil.
func (m *manifestCheck) declared(job *deployedJob) {
	if properties, own := job.properties(); own {
		m.declaredBelow(job, "", properties)
	}
}

// declaredBelow reports an error for each key of properties that contradicts the job's spec, which must not be nil.
// properties is a mapping of properties in the manifest. prefix is the dotted name of that mapping with a dot at its
// end, such as "tls.", or "" for all properties of the job. The errors are:
//   - The key contains a dot.
//   - The spec declares neither the property nor properties below it.
//   - The spec declares the property with a default that shows another type than a mapping (see takesMapping), and no
//     properties below it, and the value is a mapping.
//   - The spec declares only properties below the key, and the value is neither a mapping nor null and contains no
//     variable such as ((tls)).
//
// A mapping at a key below which the spec declares properties, but which is not a property itself, is checked in the
// same way. The mapping that is the value of a declared property is not checked further.
func (m *manifestCheck) declaredBelow(job *deployedJob, prefix string, properties map[string]any) {
	for _, key := range value.Keys(properties) {
		name, item := prefix+key, properties[key]
		path := job.at(slices.Concat([]string{"properties"}, split(prefix), []string{key})...)
		mapping, isMapping := item.(map[string]any)
		property, exists := job.spec.Properties[name]
		below := declaresBelow(job.spec, name)
		switch {
		case strings.Contains(key, "."):
			m.report(diag.Error, path, "release-property",
				"job %q cannot read a key with a dot such as %q; write nested mappings, such as %s",
				job.name, key, nested(key))
		case exists && isMapping && !below && !takesMapping(property):
			m.report(diag.Error, path, "release-property",
				"property %q of job %q is a mapping here, and the spec declares it with the default %s",
				name, job.name, value.MustJSON(property.Default))
		case exists:
		case below && isMapping:
			m.declaredBelow(job, name+".", mapping)
		case below && item != nil && !isVariable(item):
			m.report(diag.Error, path, "release-property",
				"property %q of job %q must be a mapping, because the spec declares %s", name, job.name,
				diag.Names(declaredNames(job.spec, name+".", 0)))
		case below:
		default:
			candidates := slices.Concat(
				value.Keys(job.spec.Properties), declaredNames(job.spec, "", strings.Count(name, ".")+1))
			m.report(diag.Error, path, "release-property",
				"job %q has no property %q, and BOSH ignores it%s; the spec declares %s", job.name, name,
				diag.Suggest(name, candidates), diag.Names(nearest(job.spec, prefix)))
		}
	}
}

// split returns the keys of the dotted name of a property, such as "tls" and "cert" for "tls.cert". A dot at the end is
// ignored. The result is nil for an empty name.
func split(name string) []string {
	if name = strings.TrimSuffix(name, "."); name == "" {
		return nil
	}
	return strings.Split(name, ".")
}

// nested returns a dotted key as nested mappings, for messages: "a: {b: …}" for "a.b".
func nested(key string) string {
	keys := strings.Split(key, ".")
	return strings.Join(keys, ": {") + ": …" + strings.Repeat("}", len(keys)-1)
}

// declaresBelow reports whether a spec declares properties whose names begin with name and a dot. A property with
// exactly this name does not count.
func declaresBelow(spec *release.Job, name string) bool {
	return len(declaredNames(spec, name+".", 0)) > 0
}

// declaredNames returns the names of the declared properties that begin with a prefix, such as "tls." or "" for all,
// sorted and without duplicates. keys is the number of keys to which each name is cut, including the keys of the
// prefix: 1 shortens "tls.cert" to "tls". 0 means that names are not cut. The result is nil if there are no such
// properties.
func declaredNames(spec *release.Job, prefix string, keys int) []string {
	var names []string
	for name := range spec.Properties {
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		if parts := strings.Split(name, "."); keys > 0 && len(parts) > keys {
			name = strings.Join(parts[:keys], ".")
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// nearest returns the names of the declared properties below a prefix or, if there are none, below its nearest
// ancestor that has some. prefix is a dotted name with a dot at its end, or "". The names are cut to one key more
// than that prefix or ancestor has, and are sorted and without duplicates. The result is nil if the spec declares no
// properties.
func nearest(spec *release.Job, prefix string) []string {
	names := declaredNames(spec, prefix, strings.Count(prefix, ".")+1)
	for len(names) == 0 && prefix != "" {
		parent := split(prefix)
		if prefix = strings.Join(parent[:len(parent)-1], "."); prefix != "" {
			prefix += "."
		}
		names = declaredNames(spec, prefix, strings.Count(prefix, ".")+1)
	}
	return names
}

// takesMapping reports whether the value of a property may be a mapping. BOSH specs declare no types, so that only a
// default can show that it is something else. The result is true for a property without a default or with the default
// null, "", false or a mapping, because "" and false often mean "not set", and false for any other default, such as a
// number, true or a list.
func takesMapping(property release.Property) bool {
	switch item := property.Default.(type) {
	case bool:
		return !item
	case string:
		return item == ""
	case nil, map[string]any:
		return true
	default:
		return false
	}
}

// A setting classifies the value of a property of a job. It is missing, the zero value, if there is no value or null;
// off for false; on for any other value; and hidden if the value is not known, for example because a text with a
// variable such as ((name)) is at or above the property. The method setting of deployedJob also considers the
// defaults in the spec, and returns hidden for a property that the manifest does not set if the spec declares neither
// its name nor one above or below it. settingOf ignores the spec.
type setting int

const (
	missing setting = iota // neither the manifest nor the spec gives a value
	off                    // false
	on                     // any other value
	hidden                 // a value that is not known, such as that of a variable
)

// setting classifies the value of the property of the job with a dotted name. The value is that in the properties that
// BOSH uses for the job (see properties) or, if that is missing or null, the default in the spec. The spec of the job
// must not be nil. If the manifest has no value, these cases are special:
//   - If the spec declares properties below the name, the result is on, because the value is the mapping of these.
//   - If the spec declares not the name but a property above it, such as tls for tls.cert, the default is the value
//     within the default of that property. The result is missing if the manifest sets that property, which replaces its
//     whole default.
//   - If the spec declares neither the name nor a property above or below it, the result is hidden.
func (j *deployedJob) setting(name string) setting {
	properties, _ := j.properties()
	if result := settingOf(properties, split(name)); result != missing {
		return result
	}
	if declaresBelow(j.spec, name) {
		return on // a mapping of the declared properties
	}
	keys := split(name)
	for end := len(keys); end > 0; end-- {
		if property, exists := j.spec.Properties[strings.Join(keys[:end], ".")]; exists {
			if settingOf(properties, keys[:end]) != missing {
				return missing // a value that lacks the key replaces the default
			}
			return settingOf(property.Default, keys[end:])
		}
	}
	return hidden
}

// settingOf returns the kind of the value at a path of keys below item. It is missing if a key does not exist, if a
// value above it is not a mapping, or if the value is null; hidden if a text with a variable such as ((name)) is at the
// path or above it; off if the value is false; and on for any other value. Without keys, the value is item itself.
func settingOf(item any, keys []string) setting {
	switch {
	case item == nil:
		return missing
	case isText(item) && isVariable(item):
		return hidden
	case len(keys) > 0:
		mapping, _ := item.(map[string]any)
		return settingOf(mapping[keys[0]], keys[1:])
	case item == false:
		return off
	default:
		return on
	}
}

// isText reports whether a value is a string.
func isText(item any) bool {
	_, ok := item.(string)
	return ok
}

// unset reports a warning for each property that certainly has no value (see setting) although a template of the job
// reads it without a default. A read counts only if its conditions are certainly true (see executes). Reads that may be
// skipped for other reasons never count, because release.Job.Reads does not return them. Each property is reported
// once, with the first read that counts. The spec of the job must not be nil; its reads are cached in m.reads.
func (m *manifestCheck) unset(job *deployedJob) {
	if _, exists := m.reads[job.spec]; !exists {
		m.reads[job.spec] = job.spec.Reads()
	}
	reported := map[string]bool{}
	for _, read := range m.reads[job.spec] {
		if reported[read.Property] || job.setting(read.Property) != missing || !job.executes(read) {
			continue
		}
		reported[read.Property] = true
		because := ""
		for _, condition := range read.Conditions {
			because += fmt.Sprintf(" if %q is %t", condition.Property, !condition.Negated)
		}
		m.report(diag.Warning, job.at(slices.Concat([]string{"properties"}, split(read.Property))...), "release-unset",
			"job %q needs the property %q, which has no default and is not set; line %d of its template %s reads it%s",
			job.name, read.Property, read.Line, read.Template, because)
	}
}

// executes reports whether all conditions of a read are certainly true: each property of a condition has a value other
// than false, in the manifest or as its default, or, if the condition is negated, is false or has no value. It returns
// false if such a value is hidden (see setting), for example a variable, and true for a read without conditions. The
// spec of the job must not be nil.
func (j *deployedJob) executes(read release.Read) bool {
	for _, condition := range read.Conditions {
		wanted := []setting{on}
		if condition.Negated {
			wanted = []setting{off, missing}
		}
		if !slices.Contains(wanted, j.setting(condition.Property)) {
			return false
		}
	}
	return true
}
