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

// A provider is a BOSH link that a deployment offers to the jobs and variables that consume links. It has a name, by
// which the manifest refers to the link, a type, and a text, which denotes the link in messages.
type provider struct {
	name string // the name by which the manifest refers to it
	typ  string
	text string // the provider in messages
}

// A consumer is the need for one BOSH link: one link that a job or a variable of a manifest consumes from its
// deployment. It has the type that a provider must have and, if explicit is true, the name, because the manifest
// mentions the link. optional means that the job works without the link. The other fields serve messages: the path of
// the link in the manifest, the text that denotes the consumer, and the key that chooses the provider.
type consumer struct {
	// path leads to the key of the manifest that declares the link, or to the consumer if there is none.
	path []string
	text string // the consumer and its link in messages
	typ  string // the type of the link, which the provider must have
	// explicit means that the manifest mentions the link under consumes, so that the provider must have the name.
	explicit bool
	name     string // the name of the link that the provider must have if explicit is true
	optional bool   // the spec of the job declares the link optional
	// key is the key that chooses the provider, for messages.
	key string
}

// links reports errors for the links that the Director cannot resolve within the deployment. jobs are all jobs of the
// deployment, including those that addons add to instance groups (see colocated). A job whose spec is nil is skipped.
//
// links applies the Director's rules: a consumer that the manifest does not mention takes the only provider of its
// type, and one that it mentions takes the only provider of its type and its name. A missing provider is accepted for
// an optional link that the manifest does not mention, and for every link if m.complete is false; several providers
// are an error even then. See match for an exception. Links of other deployments and links that the manifest
// describes itself are not checked. links also reports invalid settings of links; see provided and consumed.
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

// diskLinks returns the links of the type "disk" that BOSH provides for the entries of persistent_disks of all instance
// groups. The name of each link is that of its disk. The result is nil if there are none.
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

// provided returns the links that a job provides: those of its spec, followed by its custom providers. The name of each
// is the one that the manifest sets for it by the key as under provides, or else its own. The result is nil if there
// are none. The spec of the job must not be nil.
//
// provided reports these errors:
//   - A name under provides is not that of a link of the job; see unknownLinks.
//   - A custom provider has the name of another link of the job. It is left out of the result.
//   - A custom provider publishes a property that neither the spec declares nor the manifest sets; see declares. The
//     provider remains in the result.
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

// declares reports whether the spec of a job declares the property with this dotted name, or the properties that BOSH
// uses for the job (see deployedJob.properties) have a value other than null for it. A variable such as ((tls)) at or
// above the name counts as a value. The Director requires this of the properties that a custom provider publishes. The
// spec of the job must not be nil.
func declares(job *deployedJob, name string) bool {
	_, exists := job.spec.Properties[name]
	properties, _ := job.properties()
	return exists || settingOf(properties, split(name)) != missing
}

// unknownLinks reports an error for each key of settings that is not the name of one of links, because BOSH ignores it.
// key is "provides" or "consumes", settings the mapping at that key of the job in the manifest, which may be nil, and
// links are those that the job provides or consumes.
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

// consumed returns the links that a job needs from its deployment, in the order of its spec, which must not be nil.
// Left out are links that the manifest refuses by the value "nil", those that it describes itself (see isManual) and
// those of other deployments (see isForeign). The result is nil if no links remain.
//
// A link is explicit if the manifest has its name under consumes, even with the value null. The provider must then have
// the name in the key from of the link, of which only the part after the last dot counts, or else the name of the link.
//
// consumed reports errors: names under consumes that the job does not have, and links that are refused although they
// are not optional. The latter are left out as well.
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

// isManual reports whether the manifest describes the instances of a consumed link itself, because setting contains one
// of the keys instances, properties and address, even with the value null. setting is the mapping of the link under
// consumes. It is nil if the manifest does not mention the link or has another value there; the result is false then.
func isManual(setting map[string]any) bool {
	for _, key := range []string{"instances", "properties", "address"} {
		if _, exists := setting[key]; exists {
			return true
		}
	}
	return false
}

// isForeign reports whether a consumed link is taken from another deployment, because setting contains a deployment
// that is not null and differs from the name of the manifest. setting is the mapping of the link under consumes. It is
// nil if the manifest does not mention the link or has another value there; the result is false then.
func (m *manifestCheck) isForeign(setting map[string]any) bool {
	deployment := setting["deployment"]
	return deployment != nil && deployment != m.get("name")
}

// afterLastDot returns the part of a link's name after its last dot, which is the part that the Director compares: "db"
// for "deployment.db". A name without a dot is returned unchanged.
func afterLastDot(name string) string { return name[strings.LastIndex(name, ".")+1:] }

// consumedByVariables returns the links that the variables of the manifest consume by their key consumes, whose
// addresses become names in certificates. They are in the order of the variables and, for each variable, sorted by
// their keys under consumes. A link without the key link_type has the type "address". The name that its provider must
// have is the value of its key from or, without that, its key under consumes. All these links are explicit, and none is
// optional. The result is nil if there are none.
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

// match reports an error unless exactly one of the providers satisfies a consumer. Such a provider has the consumer's
// type and, if needed.explicit is true, its name. There are two exceptions:
//   - match reports nothing if m.guessed is true and the template has a variable at needed.path, for example as the
//     name of the link. The manifest contains a sample value there.
//   - A missing provider is not an error if m.complete is false, because a job without a known spec may be the
//     provider, or if the link is optional and not explicit. Several providers are an error nevertheless.
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

// alternatives returns the end of a message about a link that no provider offers. It consists of these parts, each of
// which begins with "; " and is left out if there is no such provider:
//   - the name of a provider of the same type that is most similar to the name that the consumer requires, if one is
//     similar; see diag.Suggest
//   - each provider with that required name, which has another type
//   - the names of all providers of the type, at most nine of them
//
// The result is "" if all parts are left out. providers are all providers of the deployment, and ofType those of them
// with the type of the consumer, none of which may have the required name.
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
