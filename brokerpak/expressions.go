package brokerpak

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"service-adapter/brokerpak/expr"
	"service-adapter/internal/diag"
	"service-adapter/internal/value"
)

// expressions returns all expressions of an action.
func (a *Action) expressions() []*expr.Template {
	return slices.Concat(a.valueExpressions(), a.ruleExpressions())
}

// valueExpressions returns the expressions of an action that decide what is rendered or handed to a template.
func (a *Action) valueExpressions() []*expr.Template {
	var all []*expr.Template
	for _, variable := range a.UserInputs {
		all = append(all, variable.DefaultExpr)
	}
	for _, computed := range a.ComputedInputs {
		all = append(all, computed.Expr)
	}
	if a.Bosh != nil {
		for _, ops := range a.Bosh.Ops {
			all = append(all, ops.If)
		}
		for i := range a.Bosh.Groups {
			expressions := a.Bosh.Groups[i].Expressions()
			for _, key := range value.Keys(expressions) {
				all = append(all, expressions[key])
			}
		}
		for _, name := range value.Keys(a.Bosh.Configs) {
			all = append(all, a.Bosh.Configs[name].If)
		}
		for _, secret := range a.Bosh.Secrets {
			all = append(all, secret.Value)
			for _, name := range value.Keys(secret.Keepers) {
				all = append(all, secret.Keepers[name])
			}
		}
		for _, reference := range a.Bosh.References {
			all = append(all, reference.Path)
		}
		for _, name := range value.Keys(a.Bosh.Labels) {
			all = append(all, a.Bosh.Labels[name])
		}
		for _, name := range value.Keys(a.Bosh.Outputs) {
			all = append(all, a.Bosh.Outputs[name].Expr)
		}
		all = append(all, a.Bosh.DashboardURL)
	}
	return withoutNil(all)
}

// ruleExpressions returns the expressions of an action that see the previous deployment, and the conditions of bind.
func (a *Action) ruleExpressions() []*expr.Template {
	checks := a.Requires
	var all []*expr.Template
	if a.Bosh != nil {
		checks = slices.Concat(checks, a.Bosh.Checks)
		for _, name := range value.Keys(a.Bosh.Update) {
			all = append(all, a.Bosh.Update[name])
		}
	}
	for _, check := range checks {
		all = append(all, check.That, check.Message)
	}
	return withoutNil(append(all, a.Adopt))
}

func withoutNil(all []*expr.Template) []*expr.Template {
	return slices.DeleteFunc(all, func(t *expr.Template) bool { return t == nil })
}

// Uses tells which keys of a map variable, such as "request.context", the action's expressions read, and whether one reads it
// in a way that needs all of them.
func (a *Action) Uses(variable string) (keys []string, all bool) {
	for _, template := range a.expressions() {
		for _, reference := range template.References() {
			rest, below := strings.CutPrefix(reference.Name, variable+".")
			switch {
			case below:
				keys = append(keys, rest)
			case reference.Name == variable && reference.Indexed && reference.Key != "":
				keys = append(keys, reference.Key)
			case reference.Name == variable:
				all = true
			}
		}
	}
	return keys, all
}

// BindExpressions are the expressions that a bind evaluates: those of the bind action, and the outputs of the instance.
func (s *Service) BindExpressions() []*expr.Template {
	all := s.Bind.expressions()
	if bosh := s.Provision.Bosh; bosh != nil {
		for _, name := range value.Keys(bosh.Outputs) {
			all = append(all, bosh.Outputs[name].Expr)
		}
	}
	return withoutNil(all)
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
	for _, template := range manifest.expressions() {
		if ReadsDetails(template) {
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
	for _, template := range readers.expressions() {
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
	for _, variable := range a.UserInputs {
		if byDefault && variable.Name == input {
			return variable.DefaultExpr
		}
	}
	for _, computed := range a.ComputedInputs {
		if !byDefault && computed.Name == input {
			return computed.Expr
		}
	}
	return nil
}
