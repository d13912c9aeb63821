package doc

import (
	"regexp"
	"slices"
	"strings"

	"service-adapter/brokerpak"
	"service-adapter/internal/value"
)

// A page contains the data of the reference documentation of a pak: its manifest and its services. The templates for
// Markdown and HTML both use it, so that their contents agree.
type page struct {
	brokerpak.Manifest
	Services []service
}

// A service wraps a service definition of the pak, and adds methods that return its parameters, credentials and cf
// commands for the templates of the reference documentation. The pointer must not be nil.
type service struct{ *brokerpak.Service }

// A link is a link to a web page about a service: the text that is shown, "Documentation" or "Support", and the URL
// from the definition, which is not escaped.
type link struct{ Title, URL string }

// A parameter describes an input, an output or an environment variable for a row of a table. Type is in words, such as
// "string or null". It is "" for an environment variable, and for an output of provision.bosh that is not declared
// under outputs. Default and Notes are nil, and Enum is empty, if the declaration has none.
type parameter struct {
	Name        string
	Type        string
	Description string
	Required    bool
	Default     line // nil if there is no default
	Notes       []line
	Enum        []brokerpak.EnumValue
}

// A line is a short text that consists of spans. Some spans are code, so that each format can mark up the code in its
// own way. A nil line is empty; as the default of a parameter it means that the parameter has none.
type line []span

// A span is a part of a line. If Code is true, Text is shown as code and may be any text of the pak, which must be
// escaped. If Code is false, Text is a constant of this package, which needs no escapes.
type span struct {
	Text string
	Code bool
}

// linef returns a line with the text of a format, such as "At least %s.". The literals replace each %s in order, as
// spans of code. Other verbs are not interpreted. linef panics if the format has more %s than there are literals, and
// ignores surplus literals.
func linef(format string, literals ...string) line {
	var result line
	for i, words := range strings.Split(format, "%s") {
		if i > 0 {
			result = append(result, span{literals[i-1], true})
		}
		result = append(result, span{words, false})
	}
	return result
}

// newPage returns the data of the reference documentation of a pak: a copy of its manifest, and all its services in
// their order. The services share the definitions of the pak.
func newPage(pak *brokerpak.Pak) page {
	p := page{Manifest: pak.Manifest}
	for _, s := range pak.Services {
		p.Services = append(p.Services, service{s})
	}
	return p
}

// Environment returns the variables of the adapter's environment that an operator can or must set, each once: those
// that the manifest lists as parameters, in its order, then the other required ones, and then the other variables that
// set configuration keys, sorted by name. A variable is described as required if the manifest requires it, even if it
// is also listed as a parameter. A variable that sets a configuration key has a note with that key. Only the variables
// that are listed as parameters have a description. The result is nil if the manifest lists no variables.
func (p page) Environment() []parameter {
	var all []parameter
	var names []string
	descriptions := map[string]string{}
	for _, declared := range p.Parameters {
		names, descriptions[declared.Name] = append(names, declared.Name), declared.Description
	}
	for _, name := range slices.Concat(names, p.RequiredEnv, value.Keys(p.EnvConfigMapping)) {
		if slices.ContainsFunc(all, func(p parameter) bool { return p.Name == name }) {
			continue
		}
		variable := parameter{
			Name: name, Description: descriptions[name], Required: slices.Contains(p.RequiredEnv, name),
		}
		if key, ok := p.EnvConfigMapping[name]; ok {
			variable.Notes = []line{linef("Sets the configuration %s.", key)}
		}
		all = append(all, variable)
	}
	return all
}

// sets returns the values that a plan sets for an instance, by the name of the input: its properties and its provision
// overrides. As in a request, a property replaces an override of the same name (see vars.Provision.Resolve). The result
// is a new map, which is never nil.
func sets(plan brokerpak.Plan) map[string]any {
	return value.Merge(plan.ProvisionOverrides, plan.Properties)
}

// setsAll returns the values that a plan sets for an instance and its bindings, by the name of the input: the values of
// sets and the plan's bind overrides, which replace values of the same name. The result is a new map, which is never
// nil.
func setsAll(plan brokerpak.Plan) map[string]any { return value.Merge(sets(plan), plan.BindOverrides) }

// openable matches URLs with a scheme that a browser can open safely.
var openable = regexp.MustCompile(`^(https?://|mailto:)`)

// Links returns links to the documentation and to the support of the service, in this order. A URL that does not begin
// with http://, https:// or mailto: is left out. The result is nil if no link remains.
func (s service) Links() []link {
	var all []link
	for _, candidate := range []link{{"Documentation", s.DocumentationURL}, {"Support", s.SupportURL}} {
		if openable.MatchString(candidate.URL) {
			all = append(all, candidate)
		}
	}
	return all
}

// Groups returns the instance groups that the definition contains, also those that plans need not size: those of the
// manifest template, then those that ops files for the template add, each once; see Bosh.InstanceGroups. It returns
// nil if the service has none or has no provision.bosh section.
func (s service) Groups() []brokerpak.InstanceGroup {
	if s.Provision.Bosh == nil {
		return nil
	}
	return s.Provision.Bosh.InstanceGroups()
}

// CommandNames returns the names under requires_commands of the definition, in its order: the programs, such as "curl",
// that the templates of the service run and that must be installed on the broker's VM. It returns nil if the definition
// lists none.
func (s service) CommandNames() []string {
	return value.Convert(s.RequiredCommands, func(command brokerpak.Command) string { return command.Name })
}

// remarks returns constant English sentences about an instance group, each preceded by a blank, such as " An errand. A
// plan can omit it.". They state that the group is an errand, that the service sizes it, that a plan can omit it, and
// that only some instances have it. The result is "" if none of these is true.
func remarks(group brokerpak.InstanceGroup) (all string) {
	if group.Lifecycle == "errand" {
		all += " An errand."
	}
	if group.Sized {
		all += " The service determines its size; plans need not have it."
	}
	if group.Optional {
		all += " A plan can omit it."
	}
	if group.If != nil {
		all += " Not every instance has it."
	}
	return all
}

// ShownExamples returns the examples of the service for the reference documentation. If the definition has none, it
// returns one generated example, whose name is ""; see sample.
func (s service) ShownExamples() []brokerpak.Example {
	if len(s.Examples) > 0 {
		return s.Examples
	}
	return []brokerpak.Example{s.sample()}
}

// Commands returns the cf commands for an example, for a POSIX shell, on one line each and without a line break at
// the end: create-service with the plan and the parameters of the example, and, if the service supports bindings,
// bind-service with the app my-app and the parameters of the binding. The instance has the name of instanceName, and
// parameters are JSON. If the pak does not contain the plan, its name is the placeholder PLAN.
func (s service) Commands(e brokerpak.Example) string {
	create := cf("", e.ProvisionParams, "create-service", s.Name, s.planName(e.PlanID), s.instanceName())
	if !s.Binds() {
		return create
	}
	return create + "\n" + cf("", e.BindParams, "bind-service", appName, s.instanceName())
}

// appName is the name of the app in commands.
const appName = "my-app"

// changeable returns a user input of the provision action for the example of an update: one that no plan of the pak
// sets, as a property or an override, and that may be changed by an update. It prefers the first such input with a
// documented value (see documentedValue), and else returns the first one. ok is false, and the input is zero, if none
// exists.
func (s service) changeable() (chosen brokerpak.Variable, ok bool) {
	for _, input := range s.Provision.UserInputs {
		fixed := slices.ContainsFunc(s.Plans, func(p brokerpak.Plan) bool {
			_, set := sets(p)[input.Name]
			return set
		})
		if fixed || input.ProhibitUpdate {
			continue
		}
		if _, ok := documentedValue(input); ok {
			return input, true
		}
		if !ok {
			chosen, ok = input, true
		}
	}
	return chosen, ok
}

// instanceName returns the name that the instance has in the cf commands of the reference: "my-" and the name of the
// service.
func (s service) instanceName() string { return "my-" + s.Name }

// planName returns the name of the plan with an id or a name. It returns "PLAN", as a placeholder in commands, if the
// pak does not contain the plan or if id is "", because the operator defines the plans then.
func (s service) planName(id string) string {
	if plan := s.Plan(id); plan != nil {
		return plan.Name
	}
	return "PLAN"
}

// sample returns a generated example without a name, for a service whose definition has no examples. Its plan is the
// first one of the service; PlanID is "" if the service has no plans. ProvisionParams are sample values for the user
// inputs that a request to create an instance must contain (see required), except those that the plan sets.
// BindParams is the result of required for the bind action; it does not depend on the plan. Neither map is nil.
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

// required returns sample values, by name, for the user inputs of an action that a request must contain: those that are
// required, have no default and are not computed. The result is empty, but not nil, if the action has none.
func required(action brokerpak.Action) map[string]any {
	parameters := map[string]any{}
	for _, input := range action.UserInputs {
		if describe(input).Required && !isComputed(action, input.Name) {
			parameters[input.Name] = plausible(input)
		}
	}
	return parameters
}

// documentedValue returns a value of an input that its declaration contains: the first of its examples, else its
// constant (const), else the first value of its enum, else its default, as constant returns it, unless that is
// computed from an expression (see defaultOf). The value may be nil if it is null in the declaration, but a default
// of null counts as no default. ok is false if the declaration has none of these.
func documentedValue(input brokerpak.Variable) (sample any, ok bool) {
	if sample, ok = input.Example(); ok {
		return sample, true
	}
	if input.HasDefault && (input.DefaultExpr == nil || input.DefaultExpr.IsLiteral()) {
		return constant(input), true
	}
	return nil, false
}

// plausible returns a sample value for an input in a cf command. It is the documented value of the input if there is
// one, which may be nil; see documentedValue. Otherwise it is a value of the input's type: true for a boolean, the
// minimum or 1 for a number, and an empty list or map for these types. For a string, for several types, and without a
// type, it is the string "…", which shows the reader that a value is missing.
func plausible(input brokerpak.Variable) any {
	if sample, ok := documentedValue(input); ok {
		return sample
	}
	switch input.Type {
	case "boolean":
		return true
	case "string", "":
		return "…" // it shows the reader that a value is missing
	default:
		return input.SampleValue()
	}
}

// OtherCommands returns cf commands for the rest of the life of an instance, each below a line with a comment and
// separated by empty lines: its status, an update, a change of the plan, a service key, the unbinding and the deletion.
// The update is left out if no user input can be changed (see changeable), the change of the plan if the service does
// not allow it or has fewer than two plans, the service key if the bind action requires an app, and the service key and
// the unbinding if the service does not support bindings. All others are always contained.
func (s service) OtherCommands() string {
	instance := s.instanceName()
	commands := []string{cf("see whether it is ready", nil, "service", instance)}
	if input, ok := s.changeable(); ok {
		parameters := map[string]any{input.Name: plausible(input)}
		commands = append(commands, cf("change a parameter", parameters, "update-service", instance))
	}
	if s.PlanUpdateable && len(s.Plans) > 1 {
		commands = append(commands, cf("change the plan", nil, "update-service", instance, "-p", s.Plans[1].Name))
	}
	if s.Binds() && !s.Bind.RequiresAppGUID {
		commands = append(commands,
			cf("get credentials without an app", required(s.Bind), "create-service-key", instance, "my-key"))
	}
	if s.Binds() {
		commands = append(commands, cf("take the credentials back", nil, "unbind-service", appName, instance))
	}
	commands = append(commands, cf("delete the instance and its data", nil, "delete-service", instance))
	return strings.Join(commands, "\n\n")
}

// bareWord matches words that need no quotes in a shell.
var bareWord = regexp.MustCompile(`^[A-Za-z0-9_./:-]+$`)

// cf returns a cf command for a POSIX shell, without a line break at the end. words are the words after "cf"; those
// with special characters are put into single quotes. parameters become the option -c at the end, as JSON, unless they
// are empty or nil. A comment other than "" is added as a line "# COMMENT" above the command.
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
