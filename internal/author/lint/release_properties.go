package lint

import (
	"fmt"
	"slices"
	"strings"

	"service-adapter/internal/author/release"
	"service-adapter/internal/diag"
	"service-adapter/internal/value"
)

// declared reports the properties of a job that its spec, which it must have, does not declare; see declaredBelow. The
// properties of groups and of the whole manifest are not judged, because they are for all jobs.
func (m *manifestCheck) declared(job *deployedJob) {
	if properties, own := job.properties(); own {
		m.declaredBelow(job, "", properties)
	}
}

// declaredBelow reports errors about the keys of a mapping of properties, and of the mappings in it: keys that the
// job's spec does not declare, keys with a dot, mappings where the default in the spec shows another type, and other
// values where the spec declares properties below the key. prefix is the dotted name of the mapping, with a dot at its
// end unless it is empty.
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

// split returns the keys of a dotted name, which may end with a dot. The empty name has no keys.
func split(name string) []string {
	if name = strings.TrimSuffix(name, "."); name == "" {
		return nil
	}
	return strings.Split(name, ".")
}

// nested returns a dotted key as nested mappings, for messages.
func nested(key string) string {
	keys := strings.Split(key, ".")
	return strings.Join(keys, ": {") + ": …" + strings.Repeat("}", len(keys)-1)
}

// declaresBelow reports whether a spec declares properties whose names begin with a name and a dot.
func declaresBelow(spec *release.Job, name string) bool {
	return len(declaredNames(spec, name+".", 0)) > 0
}

// declaredNames returns the sorted names of declared properties that begin with a prefix, cut to their first keys. The
// parameter keys is the number of keys that are kept; 0 stands for whole names. A name that several properties have
// after the cut is contained once. The result is nil if there are no such properties.
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

// nearest returns the names of the declared properties below a prefix, or below the nearest ancestor that has some. The
// names are cut to one key more than the prefix has. The result is nil if the spec declares no properties.
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

// takesMapping reports whether the value of a property may be a mapping. The type of a property is not declared, so
// that only a default shows that it is something else. A property without a default, or with a mapping, null, "" or
// false as its default, may be a mapping; "" and false often stand for "not set".
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

// A setting is the value that a property of a job has in a manifest.
type setting int

const (
	missing setting = iota // neither the manifest nor the spec gives a value
	off                    // false
	on                     // any other value
	hidden                 // a variable, whose value is not known
)

// setting returns the value of a property of a job: that in the manifest, or else the default in the spec. It is
// missing if there is neither, and if the manifest sets a mapping above it that lacks the key, because this replaces
// the whole default. A mapping that contains declared properties is on. A name that the spec does not declare, not even
// as a part of a declared property, has the value hidden, because no manifest can set it.
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

// settingOf returns the value of item at a path of keys. It is missing if a key does not exist, if a value above it is
// not a mapping, or if it is null; hidden if a variable is at the path or above it; off if it is false; and on for any
// other value. Without keys, the value is item itself.
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

// unset warns about properties of a job that have no value although a template of the job reads them without a default.
// A read that depends on conditions counts only if they are certainly true. Each property is reported once. The reads
// of the job's spec are kept in m.reads.
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

// executes reports whether the conditions of a read are certainly true.
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
