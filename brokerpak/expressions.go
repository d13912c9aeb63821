package brokerpak

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"service-adapter/brokerpak/expr"
	"service-adapter/internal/diag"
	"service-adapter/internal/value"
)

// A Stage is a point in time at which an expression is evaluated. Later stages can read everything that earlier
// stages can, and more.
type Stage int

// The stages of a provision action. All expressions of a bind action are evaluated in the first stage.
const (
	Resolving Stage = iota // the variables are resolved; expressions can read the inputs
	Rendering              // the manifest is rendered; expressions can read the outputs of the provision template
	Deployed               // the instance is deployed; expressions can read its manifest and its addresses
)

// An Expression is an expression of an action. Stage is the time of its evaluation. Rule means that it belongs to a
// check, to the update block or to bind.adopt. Only rules of a provision action can read the previous deployment.
type Expression struct {
	*expr.Template
	Stage Stage
	Rule  bool
}

// Expressions returns all expressions of an action that are evaluated: the defaults of user inputs, the values of
// computed inputs, the conditions and messages of checks, those of provision.bosh, and bind.adopt. Their order is the
// same at every call. No Template in the result is nil. The result is nil if the action has no expressions.
func (a *Action) Expressions() []Expression {
	var all []Expression
	add := func(stage Stage, rule bool, templates ...*expr.Template) {
		for _, template := range templates {
			if template != nil {
				all = append(all, Expression{template, stage, rule})
			}
		}
	}
	for _, variable := range slices.Concat(a.UserInputs, a.ComputedInputs) {
		add(Resolving, false, variable.DefaultExpr)
	}
	if a.Bosh != nil {
		a.Bosh.expressions(add)
	}
	for _, check := range a.Requires {
		add(Resolving, true, check.That, check.Message)
	}
	add(Resolving, true, a.Adopt)
	return all
}

// expressions calls add for all expressions of provision.bosh, in an order that is the same at every call. stage and
// rule are the fields of Expression for the templates. Some of the templates that it passes are nil.
func (b *Bosh) expressions(add func(stage Stage, rule bool, templates ...*expr.Template)) {
	for _, ops := range b.Ops {
		add(Rendering, false, ops.If)
	}
	for _, group := range b.Groups {
		add(Resolving, false, value.Convert(group.Sizes, func(size Size) *expr.Template { return size.Template })...)
	}
	for _, name := range value.Keys(b.Configs) {
		add(Rendering, false, b.Configs[name].If)
	}
	for _, secret := range b.Secrets {
		add(Resolving, false, secret.Value)
		add(Resolving, false, sortedTemplates(secret.Keepers)...)
	}
	for _, reference := range b.References {
		add(Resolving, false, reference.Path)
	}
	add(Rendering, false, sortedTemplates(b.Labels)...)
	for _, name := range value.Keys(b.Outputs) {
		add(Deployed, false, b.Outputs[name].Expr)
	}
	add(Deployed, false, b.DashboardURL)
	for _, check := range b.Checks {
		add(Resolving, true, check.That, check.Message)
	}
	add(Rendering, true, sortedTemplates(b.Update)...)
}

// sortedTemplates returns the expressions of a map in the order of its sorted keys.
func sortedTemplates(named map[string]*expr.Template) []*expr.Template {
	return value.Convert(value.Keys(named), func(name string) *expr.Template { return named[name] })
}

// KeysRead returns the keys of a map variable, such as "request.context", that the action's expressions read. The
// result all is true if an expression reads the whole map or computes the key, so that it may need every key. A key may
// occur more than once. Without such expressions, keys is nil and all is false.
func (a *Action) KeysRead(variable string) (keys []string, all bool) {
	for _, template := range a.Expressions() {
		for _, reference := range template.References() {
			if key, ok := reference.KeyOf(variable); ok && key != "" {
				keys = append(keys, key)
			} else if ok {
				all = true
			}
		}
	}
	return keys, all
}

// BindExpressions returns the expressions that a bind evaluates: those of the bind action, and the outputs in
// provision.bosh, sorted by name. No element is nil.
func (s *Service) BindExpressions() []*expr.Template {
	all := value.Convert(s.Bind.Expressions(), func(e Expression) *expr.Template { return e.Template })
	if bosh := s.Provision.Bosh; bosh != nil {
		for _, name := range value.Keys(bosh.Outputs) {
			if template := bosh.Outputs[name].Expr; template != nil {
				all = append(all, template)
			}
		}
	}
	return all
}

// FindOutputUse finds a use of an output of the provision template in the BOSH manifest, its configs or their rules.
// The parameter contains the names of the outputs; those that are also names of inputs, secrets or references are
// ignored, because ((name)) refers to these. An expression that reads instance.details is a use even if the parameter
// is empty, and takes precedence over a ((name)). The result label is the variable that uses an output, such as
// "((host))" or "instance.details", and at is its position. If no output is used, or if the action has no
// provision.bosh, label is "". Outputs and dashboard URL of provision.bosh do not count, because they are evaluated
// after the deployment.
func (a *Action) FindOutputUse(outputs []string) (label string, at diag.Pos) {
	if a.Bosh == nil {
		return "", diag.Pos{}
	}
	bosh := *a.Bosh
	bosh.InstanceOutputs = InstanceOutputs{}
	manifest := *a
	manifest.Bosh = &bosh
	for _, template := range manifest.Expressions() {
		if ReadsDetails(template.Template) {
			return InstanceDetails, template.Pos()
		}
	}
	for _, name := range outputs {
		if slices.Contains(a.InputNames(), name) || bosh.HasSecret(name) || bosh.HasReference(name) {
			continue
		}
		if positions := bosh.PositionsOf(name); len(positions) > 0 {
			return "((" + name + "))", positions[0]
		}
	}
	return "", diag.Pos{}
}

// InstanceDetails is the variable, defined by Brokerpak V1, that contains the outputs of an instance.
const InstanceDetails = "instance.details"

// StatusOutput is an output of provision templates that contains a text about the instance for users. Brokerpak V1
// reserves its name; definitions do not declare it.
const StatusOutput = "status"

// ReadsDetails reports whether an expression, which must not be nil, reads one or all outputs of the instance.
func ReadsDetails(template *expr.Template) bool {
	return slices.ContainsFunc(template.References(), func(reference expr.Reference) bool {
		return readsVariable(reference, InstanceDetails)
	})
}

// Digest returns the SHA-256 hash, in hexadecimal, of OpenTofu files. files maps names to texts. Equal maps have equal
// digests; that of nil differs from that of an empty map.
func Digest(files map[string]string) string {
	sum := sha256.Sum256(value.MustJSON(files))
	return hex.EncodeToString(sum[:])
}

// FindReader returns the position of the first expression that reads an input, a part of it or a map that contains it,
// and reports whether there is one. The defaults of user inputs and the values of computed inputs are searched only if
// includeInputs is true. A use as ((input)) in the documents of provision.bosh is not found; see PositionsOf.
func (a *Action) FindReader(input string, includeInputs bool) (at diag.Pos, found bool) {
	readers := *a
	if !includeInputs {
		readers.UserInputs, readers.ComputedInputs = nil, nil
	}
	for _, template := range readers.Expressions() {
		for _, reference := range template.References() {
			if readsVariable(reference, input) {
				return reference.Pos, true
			}
		}
	}
	return diag.Pos{}, false
}

// PositionsOf returns the positions at which the documents of provision.bosh contain ((name)), including ((!name)) and
// ((name.key)), in the order of Documents. It returns nil if none does.
func (b *Bosh) PositionsOf(name string) []diag.Pos {
	var positions []diag.Pos
	for _, document := range b.Documents() {
		for _, match := range templateVariable.FindAllStringSubmatchIndex(document.Text, -1) {
			if document.Text[match[2]:match[3]] == name {
				positions = append(positions, document.AtByte(match[0]))
			}
		}
	}
	return positions
}

// ExpressionOf returns the expression of a computed input or, if byDefault is true, of the default of a user input. It
// returns nil if no computed input or user input, respectively, has this name, or if its value is not a string that is
// a valid expression.
func (a *Action) ExpressionOf(input string, byDefault bool) *expr.Template {
	inputs := a.ComputedInputs
	if byDefault {
		inputs = a.UserInputs
	}
	if declared := firstMatch(inputs, func(v *Variable) bool { return v.Name == input }); declared != nil {
		return declared.DefaultExpr
	}
	return nil
}
