package brokerpak

import (
	"slices"
	"strings"

	"service-adapter/brokerpak/expr"
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
		for _, name := range value.Keys(a.Bosh.Configs) {
			all = append(all, a.Bosh.Configs[name].If)
		}
		for _, secret := range a.Bosh.Secrets {
			all = append(all, secret.Value)
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
