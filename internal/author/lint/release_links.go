package lint

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"service-adapter/internal/author/release"
	"service-adapter/internal/diag"
	"service-adapter/internal/value"
)

// blocked is the value by which a manifest refuses a consumed link. The broker cannot read it for a provided one.
const blocked = "nil"

// A provider is a link that a deployment offers to the jobs and variables that consume links.
type provider struct {
	name string // the name by which the manifest refers to it
	typ  string
	text string // the provider in messages
}

// A consumer is a job or a variable that needs a link.
type consumer struct {
	// path leads to the key of the manifest that declares the link, or to the consumer if there is none.
	path []string
	text string // the consumer and its link in messages
	typ  string
	// explicit means that the manifest chooses the link by its name.
	explicit bool
	name     string
	optional bool
	// key is the key that chooses the provider, for messages.
	key string
}

// links reports links that the Director cannot resolve within the deployment, by its rules: a consumer that the
// manifest does not mention takes the only provider of its type; one that it mentions takes the only provider of its
// type and its name. Links of other deployments and links that the manifest describes itself are not checked. A job
// without a spec has no links.
func (m *manifestCheck) links(jobs []*deployedJob) {
	providers := m.diskLinks()
	var consumers []consumer
	for _, job := range jobs {
		if job.spec != nil {
			providers = append(providers, m.provided(job)...)
			consumers = append(consumers, m.consumed(job)...)
		}
	}
	consumers = append(consumers, m.consumedByVariables()...)
	for _, needed := range consumers {
		m.match(needed, providers)
	}
}

// diskLinks returns the links of the type "disk" that BOSH provides for the persistent disks of instance groups, by the
// names of the disks.
func (m *manifestCheck) diskLinks() []provider {
	var all []provider
	for _, group := range value.Mappings(m.get("instance_groups")) {
		for _, disk := range value.Mappings(group["persistent_disks"]) {
			name := value.Text(disk["name"])
			text := fmt.Sprintf("disk %q of group %q", name, value.Text(group["name"]))
			all = append(all, provider{name, "disk", text})
		}
	}
	return all
}

// provided returns the links that a job provides, under the names that the manifest gives them. It reports errors:
// names under provides that the job does not have, and custom providers with a name that the job has already or with
// properties that it does not have. The job must have a spec.
func (m *manifestCheck) provided(job *deployedJob) []provider {
	settings, _ := job.manifest["provides"].(map[string]any)
	links := slices.Clone(job.spec.Provides)
	for _, custom := range value.Mappings(job.manifest["custom_provider_definitions"]) {
		name := value.Text(custom["name"])
		path := job.at("custom_provider_definitions", "name="+name)
		if slices.ContainsFunc(links, func(link release.Link) bool { return link.Name == name }) {
			m.report(diag.Error, path, "release-link", "job %q provides a link %q already", job.name, name)
			continue
		}
		list, _ := custom["properties"].([]any)
		for _, property := range value.Convert(list, value.Text) {
			if !declares(job, property) {
				m.report(diag.Error, path, "release-link",
					"the link %q publishes the property %q, which job %q does not have%s", name, property, job.name,
					diag.Suggest(property, value.Keys(job.spec.Properties)))
			}
		}
		links = append(links, release.Link{Name: name, Type: value.Text(custom["type"])})
	}
	m.unknownLinks(job, "provides", settings, links)
	var all []provider
	for _, link := range links {
		name := link.Name
		if mapping, ok := settings[link.Name].(map[string]any); ok && mapping["as"] != nil {
			name = value.Text(mapping["as"])
		}
		all = append(all, provider{name, link.Type, fmt.Sprintf("%q of job %q in group %q", name, job.name, job.group)})
	}
	return all
}

// declares reports whether the spec of a job declares a property or the manifest sets it, which is what the Director
// requires of the properties of a link.
func declares(job *deployedJob, name string) bool {
	_, exists := job.spec.Properties[name]
	properties, _ := job.properties()
	return exists || settingOf(properties, split(name)) != missing
}

// unknownLinks reports an error for each key of settings, which is the mapping under a key of a job, "provides" or
// "consumes", that is not the name of one of its links.
func (m *manifestCheck) unknownLinks(job *deployedJob, key string, settings map[string]any, links []release.Link) {
	names := value.Convert(links, func(link release.Link) string { return link.Name })
	for _, name := range value.Keys(settings) {
		if !slices.Contains(names, name) {
			m.report(diag.Error, job.at(key, name), "release-link",
				"job %q %s no link %q, and BOSH ignores it%s; it %s %s", job.name, key, name,
				diag.Suggest(name, names), key, diag.Names(names))
		}
	}
}

// consumed returns the links that a job needs from its deployment, in the order of its spec, which it must have. Links
// that the manifest refuses, describes itself or takes from another deployment are left out. consumed reports errors:
// names under consumes that the job does not have, and links that are refused although they are not optional.
func (m *manifestCheck) consumed(job *deployedJob) []consumer {
	settings, _ := job.manifest["consumes"].(map[string]any)
	m.unknownLinks(job, "consumes", settings, job.spec.Consumes)
	var all []consumer
	for _, link := range job.spec.Consumes {
		setting, explicit := settings[link.Name]
		mapping, _ := setting.(map[string]any)
		needed := consumer{
			path: job.at("name"), typ: link.Type, name: link.Name, optional: link.Optional, explicit: explicit,
			text: fmt.Sprintf("job %q in group %q consumes the link %q", job.name, job.group, link.Name),
			key:  "consumes." + link.Name + ".from",
		}
		if explicit {
			needed.path = job.at("consumes", link.Name)
		}
		switch {
		case setting == blocked && !link.Optional:
			m.report(diag.Error, needed.path, "release-link", "%s, which is not optional, so that it cannot be nil",
				needed.text)
			continue
		case setting == blocked || isManual(mapping) || m.isForeign(mapping):
			continue
		case mapping["from"] != nil:
			needed.path = job.at("consumes", link.Name, "from")
			needed.name = afterLastDot(value.Text(mapping["from"]))
		}
		all = append(all, needed)
	}
	return all
}

// isManual reports whether the manifest describes the instances of a link itself, by one of the keys instances,
// properties and address. setting is the value of the link under consumes, or nil.
func isManual(setting map[string]any) bool {
	for _, key := range []string{"instances", "properties", "address"} {
		if _, exists := setting[key]; exists {
			return true
		}
	}
	return false
}

// isForeign reports whether a link is that of another deployment, which its key deployment names. setting is the value
// of the link under consumes, or nil.
func (m *manifestCheck) isForeign(setting map[string]any) bool {
	deployment := setting["deployment"]
	return deployment != nil && deployment != m.get("name")
}

// afterLastDot returns the part of a name after its last dot, which is the part that the Director compares. A name
// without a dot is returned as it is.
func afterLastDot(name string) string { return name[strings.LastIndex(name, ".")+1:] }

// consumedByVariables returns the links that the variables of the manifest consume, whose addresses become names in
// certificates. A link without a type has the type "address", and one without the key from has its key as its name.
func (m *manifestCheck) consumedByVariables() []consumer {
	var all []consumer
	for _, variable := range value.Mappings(m.get("variables")) {
		name := value.Text(variable["name"])
		settings, _ := variable["consumes"].(map[string]any)
		for _, key := range value.Keys(settings) {
			setting, _ := settings[key].(map[string]any)
			all = append(all, consumer{
				path: []string{"variables", "name=" + name, "consumes", key, "from"}, explicit: true,
				text: fmt.Sprintf("variable %q consumes the link %q", name, key),
				typ:  cmp.Or(value.Text(setting["link_type"]), "address"),
				name: cmp.Or(value.Text(setting["from"]), key), key: "consumes." + key + ".from",
			})
		}
	}
	return all
}

// match reports an error for a consumer for which there is not exactly one provider. It reports nothing if the name of
// the link is a sample value. It tolerates a missing provider, but not several ones, if the provider may be that of a
// job that no release has, or if the link is optional and the manifest does not mention it.
func (m *manifestCheck) match(needed consumer, providers []provider) {
	var ofType, matching []provider
	for _, offered := range providers {
		if offered.typ == needed.typ {
			ofType = append(ofType, offered)
		}
	}
	for _, offered := range ofType {
		if !needed.explicit || offered.name == needed.name {
			matching = append(matching, offered)
		}
	}
	if m.guessed && m.locator.locate(needed.path).isComputed() {
		return
	}
	texts := strings.Join(value.Convert(matching, func(p provider) string { return p.text }), ", and ")
	tolerated := !m.complete || needed.optional && !needed.explicit
	switch {
	case len(matching) == 1, len(matching) == 0 && tolerated:
	case len(matching) == 0 && needed.explicit:
		m.report(diag.Error, needed.path, "release-link", "%s from %q of the type %q, which no job provides%s",
			needed.text, needed.name, needed.typ, alternatives(needed, ofType, providers))
	case len(matching) == 0:
		m.report(diag.Error, needed.path, "release-link",
			"%s of the type %q, and no job of the deployment provides a link of this type; %s can name that of "+
				"another deployment", needed.text, needed.typ, strings.TrimSuffix(needed.key, ".from"))
	case needed.explicit:
		m.report(diag.Error, needed.path, "release-link",
			"%s from %q, which several jobs provide: %s; give them different names by the key as of provides",
			needed.text, needed.name, texts)
	default:
		m.report(diag.Error, needed.path, "release-link",
			"%s of the type %q, which several jobs provide: %s; choose one by %s", needed.text, needed.typ, texts,
			needed.key)
	}
}

// alternatives returns the end of a message about a provider that does not exist: the most similar name of a provider
// of the same type, providers with the name and another type, and the names of all providers of the type. ofType are
// those of the providers that have the type of the consumer. The result is "" if there is nothing to suggest.
func alternatives(needed consumer, ofType, providers []provider) diag.Hint {
	names := value.Convert(ofType, func(p provider) string { return p.name })
	hint := diag.Suggest(needed.name, names)
	for _, offered := range providers {
		if offered.name == needed.name {
			hint += diag.Hint(fmt.Sprintf("; %s has the type %q", offered.text, offered.typ))
		}
	}
	if len(names) > 0 {
		hint += diag.Hint("; links of this type are " + diag.Names(names))
	}
	return hint
}
