package brokerpak

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"service-adapter/brokerpak/expr"
	"service-adapter/internal/diag"
	"service-adapter/internal/value"
)

// A Stage is the point in time at which an expression is evaluated while a request is processed. In the stage
// Resolving, the zero value and the only stage of a bind action, expressions can read the inputs. In the stage
// Rendering, they can also read the outputs of the provision template, and in the stage Deployed also the manifest and
// the addresses of the deployed instance.
type Stage int

// The stages of a provision action. All expressions of a bind action are evaluated in the first stage.
const (
	Resolving Stage = iota // the variables are resolved; expressions can read the inputs
	Rendering              // the manifest is rendered; expressions can read the outputs of the provision template
	Deployed               // the instance is deployed; expressions can read its manifest and its addresses
)

// An Expression is an expression of a provision or bind action: the parsed template, which is never nil, the Stage at
// which it is evaluated, and the flag Rule. Rule is true if the expression belongs to a check, to the update block or
// to bind.adopt. Only rules of a provision action can read the previous deployment.
type Expression struct {
	*expr.Template
	Stage Stage
	Rule  bool
}

// Expressions returns all expressions of an action that are evaluated: the defaults of user inputs, the values of
// computed inputs, which include those of the outputs of a bind with a command, the conditions and messages of checks,
// bind.adopt, and all expressions of provision.bosh, such as the conditions of ops files and the values of secrets and
// outputs. A string without ${...} counts as an expression. Defaults and values of other types, and strings with a
// syntax error, are left out. The order is the same at every call. No Template in the result is nil. The result is nil
// if the action has no expressions.
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

// expressions calls add for all expressions of provision.bosh, in an order that is the same at every call. The
// arguments of add are the stage at which the templates are evaluated, whether they belong to a check or the update
// block (rule), and the templates. A template is nil if the definition does not have the expression; add must ignore
// it. add may be called without templates.
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

// sortedTemplates returns the expressions of a map in the alphabetical order of its keys. Values that are nil are
// included. The result is nil if the map is nil or empty.
func sortedTemplates(named map[string]*expr.Template) []*expr.Template {
	return value.Convert(value.Keys(named), func(name string) *expr.Template { return named[name] })
}

// KeysRead returns which keys of a map variable, such as "request.context", the action's expressions read: "platform"
// for an expression that reads request.context.platform or request.context["platform"], and "a.b" for one that reads
// request.context.a.b or request.context.a.b[...]. The order is that of Expressions, and a key may occur more than
// once. all is true if an expression reads the whole map or computes the key, so that it may need every key; keys then
// still contains the other keys. If no expression reads the variable, keys is nil and all is false. A reference to a
// map that contains the variable, such as request, does not count.
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

// BindExpressions returns the expressions that may be evaluated for a binding: those of the bind action, including
// bind.adopt, which is only evaluated when a binding is deleted, and then those of the outputs in provision.bosh,
// sorted by the names of the outputs. No element is nil. The result is nil if there are none.
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

// FindOutputUse finds a use of an output of the provision template before or during the rendering of the BOSH manifest.
// The parameter outputs contains the names of the outputs. There are two kinds of uses:
//   - an expression of the action that reads instance.details, a part of it, the whole map instance, or a key of that
//     map that is computed. The expressions of the outputs and of the dashboard URL of provision.bosh do not count,
//     because they are evaluated after the deployment.
//   - ((NAME)), also as ((!NAME)) or ((NAME.key)), in a document of provision.bosh, where NAME is one of outputs. A
//     NAME that is also the name of an input, secret or reference is ignored, because ((NAME)) refers to that.
//
// An expression takes precedence, and is found even if outputs is empty. The result label is then "instance.details",
// and at is the start of the first such expression. Otherwise label is ((NAME)), such as "((host))", for the first NAME
// in outputs that is used, and at is the position of its first use. If there is no use, or if the action has no
// provision.bosh, label is "" and at is zero.
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

// ReadsDetails reports whether an expression, which must not be nil, reads outputs of the instance: instance.details, a
// part of it such as instance.details.host, the whole map instance, or a key of that map that is computed.
func ReadsDetails(template *expr.Template) bool {
	return slices.ContainsFunc(template.References(), func(reference expr.Reference) bool {
		return readsVariable(reference, InstanceDetails)
	})
}

// Digest returns the SHA-256 hash, as 64 hexadecimal digits, of a set of OpenTofu files. files maps the names of the
// files, such as "main.tf", to their texts. Equal maps have equal digests; the digest of nil differs from that of an
// empty map.
func Digest(files map[string]string) string {
	sum := sha256.Sum256(value.MustJSON(files))
	return hex.EncodeToString(sum[:])
}

// FindReader finds an access to an input, to a part of it or to a map that contains it, also with a computed key, in
// the expressions of the action. It returns the position of the first access, in the order of Expressions. If there is
// none, ok is false and at is zero. The defaults of user inputs and the values of computed inputs are searched only if
// includeInputs is true. A use as ((input)) in the documents of provision.bosh is not found; see PositionsOf.
func (a *Action) FindReader(input string, includeInputs bool) (at diag.Pos, ok bool) {
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

// PositionsOf returns the positions at which the documents of provision.bosh (the manifest template, ops files and
// configs) contain ((name)), including ((!name)) and ((name.key)), also in YAML comments. They are in the order of
// Documents and, within a document, of the text. PositionsOf returns nil if no document contains the variable. name is
// the name without parentheses.
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

// ExpressionOf returns the parsed value of the computed input with this name or, if byDefault is true, the parsed
// default of the user input with this name. A string without ${...} counts as an expression. ExpressionOf returns nil
// if the action has no such input, or if the value or default is missing, is not a string or has a syntax error.
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
