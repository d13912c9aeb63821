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
	// Environment are the variables that an operator may or must set.
	Environment []parameter
}

// service is one service with all that a user or an operator may say about it.
type service struct {
	*brokerpak.Service
	Image       string // a data URL; "" when the image is elsewhere
	Links       []link
	Plans       []plan
	Create      []parameter // parameters of creating and updating an instance
	Imports     []parameter // parameters that name existing resources
	Bind        []parameter
	Credentials []parameter
	Fields      []parameter // fields of the binding beside the credentials
	Examples    []example
	Commands    string
	// PlanProperties and Groups are for the operator, who writes the plans.
	PlanProperties []parameter
	Groups         []group
}

type link struct{ Title, URL string }

// pair is a name and its value, as JSON where it is no text.
type pair struct{ Name, Value string }

// plan is a plan with all that it sets.
type plan struct {
	brokerpak.Plan
	Sets map[string]any
}

// parameter is an input, an output or an environment variable.
type parameter struct {
	Name        string
	Type        string
	Description string
	Required    bool
	Default     line // nil: none
	Notes       []line
	Enum        []pair
}

type example struct {
	Name        string
	Description string
	Commands    string
}

// group is an instance group that a plan places.
type group struct {
	Name  string
	Jobs  []string
	Notes []line
}

// line is a short text of which parts are code.
type line []span

type span struct {
	Text string
	Code bool
}

func text(words string) span   { return span{Text: words} }
func code(literal string) span { return span{Text: literal, Code: true} }

func newPage(pak *brokerpak.Pak) page {
	p := page{Manifest: pak.Manifest, Environment: environment(pak.Manifest)}
	for _, service := range pak.Services {
		p.Services = append(p.Services, newService(service))
	}
	return p
}

// environment lists the variables of the manifest; one that is required and a parameter is listed once.
func environment(manifest brokerpak.Manifest) []parameter {
	var all []parameter
	for _, declared := range manifest.Parameters {
		all = append(all, parameter{
			Name: declared.Name, Description: declared.Description, Required: slices.Contains(manifest.RequiredEnv, declared.Name),
		})
	}
	add := func(name string) *parameter {
		at := slices.IndexFunc(all, func(p parameter) bool { return p.Name == name })
		if at < 0 {
			all, at = append(all, parameter{Name: name}), len(all)
		}
		return &all[at]
	}
	for _, name := range manifest.RequiredEnv {
		add(name).Required = true
	}
	for _, name := range value.Keys(manifest.EnvConfigMapping) {
		variable := add(name)
		variable.Notes = append(variable.Notes, line{text("Sets the configuration "), code(manifest.EnvConfigMapping[name]), text(".")})
	}
	return all
}

func newService(s *brokerpak.Service) service {
	page := service{
		Service: s, Image: dataImage(s.ImageURL), Links: links(s),
		Create: inputs(s, s.Provision, func(p brokerpak.Plan) map[string]any {
			return value.Merge(p.Properties, p.ProvisionOverrides)
		}),
		Imports:        imports(s.Provision.ImportInputs),
		Bind:           inputs(s, s.Bind, func(p brokerpak.Plan) map[string]any { return p.BindOverrides }),
		PlanProperties: planProperties(s),
	}
	for _, p := range s.Plans {
		page.Plans = append(page.Plans, plan{Plan: p, Sets: value.Merge(p.Properties, p.ProvisionOverrides, p.BindOverrides)})
	}
	page.Credentials, page.Fields = outputs(s)
	page.Examples, page.Commands = examples(s)
	if s.Provision.Bosh != nil {
		page.Groups = groups(s.Provision.Bosh)
	}
	return page
}

// dataImage returns an image that is part of the definition. Only types that browsers show without running anything pass.
func dataImage(url string) string {
	for _, kind := range []string{"png", "jpeg", "gif", "webp", "svg+xml"} {
		if strings.HasPrefix(url, "data:image/"+kind+";base64,") {
			return url
		}
	}
	return ""
}

// openable matches the URLs that a browser can open.
var openable = regexp.MustCompile(`^(https?://|mailto:)`)

// links returns the pages about the service that a browser can open.
func links(s *brokerpak.Service) []link {
	var all []link
	for _, candidate := range []link{{"Documentation", s.DocumentationURL}, {"Support", s.SupportURL}} {
		if openable.MatchString(candidate.URL) {
			all = append(all, candidate)
		}
	}
	return all
}

// groups lists the instance groups of the manifest template.
func groups(bosh *brokerpak.Bosh) []group {
	var all []group
	for _, found := range bosh.InstanceGroups() {
		g := group{Name: found.Name, Jobs: found.Jobs}
		if found.Lifecycle == "errand" {
			g.Notes = append(g.Notes, line{text("An errand.")})
		}
		if found.Sized {
			g.Notes = append(g.Notes, line{text("The service sizes it; plans need not have it.")})
		}
		if found.Optional {
			g.Notes = append(g.Notes, line{text("A plan may leave it out.")})
		}
		all = append(all, g)
	}
	return all
}
