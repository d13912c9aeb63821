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

// Played are the examples of the service, or one that is made up, which has no name.
func (s service) Played() []brokerpak.Example {
	if len(s.Examples) > 0 {
		return s.Examples
	}
	return []brokerpak.Example{s.sample()}
}

// Commands are those that play an example.
func (s service) Commands(e brokerpak.Example) string {
	return cf("", e.ProvisionParams, "create-service", s.Name, s.planName(e.PlanID), s.instanceName()) + "\n" +
		cf("", e.BindParams, "bind-service", appName, s.instanceName())
}

const appName = "my-app"

// changeable finds a parameter to show an update with: one that no plan sets, and rather one of which a value is known.
func (s service) changeable() (chosen brokerpak.Variable, ok bool) {
	for _, input := range s.Provision.UserInputs {
		fixed := slices.ContainsFunc(s.Plans, func(p brokerpak.Plan) bool {
			_, set := sets(p)[input.Name]
			return set
		})
		if fixed || input.ProhibitUpdate {
			continue
		}
		if _, known := known(input); known {
			return input, true
		}
		if !ok {
			chosen, ok = input, true
		}
	}
	return chosen, ok
}

func (s service) instanceName() string { return "my-" + s.Name }

// planName finds the plan of an example. It may be one of the operator's, of which the pak does not know the name.
func (s service) planName(id string) string {
	if plan := s.Plan(id); plan != nil {
		return plan.Name
	}
	return "PLAN"
}

// sample is an example for a service that has none: its first plan and the parameters that must be given.
func (s service) sample() brokerpak.Example {
	e := brokerpak.Example{ProvisionParams: required(s.Provision), BindParams: required(s.Bind)}
	if len(s.Plans) > 0 {
		e.PlanID = s.Plans[0].ID
		for name := range sets(s.Plans[0]) {
			delete(e.ProvisionParams, name)
		}
	}
	return e
}

func required(action brokerpak.Action) map[string]any {
	parameters := map[string]any{}
	for _, input := range action.UserInputs {
		if describe(input).Required && !isComputed(action, input.Name) {
			parameters[input.Name] = plausible(input)
		}
	}
	return parameters
}

// known is a value that the definition itself gives for an input.
func known(input brokerpak.Variable) (sample any, ok bool) {
	if sample, ok = input.Example(); ok {
		return sample, true
	}
	if input.HasDefault && (input.DefaultExpr == nil || input.DefaultExpr.IsLiteral()) {
		return constant(input), true
	}
	return nil, false
}

// plausible is a value that an input may have, as far as its definition tells.
func plausible(input brokerpak.Variable) any {
	if sample, ok := known(input); ok {
		return sample
	}
	switch input.Type {
	case "boolean":
		return true
	case "string", "":
		return "…" // a reader sees that it is to be filled in
	default:
		return input.Typical()
	}
}

// OtherCommands are those that examples do not show.
func (s service) OtherCommands() string {
	instance := s.instanceName()
	commands := []string{cf("see whether it is ready", nil, "service", instance)}
	if input, ok := s.changeable(); ok {
		commands = append(commands, cf("change a parameter", map[string]any{input.Name: plausible(input)}, "update-service", instance))
	}
	if s.PlanUpdateable && len(s.Plans) > 1 {
		commands = append(commands, cf("change the plan", nil, "update-service", instance, "-p", s.Plans[1].Name))
	}
	if !s.Bind.RequiresAppGUID {
		commands = append(commands, cf("get credentials without an app", required(s.Bind), "create-service-key", instance, "my-key"))
	}
	return strings.Join(append(commands,
		cf("take the credentials back", nil, "unbind-service", appName, instance),
		cf("delete the instance and its data", nil, "delete-service", instance),
	), "\n\n")
}

// bareWord needs no quotes in a shell.
var bareWord = regexp.MustCompile(`^[A-Za-z0-9_./:-]+$`)

// cf is a command for a POSIX shell, with the parameters of a request and below a comment, where there are some.
func cf(comment string, parameters map[string]any, words ...string) string {
	if len(parameters) > 0 {
		words = append(words, "-c", literal(parameters))
	}
	line := "cf"
	for _, word := range words {
		if !bareWord.MatchString(word) {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		line += " " + word
	}
	if comment != "" {
		line = "# " + comment + "\n" + line
	}
	return line
}
