package doc

import (
	"regexp"
	"slices"
	"strings"

	"service-adapter/brokerpak"
	"service-adapter/internal/value"
)

// A page contains the data of the reference of a pak. The templates of both formats use it, so that their contents
// agree.
type page struct {
	brokerpak.Manifest
	Services []service
}

// A service provides the methods by which the templates get the parameters, credentials and commands of a service.
type service struct{ *brokerpak.Service }

// A link is a titled link to a page about a service.
type link struct{ Title, URL string }

// A parameter describes an input, an output or an environment variable. Type is in words. It is "" for an environment
// variable, and for an output of provision.bosh that is not declared under outputs.
type parameter struct {
	Name        string
	Type        string
	Description string
	Required    bool
	Default     line // nil if there is no default
	Notes       []line
	Enum        []brokerpak.EnumValue
}

// A line is a short text that may contain code.
type line []span

// A span is a part of a line. If Code is false, Text is a constant of this package and not a text of the pak.
type span struct {
	Text string
	Code bool
}

// linef returns a line with the text of a format, in which each %s is replaced by one of the literals as code. There
// must be a literal for each %s.
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

// newPage returns the data of the reference of a pak.
func newPage(pak *brokerpak.Pak) page {
	p := page{Manifest: pak.Manifest}
	for _, s := range pak.Services {
		p.Services = append(p.Services, service{s})
	}
	return p
}

// Environment returns the environment variables that an operator can or must set: those that the manifest lists as
// parameters, then the required ones, then the sources of configuration keys. Each is contained once.
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

// sets returns the values that a plan sets for an instance, by the name of the property or parameter. An override
// replaces a property of the same name.
func sets(plan brokerpak.Plan) map[string]any {
	return value.Merge(plan.Properties, plan.ProvisionOverrides)
}

// setsAll returns the values that a plan sets for an instance and its bindings. A value for bindings replaces one of
// the same name.
func setsAll(plan brokerpak.Plan) map[string]any { return value.Merge(sets(plan), plan.BindOverrides) }

// openable matches URLs with a scheme that a browser can open safely.
var openable = regexp.MustCompile(`^(https?://|mailto:)`)

// Links returns links to the documentation and the support of the service, if their URLs are openable. The result may
// be empty.
func (s service) Links() []link {
	var all []link
	for _, candidate := range []link{{"Documentation", s.DocumentationURL}, {"Support", s.SupportURL}} {
		if openable.MatchString(candidate.URL) {
			all = append(all, candidate)
		}
	}
	return all
}

// Groups returns the instance groups of the manifest template and of ops files, or nil for a service without a
// template.
func (s service) Groups() []brokerpak.InstanceGroup {
	if s.Provision.Bosh == nil {
		return nil
	}
	return s.Provision.Bosh.InstanceGroups()
}

// CommandNames returns the names of the programs that the templates of the service run and that the pak may lack.
func (s service) CommandNames() []string {
	return value.Convert(s.RequiredCommands, func(command brokerpak.Command) string { return command.Name })
}

// remarks returns sentences about an instance group, each preceded by a blank: whether it is an errand, whether the
// service sizes it, whether a plan may leave it out, and whether only some instances have it. The result is "" if none
// of these is true.
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
	if group.If != nil {
		all += " Not every instance has it."
	}
	return all
}

// ShownExamples returns the examples of the service. If it has none, it returns a generated example without a name.
func (s service) ShownExamples() []brokerpak.Example {
	if len(s.Examples) > 0 {
		return s.Examples
	}
	return []brokerpak.Example{s.sample()}
}

// Commands returns the cf commands that create the instance and the binding of an example, one on each line.
func (s service) Commands(e brokerpak.Example) string {
	return cf("", e.ProvisionParams, "create-service", s.Name, s.planName(e.PlanID), s.instanceName()) + "\n" +
		cf("", e.BindParams, "bind-service", appName, s.instanceName())
}

// appName is the name of the app in commands.
const appName = "my-app"

// changeable returns an input for the example of an update: one that no plan sets and that can be updated. It prefers
// an input with a documented value. ok is false if there is no such input.
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

// planName returns the name of the plan with an id. It returns "PLAN" for a plan that the pak does not contain,
// because an operator adds it.
func (s service) planName(id string) string {
	if plan := s.Plan(id); plan != nil {
		return plan.Name
	}
	return "PLAN"
}

// sample returns a generated example without a name: the first plan of the service, with sample values for the required
// parameters of an instance that the plan does not set and for those of a binding. Without plans, its PlanID is "".
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

// required returns sample values for the required parameters of an action that have no default and are not computed.
// The result is never nil.
func required(action brokerpak.Action) map[string]any {
	parameters := map[string]any{}
	for _, input := range action.UserInputs {
		if describe(input).Required && !isComputed(action, input.Name) {
			parameters[input.Name] = plausible(input)
		}
	}
	return parameters
}

// documentedValue returns the first example or the constant default of an input. ok is false if the definition has
// neither.
func documentedValue(input brokerpak.Variable) (sample any, ok bool) {
	if sample, ok = input.Example(); ok {
		return sample, true
	}
	if input.HasDefault && (input.DefaultExpr == nil || input.DefaultExpr.IsLiteral()) {
		return constant(input), true
	}
	return nil, false
}

// plausible returns a sample value for an input: a documented value, else a typical value of its type. For a text, or
// an input without a type, that is an ellipsis.
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

// OtherCommands returns cf commands for the rest of the life of an instance, each below a comment and separated by
// empty lines: its status, its update, a change of the plan, a service key, the unbinding and the deletion. Commands
// that the service does not support are left out: an update needs a changeable parameter, a change of the plan a second
// plan, and a service key a bind action that does not require an app.
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
	if !s.Bind.RequiresAppGUID {
		commands = append(commands,
			cf("get credentials without an app", required(s.Bind), "create-service-key", instance, "my-key"))
	}
	return strings.Join(append(commands,
		cf("take the credentials back", nil, "unbind-service", appName, instance),
		cf("delete the instance and its data", nil, "delete-service", instance),
	), "\n\n")
}

// bareWord matches words that need no quotes in a shell.
var bareWord = regexp.MustCompile(`^[A-Za-z0-9_./:-]+$`)

// cf returns a cf command for a POSIX shell. words are the words after "cf", which are quoted if necessary. Parameters,
// if there are any, become its option -c. A comment other than "" is added as a line above the command.
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
