package vars_test

import (
	"errors"
	"fmt"
	"math"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
	"service-adapter/internal/fault"
	"service-adapter/internal/vars"
)

// sources contains the values that the layers of a provision request set for the variable v. See layerWith for nil and
// "null".
type sources struct {
	general, own, parameter, override, standard, property any
	computed                                              *brokerpak.Variable
}

// layerWith returns a layer that sets v. It returns nil for nil, and a layer that sets v to null for "null".
func layerWith(item any) map[string]any {
	switch item {
	case nil:
		return nil
	case "null":
		return values{"v": nil}
	default:
		return values{"v": item}
	}
}

// provision returns a provision request of a service with the user input v.
func (s sources) provision() vars.Provision {
	service := &brokerpak.Service{}
	service.Provision.UserInputs = []brokerpak.Variable{input("v", "", s.standard)}
	if s.computed != nil {
		service.Provision.ComputedInputs = []brokerpak.Variable{*s.computed}
	}
	return vars.Provision{
		Service:    service,
		Plan:       brokerpak.Plan{ProvisionOverrides: layerWith(s.override), Properties: layerWith(s.property)},
		Defaults:   []map[string]any{layerWith(s.general), layerWith(s.own)},
		Parameters: layerWith(s.parameter),
	}
}

// calculated returns a computed input v with the value 7.
func calculated(overwrite bool) *brokerpak.Variable {
	return &brokerpak.Variable{
		Name: "v", DefaultValue: brokerpak.DefaultValue{Overwrite: overwrite, Default: int64(7)},
	}
}

var _ = Describe("the variables of a provision request", func() {
	DescribeTable("have the value of the last layer that sets them",
		func(s sources, expected any, layer string) {
			scope := vars.NewScope(vars.Options{})
			Expect(s.provision().Resolve(scope)).To(Succeed())
			if layer == "" {
				Expect(scope.Values).To(BeEmpty())
				return
			}
			Expect(scope.Values).To(Equal(values{"v": expected}))
			Expect(scope.Origins["v"].Layer).To(Equal(layer))
			Expect(scope.Origins["v"].FromRequest).To(Equal(layer == "parameters"))
		},
		Entry("no layer", sources{}, nil, ""),
		Entry("general operator defaults", sources{general: "g"}, "g", "operator defaults"),
		Entry("operator defaults of the service", sources{general: "g", own: "o"}, "o", "operator defaults"),
		Entry("parameters", sources{general: "g", own: "o", parameter: "u"}, "u", "parameters"),
		Entry("plan overrides", sources{own: "o", parameter: "u", override: "p"}, "p", "plan overrides"),
		Entry("the default of the input", sources{standard: "d"}, "d", vars.DefaultLayer),
		Entry("an earlier layer than the default", sources{general: "g", standard: "d"}, "g", "operator defaults"),
		Entry("a null parameter", sources{parameter: "null", standard: "d"}, nil, "parameters"),
		Entry("a null operator default", sources{own: "null", standard: "d"}, nil, "operator defaults"),
		Entry("plan properties", sources{parameter: "u", override: "p", standard: "d", property: "q"}, "q",
			"plan properties"),
		Entry("a computed input with overwrite", sources{parameter: "u", property: "q", computed: calculated(true)},
			int64(7),
			vars.ComputedLayer),
		Entry("a computed input", sources{computed: calculated(false)}, int64(7), vars.ComputedLayer),
		Entry("an earlier layer than a computed input without overwrite",
			sources{standard: "d", computed: calculated(false)}, "d", vars.DefaultLayer),
		Entry("a null before a computed input without overwrite",
			sources{override: "null", computed: calculated(false)}, nil, "plan overrides"),
	)

	It("are available to defaults if they are set before them, and to all computed inputs", func() {
		service := &brokerpak.Service{}
		service.Provision.UserInputs = []brokerpak.Variable{
			input("first", "integer", "${base + 1}"), input("second", "", "${first}-x"),
			input("list", "array", []any{"${base}"}),
		}
		service.Provision.ComputedInputs = []brokerpak.Variable{computed("third", "", false,
			"${second} ${size} ${later}")}
		scope := vars.NewScope(vars.Options{})
		err := vars.Provision{
			Service: service, Plan: brokerpak.Plan{Properties: values{"size": "big", "later": true}},
			Defaults: []map[string]any{{"base": int64(1)}},
		}.Resolve(scope)
		Expect(err).NotTo(HaveOccurred())
		Expect(scope.Values).To(Equal(values{
			"base": int64(1), "first": int64(2), "second": "2-x", "list": []any{"${base}"},
			"size": "big", "later": true, "third": "2-x big 1",
		}))
	})

	It("cause an error for every input that cannot be computed, with its position", func() {
		service := &brokerpak.Service{}
		service.Provision.UserInputs = []brokerpak.Variable{input("a", "", "${size}"), input("b", "integer", "many")}
		service.Provision.ComputedInputs = []brokerpak.Variable{computed("c", "", false, "${nope}")}
		err := vars.Provision{Service: service, Plan: brokerpak.Plan{Properties: values{"size": 1}}}.
			Resolve(vars.NewScope(vars.Options{}))
		Expect(err).To(MatchError(And(
			// A default cannot read plan properties.
			ContainSubstring(`computing "a": redis.yml:7:16: unknown variable accessed: size`),
			ContainSubstring(`computing "b": redis.yml:7:14: converting to integer`),
			ContainSubstring(`computing "c": redis.yml:7:16: unknown variable accessed: nope`),
		)))
	})

	DescribeTable("are checked, with errors that name the source of the value",
		func(s sources, subject string) {
			provision := s.provision()
			input := &provision.Service.Provision.UserInputs[0]
			input.Pos, input.Required, input.Enum = diag.Pos{File: "redis.yml", Line: 3}, true,
				[]brokerpak.EnumValue{{Value: "other"}}
			provision.Plan.Name = "small"
			err := provision.Resolve(vars.NewScope(vars.Options{}))
			if subject == "" {
				Expect(errors.As(err, new(*fault.UserError))).To(BeTrue(), "not a UserError: %v", err)
			} else {
				Expect(err).To(MatchError(HavePrefix(subject + `, declared at redis.yml:3, must be "other"`)))
			}
			provision.Unchecked = true
			Expect(provision.Resolve(vars.NewScope(vars.Options{}))).To(Succeed())
		},
		Entry("no layer", sources{}, ""),
		Entry("a parameter", sources{general: "g", parameter: "u"}, ""),
		Entry("the operator's default", sources{own: "o"}, `the operator's default of "v"`),
		Entry("a property of the plan", sources{property: "q"}, `property "v" of plan "small"`),
		Entry("an override of the plan", sources{parameter: "u", override: "p"}, `override "v" of plan "small"`),
		Entry("the default", sources{standard: "d"}, `the default of input "v"`),
		Entry("a computed input", sources{computed: calculated(true)}, `computed input "v"`),
	)

	It("are not computed if the properties of the plan are invalid", func() {
		service := &brokerpak.Service{}
		size, zone := input("size", "integer", nil), input("zone", "string", nil)
		size.Required, zone.Nullable = true, true // a null property counts as missing unless the input is nullable
		service.Provision.PlanInputs = []brokerpak.Variable{size, zone}
		service.Provision.ComputedInputs = []brokerpak.Variable{computed("twice", "", false, "${size * 2}")}
		for name, plan := range map[string]string{"small": `plan "small"`, "": "the plan"} {
			err := vars.Provision{
				Service: service,
				Plan:    brokerpak.Plan{Name: name, Properties: values{"size": nil, "zone": nil, "other": 1}},
			}.Resolve(vars.NewScope(vars.Options{}))
			Expect(err).To(MatchError(fmt.Sprintf(`property "size" of %s, declared at %s, is required`, plan,
				size.Pos)))
		}
	})

	It("cause an error for the user if a computed input reads a required parameter that is missing", func() {
		service := &brokerpak.Service{}
		required := func(name, typ string, standard any) brokerpak.Variable {
			variable := input(name, typ, standard)
			variable.Required = true
			return variable
		}
		service.Provision.PlanInputs = []brokerpak.Variable{input("zone", "string", nil)}
		service.Provision.UserInputs = []brokerpak.Variable{
			required("name", "string", nil), required("size", "integer", nil),
			required("twice", "integer", "${size * 2}"), required("host", "string", nil),
			required("zone", "string", nil), input("free", "string", nil),
		}
		service.Provision.ComputedInputs = []brokerpak.Variable{computed("host", "", false, "${name}.example.com")}
		resolve := func(parameters, properties map[string]any, unchecked bool) error {
			return vars.Provision{
				Service: service, Plan: brokerpak.Plan{Properties: properties},
				Parameters: parameters, Unchecked: unchecked,
			}.Resolve(vars.NewScope(vars.Options{}))
		}
		zone := values{"zone": "z1"}
		Expect(resolve(values{"name": "a", "size": int64(1)}, zone, false)).To(Succeed())
		err := resolve(values{"size": int64(1)}, zone, false)
		Expect(fault.UserMessage(err)).To(Equal(`parameter "name" is required`))
		Expect(err).To(MatchError(ContainSubstring(
			`computing "host": redis.yml:7:16: unknown variable accessed: name`)))
		invalid := resolve(values{"name": "a", "size": "big"}, zone, false)
		Expect(invalid).To(MatchError(ContainSubstring(`computing "twice"`)))
		Expect(fault.UserMessage(invalid)).To(BeEmpty())
		Expect(fault.UserMessage(resolve(nil, nil, false))).
			To(Equal(`parameter "name" is required; parameter "size" is required; parameter "zone" is required`))
		Expect(fault.UserMessage(resolve(nil, zone, true))).To(BeEmpty())
	})

	It("can be modified without changing the definition", func() {
		service := &brokerpak.Service{}
		service.Provision.UserInputs = []brokerpak.Variable{input("v", "", []any{"one"})}
		scope := vars.NewScope(vars.Options{})
		Expect(vars.Provision{Service: service}.Resolve(scope)).To(Succeed())
		scope.Values["v"].([]any)[0] = "changed"
		Expect(service.Provision.UserInputs[0].Default).To(Equal([]any{"one"}))
	})
})

var _ = Describe("parameters are rejected", func() {
	// resolve returns the message of the error for the user, or "" if the parameters are accepted.
	resolve := func(parameters map[string]any, guard bool, secrets ...string) string {
		GinkgoHelper()
		provision := vars.Provision{Service: &brokerpak.Service{}, Parameters: parameters, Secrets: secrets}
		err := provision.Resolve(vars.NewScope(vars.Options{GuardReferences: guard}))
		if err == nil {
			return ""
		}
		var user *fault.UserError
		Expect(errors.As(err, &user)).To(BeTrue(), "not a UserError: %v", err)
		return user.Message
	}
	nested := func(depth int) any {
		var item any = "core"
		for range depth {
			item = []any{item}
		}
		return item
	}

	It("if they are nested too deeply", func() {
		Expect(resolve(values{"p": nested(100)}, true)).To(BeEmpty())
		Expect(resolve(values{"p": nested(101)}, true)).To(Equal(`parameter "p" is nested more than 100 levels deep`))
	})

	It("if they contain an infinite number", func() {
		message := resolve(values{"p": values{"n": math.Inf(1)}}, false)
		Expect(message).To(HavePrefix(`parameter "p" cannot be used: the number at "p/n" is too large`))
	})

	It("if they contain an integer that BOSH cannot read, and become part of a manifest", func() {
		Expect(resolve(values{"p": uint64(math.MaxUint64)}, true)).To(BeEmpty())
		Expect(resolve(values{"p": 1e21},
			true)).To(HavePrefix(`parameter "p" cannot be used: the number at "p" is too large`))
		Expect(resolve(values{"p": 1e21}, false)).To(BeEmpty())
		Expect(resolve(values{"p": 1e-21}, true)).To(BeEmpty())
	})

	DescribeTable("if they contain a reference to a credential",
		func(parameters map[string]any) {
			const message = `parameter "p" must not contain "((", which would be a reference to a credential`
			Expect(resolve(parameters, true)).To(Equal(message))
			Expect(resolve(parameters, false)).To(BeEmpty())
			Expect(resolve(parameters, true, "p")).To(BeEmpty(), "the value of a secret may contain anything")
		},
		Entry("as the whole value", values{"p": "((/admin))"}),
		Entry("within a text", values{"p": "x((y"}),
		Entry("in a list", values{"p": []any{"a", "(("}}),
		Entry("in a key", values{"p": values{"((a": 1}}),
	)

	It("if their name contains a reference to a credential", func() {
		Expect(resolve(values{"((p": 1}, true)).To(ContainSubstring(`must not contain "(("`))
	})
})

var _ = Describe("MergeParameters", func() {
	inputs := []brokerpak.Variable{{Name: "plain"}, {Name: "nullable", Nullable: true}}

	DescribeTable("overlays the earlier parameters with the requested ones",
		func(earlier, requested, expected map[string]any) {
			Expect(vars.MergeParameters(inputs, earlier, requested)).To(Equal(expected))
		},
		Entry("no parameters", nil, nil, values{}),
		Entry("no requested parameters", values{"plain": "a"}, nil, values{"plain": "a"}),
		Entry("a map, which is replaced and not merged",
			values{"plain": values{"a": 1, "b": 2}}, values{"plain": values{"a": 3}}, values{"plain": values{"a": 3}}),
		Entry("a null, which resets the parameter",
			values{"plain": "a", "nullable": "b"}, values{"plain": nil}, values{"nullable": "b"}),
		Entry("a null of a nullable input, which is kept",
			values{"nullable": "b"}, values{"nullable": nil}, values{"nullable": nil}),
		Entry("a null of an undeclared input", nil, values{"unknown": nil}, values{}),
	)

	It("merges the entries of the additional input", func() {
		inputs := append(inputs, brokerpak.Variable{
			Name: "rest", Type: "object", RequestRules: brokerpak.RequestRules{Additional: true},
		})
		earlier := values{"rest": values{"a": 1, "b": values{"c": 2}}}
		Expect(vars.MergeParameters(inputs, earlier, values{"rest": values{"b": 3, "d": nil}})).
			To(Equal(values{"rest": values{"a": 1, "b": 3}}))
		Expect(vars.MergeParameters(inputs, earlier, values{"rest": values{"a": nil, "b": nil}})).To(Equal(values{}))
		Expect(earlier).To(Equal(values{"rest": values{"a": 1, "b": values{"c": 2}}}))
	})

	It("does not modify its arguments", func() {
		earlier, requested := values{"plain": []any{"a"}}, values{"nullable": []any{"b"}}
		merged := vars.MergeParameters(inputs, earlier, requested)
		merged["plain"].([]any)[0], merged["nullable"].([]any)[0] = "x", "y"
		Expect(earlier).To(Equal(values{"plain": []any{"a"}}))
		Expect(requested).To(Equal(values{"nullable": []any{"b"}}))
	})
})

var _ = Describe("HasReference", func() {
	It("inspects all strings and keys in a value", func() {
		for _, item := range []any{"a ((b", []any{[]any{"(("}}, values{"a": values{"((": true}}} {
			Expect(vars.HasReference(item)).To(BeTrue(), "%v", item)
		}
		for _, item := range []any{
			nil, true, int64(5), "( (", "))",
			[]any{"(", "("},
			values{"(": "("},
			strings.Repeat("(x", 9),
		} {
			Expect(vars.HasReference(item)).To(BeFalse(), "%v", item)
		}
	})
})
