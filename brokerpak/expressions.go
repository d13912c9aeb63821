package brokerpak

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"service-adapter/brokerpak/expr"
	"service-adapter/internal/diag"
	"service-adapter/internal/value"
)

// Stage is the time at which an expression is evaluated: each one knows what those before it know, and more.
type Stage int

// The stages of a provision action. A bind action has the first one only.
const (
	Resolving Stage = iota // the inputs
	Rendering              // the outputs of the provision template
	Deployed               // the deployed manifest and its addresses
)

// Expression is an expression of an action. A rule sees the previous deployment besides.
type Expression struct {
	*expr.Template
	Stage Stage
	Rule  bool
}

// Expressions returns all expressions of an action.
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

func (b *Bosh) expressions(add func(stage Stage, rule bool, templates ...*expr.Template)) {
	for _, ops := range b.Ops {
		add(Rendering, false, ops.If)
	}
	for _, group := range b.Groups {
		add(Resolving, false, value.Each(group.Sizes, func(size Size) *expr.Template { return size.Template })...)
	}
	for _, name := range value.Keys(b.Configs) {
		add(Rendering, false, b.Configs[name].If)
	}
	for _, secret := range b.Secrets {
		add(Resolving, false, secret.Value)
		add(Resolving, false, sorted(secret.Keepers)...)
	}
	for _, reference := range b.References {
		add(Resolving, false, reference.Path)
	}
	add(Rendering, false, sorted(b.Labels)...)
	for _, name := range value.Keys(b.Outputs) {
		add(Deployed, false, b.Outputs[name].Expr)
	}
	add(Deployed, false, b.DashboardURL)
	for _, check := range b.Checks {
		add(Resolving, true, check.That, check.Message)
	}
	add(Rendering, true, sorted(b.Update)...)
}

// sorted are expressions in the order of their names.
func sorted(named map[string]*expr.Template) []*expr.Template {
	return value.Each(value.Keys(named), func(name string) *expr.Template { return named[name] })
}

// Uses tells which keys of a map variable, such as "request.context", the action's expressions read, and whether one reads it
// in a way that needs all of them.
func (a *Action) Uses(variable string) (keys []string, all bool) {
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

// BindExpressions are the expressions that a bind evaluates: those of the bind action, and the outputs of the instance.
func (s *Service) BindExpressions() []*expr.Template {
	all := value.Each(s.Bind.Expressions(), func(e Expression) *expr.Template { return e.Template })
	if bosh := s.Provision.Bosh; bosh != nil {
		for _, name := range value.Keys(bosh.Outputs) {
			if template := bosh.Outputs[name].Expr; template != nil {
				all = append(all, template)
			}
		}
	}
	return all
}

// NeedsOutputs tells where the BOSH manifest, its configs or the rules about them use an output of the provision template, of which these
// are the names: what of, "" for nothing. What only a later call evaluates, the outputs and the dashboard, does not count.
func (a *Action) NeedsOutputs(outputs []string) (what string, at diag.Pos) {
	if a.Bosh == nil {
		return "", diag.Pos{}
	}
	bosh := *a.Bosh
	bosh.Outputs, bosh.DashboardURL = nil, nil
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
		if at := bosh.Mentions(name); len(at) > 0 {
			return "((" + name + "))", at[0]
		}
	}
	return "", diag.Pos{}
}

// InstanceDetails is the published name of the outputs of an instance.
const InstanceDetails = "instance.details"

// StatusOutput is an output of provision templates that definitions never declare, as published: a text about the instance for users.
const StatusOutput = "status"

// ReadsDetails tells whether an expression reads the outputs of the instance.
func ReadsDetails(template *expr.Template) bool {
	return slices.ContainsFunc(template.References(), func(reference expr.Reference) bool { return reads(reference, InstanceDetails) })
}

// Digest identifies OpenTofu files, name → text.
func Digest(files map[string]string) string {
	sum := sha256.Sum256(value.MustJSON(files))
	return hex.EncodeToString(sum[:])
}

// ReadBy finds an expression that reads an input, itself or a part of it: one of the manifest, its rules and what later calls evaluate, and
// with inputs also one of another input.
func (a *Action) ReadBy(input string, inputs bool) (at diag.Pos, found bool) {
	readers := *a
	if !inputs {
		readers.UserInputs, readers.ComputedInputs = nil, nil
	}
	for _, template := range readers.Expressions() {
		for _, reference := range template.References() {
			if reads(reference, input) {
				return reference.Pos, true
			}
		}
	}
	return diag.Pos{}, false
}

// Mentions are the places of a ((variable)) of this name in the texts that are interpolated.
func (b *Bosh) Mentions(name string) []diag.Pos {
	var places []diag.Pos
	for _, document := range b.Documents() {
		for _, at := range templateVariable.FindAllStringSubmatchIndex(document.Text, -1) {
			if document.Text[at[2]:at[3]] == name {
				places = append(places, document.AtByte(at[0]))
			}
		}
	}
	return places
}

// ExpressionOf is the expression of a computed input, or of the default of a user input; nil when it is a literal.
func (a *Action) ExpressionOf(input string, byDefault bool) *expr.Template {
	inputs := a.ComputedInputs
	if byDefault {
		inputs = a.UserInputs
	}
	if declared := find(inputs, func(v *Variable) bool { return v.Name == input }); declared != nil {
		return declared.DefaultExpr
	}
	return nil
}
