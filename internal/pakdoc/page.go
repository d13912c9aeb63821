package pakdoc

import (
	"regexp"
	"slices"
	"strings"

	"service-adapter/brokerpak"
	"service-adapter/internal/value"
)

// page is what the reference of a pak says. Both formats are made from it, so that they agree.
type page struct {
	brokerpak.Manifest
	Services []service
}

// service is one service with all that a user or an operator may say about it.
type service struct{ *brokerpak.Service }

type link struct{ Title, URL string }

// parameter is an input, an output or an environment variable.
type parameter struct {
	Name        string
	Type        string
	Description string
	Required    bool
	Default     line // nil: none
	Notes       []line
	Enum        []brokerpak.EnumValue
}

// line is a short text of which parts are code.
type line []span

type span struct {
	Text string
	Code bool
}

// linef is a line with a literal, as code, for each %s of a format.
func linef(format string, literals ...string) line {
	var made line
	for i, words := range strings.Split(format, "%s") {
		if i > 0 {
			made = append(made, span{literals[i-1], true})
		}
		made = append(made, span{words, false})
	}
	return made
}

func newPage(pak *brokerpak.Pak) page {
	p := page{Manifest: pak.Manifest}
	for _, s := range pak.Services {
		p.Services = append(p.Services, service{s})
	}
	return p
}

// Environment lists the variables that an operator may or must set; one that is required and a parameter is listed once.
func (p page) Environment() []parameter {
	var all []parameter
	var names []string
	descriptions := map[string]string{}
	for _, declared := range p.Parameters {
		names, descriptions[declared.Name] = append(names, declared.Name), declared.Description
	}
	for _, name := range slices.Concat(names, p.RequiredEnv, value.Keys(p.EnvConfigMapping)) {
		if slices.ContainsFunc(all, func(one parameter) bool { return one.Name == name }) {
			continue
		}
		variable := parameter{Name: name, Description: descriptions[name], Required: slices.Contains(p.RequiredEnv, name)}
		if key, ok := p.EnvConfigMapping[name]; ok {
			variable.Notes = []line{linef("Sets the configuration %s.", key)}
		}
		all = append(all, variable)
	}
	return all
}

// sets are the properties and parameters that a plan gives an instance.
func sets(plan brokerpak.Plan) map[string]any {
	return value.Merge(plan.Properties, plan.ProvisionOverrides)
}

// setsAll are those of an instance and its bindings.
func setsAll(plan brokerpak.Plan) map[string]any { return value.Merge(sets(plan), plan.BindOverrides) }

// openable matches the URLs that a browser can open.
var openable = regexp.MustCompile(`^(https?://|mailto:)`)

// Links are the pages about the service that a browser can open.
func (s service) Links() []link {
	var all []link
	for _, candidate := range []link{{"Documentation", s.DocumentationURL}, {"Support", s.SupportURL}} {
		if openable.MatchString(candidate.URL) {
			all = append(all, candidate)
		}
	}
	return all
}

// Groups are the instance groups that plans place.
func (s service) Groups() []brokerpak.InstanceGroup {
	if s.Provision.Bosh == nil {
		return nil
	}
	return s.Provision.Bosh.InstanceGroups()
}

// remarks are sentences about an instance group, each after a blank.
func remarks(group brokerpak.InstanceGroup) (all string) {
	if group.Lifecycle == "errand" {
		all += " An errand."
	}
	if group.Sized {
		all += " The service sizes it; plans need not have it."
	}
	if group.Optional {
		all += " A plan may leave it out."
	}
	return all
}
