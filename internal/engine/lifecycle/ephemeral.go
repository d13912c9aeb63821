package lifecycle

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/expr"
	"service-adapter/internal/diag"
	"service-adapter/internal/hclfile"
	"service-adapter/internal/instance"
	"service-adapter/internal/redact"
	"service-adapter/internal/value"
	"service-adapter/internal/vars"
)

// An EphemeralInput is an input whose value is not stored, because it is an ephemeral variable of the template or such
// a variable is computed from it. It describes how the value is evaluated again.
type EphemeralInput struct {
	Name string `json:"name"`
	// Layer is the layer of package vars that set the value. It is "" if it is not known.
	Layer string `json:"layer,omitempty"`
	// Type is the type of the input in the definition. The value of Expr, or a text that an operator supplies, is cast
	// to it. "" means that the value is not cast.
	Type string `json:"type,omitempty"`
	// Expr is the text of the expression that computes the value. It is "" if there is none, if the expression is only
	// a text, which would be the value itself, and if it generates a value, because a second evaluation would have
	// another result.
	Expr string `json:"expr,omitempty"`
}

// EphemeralInputs returns the ephemeral inputs of an action that have a value in the scope, in which the inputs of the
// action have been resolved. They are in the order of their evaluation. The result is nil if there are none.
func EphemeralInputs(action *brokerpak.Action, scope *vars.Scope) []EphemeralInput {
	names := action.EphemeralInputs()
	var found []EphemeralInput
	for _, input := range slices.Concat(action.UserInputs, action.PlanInputs, action.ComputedInputs) {
		known := slices.ContainsFunc(found, func(e EphemeralInput) bool { return e.Name == input.Name })
		if !slices.Contains(names, input.Name) || scope.Values[input.Name] == nil {
			continue
		}
		origin := scope.Origins[input.Name]
		ephemeral := EphemeralInput{Name: input.Name, Layer: origin.Layer, Type: input.Type}
		template, err := expr.Parse(expr.Source{Text: origin.Expression})
		if err == nil && isEvaluable(template) {
			ephemeral.Expr = origin.Expression
		}
		if known { // a computed input replaces the user input or plan input of the same name
			found = slices.DeleteFunc(found, func(e EphemeralInput) bool { return e.Name == input.Name })
		}
		found = append(found, ephemeral)
	}
	return found
}

// isEvaluable reports whether a second evaluation of an expression can have the same result and its text is not itself
// the value.
func isEvaluable(template *expr.Template) bool {
	generates := func(call expr.Call) bool { return slices.Contains(brokerpak.Generators(), call.Name) }
	return len(template.References())+len(template.Calls()) > 0 && !slices.ContainsFunc(template.Calls(), generates)
}

// withoutEphemeral returns a copy of the record without the values of its ephemeral inputs.
func (r *StateRecord) withoutEphemeral() *StateRecord {
	if len(r.Ephemeral) == 0 {
		return r
	}
	isEphemeral := func(name string, _ any) bool { return r.isEphemeral(name) }
	stored := *r
	for _, values := range []*map[string]any{&stored.Inputs, &stored.ImportedValues, &stored.ImportedParameters} {
		*values = maps.Clone(*values)
		maps.DeleteFunc(*values, isEphemeral)
	}
	stored.Generated = maps.Clone(r.Generated)
	maps.DeleteFunc(stored.Generated, func(name string, _ map[string]any) bool { return r.isEphemeral(name) })
	return &stored
}

// isEphemeral reports whether the value of an input is not stored.
func (r *StateRecord) isEphemeral(name string) bool {
	return slices.ContainsFunc(r.Ephemeral, func(input EphemeralInput) bool { return input.Name == name })
}

// StoredInputs returns a copy of the inputs without those whose values are not stored. It is not nil unless Inputs is.
func (r *StateRecord) StoredInputs() map[string]any { return r.withoutEphemeral().Inputs }

// MissingEphemeral returns the names of the ephemeral inputs of the record that have no value in inputs, and nil if
// there are none.
func (r *StateRecord) MissingEphemeral(inputs map[string]any) []string {
	var names []string
	for _, input := range r.Ephemeral {
		if _, known := inputs[input.Name]; !known {
			names = append(names, input.Name)
		}
	}
	return names
}

// An Evaluation evaluates the ephemeral inputs of a record again.
type Evaluation struct {
	// Scope must contain the values of the other inputs, and receives those of the ephemeral ones.
	Scope *vars.Scope
	// Definition is a scope in which the inputs of the installed definition have been resolved without parameters of a
	// user. It supplies the inputs without an expression. nil means that there is none.
	Definition *vars.Scope
	// Supplied are the texts that an operator supplies, by the name of the input. They are cast to the type of the
	// input and take precedence. They may be nil.
	Supplied map[string]string
	// WithoutInstance means that Scope has no data of the running instance, so that expressions which read it fail.
	WithoutInstance bool
}

// Evaluate sets the ephemeral inputs of the record in the scope. It returns the errors of the inputs that cannot be
// evaluated, by name; they have no value in the scope. A value that a user sent or that was generated cannot be
// evaluated. The result is nil if there are none.
func (e Evaluation) Evaluate(record *StateRecord) (failed map[string]error) {
	for _, input := range record.Ephemeral {
		delete(e.Scope.Values, input.Name)
		err := e.evaluate(input)
		if err == nil && e.Scope.Values[input.Name] == nil {
			err = errors.New("its value is null now") // a record lists only inputs that had a value
		}
		if err != nil {
			delete(e.Scope.Values, input.Name)
			if failed == nil {
				failed = map[string]error{}
			}
			failed[input.Name] = err
		}
	}
	return failed
}

// evaluate sets one ephemeral input in the scope. It returns an error if the input cannot be evaluated.
func (e Evaluation) evaluate(input EphemeralInput) error {
	if text, isSupplied := e.Supplied[input.Name]; isSupplied {
		item, err := expr.Cast(text, input.Type)
		e.Scope.Set(suppliedLayer, map[string]any{input.Name: item})
		return err
	}
	if input.Expr != "" {
		template, err := expr.Parse(expr.Source{Text: input.Expr, Pos: diag.Pos{File: "the record"}})
		if err != nil {
			return err
		}
		if e.WithoutInstance && (instance.Deferred(template) || brokerpak.ReadsDetails(template)) {
			return errors.New("its expression reads the running instance")
		}
		return e.Scope.Assign(input.Name, input.Type, template)
	}
	if e.Definition != nil && input.isConstant(e.Definition) {
		e.Scope.Set(input.Layer, map[string]any{input.Name: e.Definition.Values[input.Name]})
		return nil
	}
	if input.Layer == vars.ParameterLayer {
		return errors.New("it was a parameter of the request")
	}
	return errors.New("no expression that can be evaluated again computes it")
}

// suppliedLayer is the layer of the values that an operator supplies with a command.
const suppliedLayer = "supplied"

// isConstant reports whether the layer that set the input also sets it in the scope of the installed definition, to a
// value that is not computed.
func (e EphemeralInput) isConstant(definition *vars.Scope) bool {
	origin := definition.Origins[e.Name]
	if origin.Layer != e.Layer || definition.Values[e.Name] == nil {
		return false
	}
	switch e.Layer {
	case vars.OperatorLayer, vars.OverrideLayer, vars.PlanLayer:
		return true
	case vars.DefaultLayer, vars.ComputedLayer:
		template, err := expr.Parse(expr.Source{Text: origin.Expression})
		return err == nil && len(template.References())+len(template.Calls()) == 0
	default:
		return false
	}
}

// checkEphemeral returns an error if an ephemeral variable of the record's template has no value in inputs and a
// provider block may read it. The error names the variables and the command with which an operator supplies them. All
// other variables without a value are null for OpenTofu; a warning names them. failed contains the reasons by name, and
// may be nil.
func checkEphemeral(m *Manager, record *StateRecord, inputs map[string]any, failed map[string]error) error {
	if len(record.Ephemeral) == 0 {
		return nil
	}
	kind, id := record.KindAndID()
	module, _ := hclfile.Inspect(record.Templates) // OpenTofu reports faults of the files
	var required, flags []string
	for _, name := range module.EphemeralVariables() {
		if _, known := inputs[name]; known || !record.isEphemeral(name) {
			continue
		}
		reason := failed[name]
		if !slices.Contains(module.ProvidersRead, name) {
			m.Logger.Warn("an ephemeral variable is null, because its value is not stored and could not be "+
				"evaluated again; no provider block reads it", string(kind), id, "variable", name, "error", reason)
			continue
		}
		text := fmt.Sprintf("%q", name)
		if reason != nil {
			text += fmt.Sprintf(" (%s)", reason)
		}
		required, flags = append(required, text), append(flags, "--input "+name+"=FILE")
	}
	if len(required) == 0 {
		return nil
	}
	command := map[Kind]string{Binding: "bindings delete", Instance: "instance destroy"}[kind]
	return fmt.Errorf("a provider block reads the ephemeral variable %s, whose value is not stored and cannot be "+
		"evaluated again: supply it to the deletion with \"service-adapter %s %s %s\"",
		strings.Join(required, " and "), command, id, strings.Join(flags, " "))
}

// CheckSupplied returns an error if one of the names, by which an operator supplies values, is not that of an ephemeral
// input of the record. The error lists the names that are.
func (r *StateRecord) CheckSupplied(supplied map[string]string) error {
	for _, name := range value.Keys(supplied) {
		if r.isEphemeral(name) {
			continue
		}
		kind, id := r.KindAndID()
		if len(r.Ephemeral) == 0 {
			return fmt.Errorf("--input %s: the %s %s has no ephemeral input, and the values of all others are stored",
				name, kind, id)
		}
		names := value.Convert(r.Ephemeral, func(input EphemeralInput) string { return input.Name })
		return fmt.Errorf("--input %s: the %s %s has no ephemeral input of this name; it has %s",
			name, kind, id, diag.Names(names))
	}
	return nil
}

// completeInputs adds the values of ephemeral inputs, which Manager.Reevaluate evaluates again, to the inputs of a
// stored record. Errors are those of checkEphemeral; the inputs are as complete as possible then.
func completeInputs(m *Manager, record *StateRecord) error {
	if len(record.Ephemeral) == 0 {
		return nil
	}
	var failed map[string]error
	if m.Reevaluate != nil {
		var values map[string]any
		values, failed = m.Reevaluate(record)
		record.Inputs = value.Merge(record.Inputs, values)
	}
	record.MaskEphemeral(m.Secrets, record.Inputs)
	return checkEphemeral(m, record, record.Inputs, failed)
}

// MaskEphemeral adds the values that the ephemeral inputs of the record have in inputs to the secrets, so that they are
// masked in the log and in recordings. It does nothing if secrets is nil.
func (r *StateRecord) MaskEphemeral(secrets *redact.Secrets, inputs map[string]any) {
	if secrets == nil {
		return
	}
	for _, input := range r.Ephemeral {
		secrets.Add(inputs[input.Name])
	}
}
