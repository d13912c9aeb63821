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

// An EphemeralInput describes an input of a record whose value is not stored, because it is an ephemeral variable of
// the template or because such a variable is computed from it. It contains the name and type of the input, the layer
// of package vars that set the value, and the expression that computes the value if that can be evaluated again, but
// not the value itself. A literal in such an expression is stored with it. The zero value describes no input.
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

// EphemeralInputs returns descriptions of the ephemeral inputs of an action that have a value in the scope. The inputs
// of the action must have been resolved in that scope. The result is in the order of evaluation: user inputs, plan
// inputs, computed inputs. A computed input replaces a user or plan input of the same name. An input whose value is
// null is left out. The result is nil if none remains; neither argument may be nil.
func EphemeralInputs(action *brokerpak.Action, scope *vars.Scope) []EphemeralInput {
	names := action.EphemeralInputs()
	var described []EphemeralInput
	for _, input := range slices.Concat(action.UserInputs, action.PlanInputs, action.ComputedInputs) {
		exists := slices.ContainsFunc(described, func(e EphemeralInput) bool { return e.Name == input.Name })
		if !slices.Contains(names, input.Name) || scope.Values[input.Name] == nil {
			continue
		}
		origin := scope.Origins[input.Name]
		ephemeral := EphemeralInput{Name: input.Name, Layer: origin.Layer, Type: input.Type}
		template, err := expr.Parse(expr.Source{Text: origin.Expression})
		if err == nil && isEvaluable(template) {
			ephemeral.Expr = origin.Expression
		}
		if exists { // a computed input replaces the user input or plan input of the same name
			described = slices.DeleteFunc(described, func(e EphemeralInput) bool { return e.Name == input.Name })
		}
		described = append(described, ephemeral)
	}
	return described
}

// isEvaluable reports whether an expression can be recorded in place of its value and evaluated again later: it
// contains a reference or a function call, so that its text is not itself the value, and it calls no function that
// generates a new value, such as a password, each time.
func isEvaluable(template *expr.Template) bool {
	generates := func(call expr.Call) bool { return slices.Contains(brokerpak.Generators(), call.Name) }
	return len(template.References())+len(template.Calls()) > 0 && !slices.ContainsFunc(template.Calls(), generates)
}

// withoutEphemeral returns the record without the values of its ephemeral inputs in Inputs, ImportedValues,
// ImportedParameters and Generated. The result is r itself if the record has no ephemeral inputs, and otherwise a copy
// whose maps of these four fields are new and whose other fields share their content with r. The caller must therefore
// not change the result.
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

// isEphemeral reports whether the input with this name is one of the record's ephemeral inputs, whose values are not
// stored. It returns false for unknown names.
func (r *StateRecord) isEphemeral(name string) bool {
	return slices.ContainsFunc(r.Ephemeral, func(input EphemeralInput) bool { return input.Name == name })
}

// StoredInputs returns the inputs of the record without the ephemeral ones, whose values are not stored. The result is
// the map Inputs itself if the record has no ephemeral inputs, and a new map otherwise, so the caller must not change
// it. It is nil if Inputs is nil, and can be empty.
func (r *StateRecord) StoredInputs() map[string]any { return r.withoutEphemeral().Inputs }

// MissingEphemeral returns the names of the ephemeral inputs of the record that are no keys of inputs, in the order of
// the record. A key with a null value counts as present. The result is nil if no name is missing.
func (r *StateRecord) MissingEphemeral(inputs map[string]any) []string {
	var names []string
	for _, input := range r.Ephemeral {
		if _, exists := inputs[input.Name]; !exists {
			names = append(names, input.Name)
		}
	}
	return names
}

// An Evaluation determines the values of the ephemeral inputs of a record again. It contains the scope with all other
// values, the texts that an operator supplies, the scope of the installed definition, and whether the first scope lacks
// the data of the running instance. Only Scope is required: with the zero values of the other fields, only inputs with
// a recorded expression can be evaluated.
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

// Evaluate sets the ephemeral inputs of the record in e.Scope, in the order of the record, and does not change the
// record. A text supplied by an operator takes precedence, then the recorded expression, then a constant value of the
// installed definition. A value that a user sent or that was generated cannot be determined again unless an operator
// supplies it.
//
// Evaluate returns the errors of the inputs that could not be evaluated, by name; these have no value in the scope. A
// text that cannot be cast to the type of the input, a failing expression and a null value are such errors. failed is
// nil if all inputs have a value.
func (e Evaluation) Evaluate(record *StateRecord) (failed map[string]error) {
	for _, input := range record.Ephemeral {
		delete(e.Scope.Values, input.Name)
		err := e.evaluate(input)
		if err == nil && e.Scope.Values[input.Name] == nil {
			err = errors.New("it evaluates to null") // a record lists only inputs that had a value
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

// evaluate sets one ephemeral input in e.Scope. If an operator supplies a text, the value is that text, cast to the
// type of the input. Otherwise it is the value of the recorded expression if there is one, and otherwise the constant
// that the installed definition sets in the same layer.
//
// evaluate returns an error if the text cannot be cast, if the expression fails, or reads the running instance although
// e.WithoutInstance is set, and if none of the three sources exists. It does not try another source after such an
// error. The value in the scope is meaningless after an error. With vars.Options.TolerateUnset, an expression that
// reads a value that is not set is no error, and leaves the input without a value.
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

// isConstant reports whether the value of the input can be taken from definition, a scope in which the inputs of the
// installed definition have been resolved. It is true if the same layer that set the recorded value also sets the input
// there, to a value that is not null, and if that layer is one of the operator, the override or the plan, or is a
// default or computed input whose text contains no reference and no function call. It is false for every other layer,
// in particular for parameters of a user. definition must not be nil.
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

// checkEphemeral returns an error if a provider block may read an ephemeral variable of the record's template that is
// an ephemeral input of the record and not a key of inputs. The error names all such variables and the command with
// which an operator supplies them. If no provider block reads such a variable, checkEphemeral only logs a warning
// with its name, and the variable has its default or is null for OpenTofu. inputs are the values of the template's
// variables. failed contains, by name, the reasons why the values are missing, for the messages; it may be nil.
// checkEphemeral returns nil for a record without ephemeral inputs.
func checkEphemeral(m *Manager, record *StateRecord, inputs map[string]any, failed map[string]error) error {
	if len(record.Ephemeral) == 0 {
		return nil
	}
	kind, id := record.KindAndID()
	module, _ := hclfile.Inspect(record.Templates) // OpenTofu reports faults of the files
	var required, flags []string
	for _, name := range module.EphemeralVariables() {
		if _, exists := inputs[name]; exists || !record.isEphemeral(name) {
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

// CheckSupplied returns an error if a key of supplied, which maps the names of inputs to the values that an operator
// supplies, is not the name of an ephemeral input of the record. The error names the first such key in alphabetical
// order and lists the ephemeral inputs of the record. The values are not checked. An empty or nil map is valid.
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

// completeInputs adds to record.Inputs the values of the ephemeral inputs, which were not stored, and registers them in
// m.Secrets so that they are masked. Manager.Reevaluate evaluates them again; if it is nil, no value is added.
// completeInputs does nothing for a record without ephemeral inputs. It returns an error if a provider block may read
// an ephemeral variable that still has no value; record.Inputs then contains all values that could be evaluated. A
// warning is logged for other ephemeral variables without a value.
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
