package vars_test

import (
	"errors"
	"fmt"
	"math"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/vars"
	"service-adapter/internal/diag"
	"service-adapter/internal/fault"
)

// sources are the layers of a provision request that set the variable v.
type sources struct {
	general, own, parameter, override, standard, property any
	computed                                              *brokerpak.Variable
}

// given is a layer that sets v, nil when it does not; "null" sets it to null.
func given(item any) map[string]any {
	switch item {
	case nil:
		return nil
	case "null":
		return values{"v": nil}
	default:
		return values{"v": item}
	}
}

func (s sources) provision() vars.Provision {
	service := &brokerpak.Service{}
	service.Provision.UserInputs = []brokerpak.Variable{input("v", "", s.standard)}
	if s.computed != nil {
		service.Provision.ComputedInputs = []brokerpak.Variable{*s.computed}
	}
	return vars.Provision{
		Service:    service,
		Plan:       brokerpak.Plan{ProvisionOverrides: given(s.override), Properties: given(s.property)},
		Defaults:   []map[string]any{given(s.general), given(s.own)},
		Parameters: given(s.parameter),
	}
}

func calculated(overwrite bool) *brokerpak.Variable {
	return &brokerpak.Variable{Name: "v", Overwrite: overwrite, Default: int64(7)}
}

var _ = Describe("the variables of a provision request", func() {
	DescribeTable("come from the last layer that sets them",
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
		Entry("none", sources{}, nil, ""),
		Entry("operator, general", sources{general: "g"}, "g", "operator defaults"),
		Entry("operator, of the service", sources{general: "g", own: "o"}, "o", "operator defaults"),
		Entry("user", sources{general: "g", own: "o", parameter: "u"}, "u", "parameters"),
		Entry("plan overrides", sources{own: "o", parameter: "u", override: "p"}, "p", "plan overrides"),
		Entry("default", sources{standard: "d"}, "d", vars.DefaultLayer),
		Entry("a default is for what nobody set", sources{general: "g", standard: "d"}, "g", "operator defaults"),
		Entry("a null of the user is set", sources{parameter: "null", standard: "d"}, nil, "parameters"),
		Entry("a null of the operator is set", sources{own: "null", standard: "d"}, nil, "operator defaults"),
		Entry("plan properties", sources{parameter: "u", override: "p", standard: "d", property: "q"}, "q", "plan properties"),
		Entry("computed with overwrite", sources{parameter: "u", property: "q", computed: calculated(true)}, int64(7), vars.ComputedLayer),
		Entry("computed", sources{computed: calculated(false)}, int64(7), vars.ComputedLayer),
		Entry("computed without overwrite", sources{standard: "d", computed: calculated(false)}, "d", vars.DefaultLayer),
		Entry("a null is not computed", sources{override: "null", computed: calculated(false)}, nil, "plan overrides"),
	)

	It("evaluates defaults over what is set before them, and computed inputs over everything", func() {
		service := &brokerpak.Service{}
		service.Provision.UserInputs = []brokerpak.Variable{
			input("first", "integer", "${base + 1}"), input("second", "", "${first}-x"), input("list", "array", []any{"${base}"}),
		}
		service.Provision.ComputedInputs = []brokerpak.Variable{computed("third", "", false, "${second} ${size} ${later}")}
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

	It("reports every input that cannot be computed, and where it stands", func() {
		service := &brokerpak.Service{}
		service.Provision.UserInputs = []brokerpak.Variable{input("a", "", "${size}"), input("b", "integer", "many")}
		service.Provision.ComputedInputs = []brokerpak.Variable{computed("c", "", false, "${nope}")}
		err := vars.Provision{Service: service, Plan: brokerpak.Plan{Properties: values{"size": 1}}}.
			Resolve(vars.NewScope(vars.Options{}))
		Expect(err).To(MatchError(And(
			ContainSubstring(`computing "a": redis.yml:7:16: unknown variable accessed: size`), // a default sees no plan properties
			ContainSubstring(`computing "b": redis.yml:7:14: converting to integer`),
			ContainSubstring(`computing "c": redis.yml:7:16: unknown variable accessed: nope`),
		)))
	})

	DescribeTable("has the result checked, and tells whose a value is",
		func(s sources, subject string) {
			provision := s.provision()
			input := &provision.Service.Provision.UserInputs[0]
			input.Pos, input.Required, input.Enum = diag.Pos{File: "redis.yml", Line: 3}, true, []brokerpak.EnumValue{{Value: "other"}}
			provision.Plan.Name = "small"
			err := provision.Resolve(vars.NewScope(vars.Options{}))
			if subject == "" {
				Expect(errors.As(err, new(*fault.UserError))).To(BeTrue(), "not for the user: %v", err)
			} else {
				Expect(err).To(MatchError(HavePrefix(subject + `, declared at redis.yml:3, must be "other"`)))
			}
			provision.Unchecked = true
			Expect(provision.Resolve(vars.NewScope(vars.Options{}))).To(Succeed())
		},
		Entry("nobody gave it", sources{}, ""),
		Entry("the user", sources{general: "g", parameter: "u"}, ""),
		Entry("the operator", sources{own: "o"}, `the operator's default of "v"`),
		Entry("the plan", sources{property: "q"}, `property "v" of plan "small"`),
		Entry("an override of the plan", sources{parameter: "u", override: "p"}, `override "v" of plan "small"`),
		Entry("the author", sources{standard: "d"}, `the default of input "v"`),
		Entry("the author, computed", sources{computed: calculated(true)}, `computed input "v"`),
	)

	It("has the properties of the plan checked before anything is computed", func() {
		service := &brokerpak.Service{}
		size, zone := input("size", "integer", nil), input("zone", "string", nil)
		size.Required, zone.Nullable = true, true // a null is no value where it is not allowed
		service.Provision.PlanInputs = []brokerpak.Variable{size, zone}
		service.Provision.ComputedInputs = []brokerpak.Variable{computed("twice", "", false, "${size * 2}")}
		for name, plan := range map[string]string{"small": `plan "small"`, "": "the plan"} {
			err := vars.Provision{
				Service: service, Plan: brokerpak.Plan{Name: name, Properties: values{"size": nil, "zone": nil, "other": 1}},
			}.Resolve(vars.NewScope(vars.Options{}))
			Expect(err).To(MatchError(fmt.Sprintf(`property "size" of %s, declared at %s, is required`, plan, size.Pos)))
		}
	})

	It("does not change its sources", func() {
		service := &brokerpak.Service{}
		service.Provision.UserInputs = []brokerpak.Variable{input("v", "", []any{"one"})}
		scope := vars.NewScope(vars.Options{})
		Expect(vars.Provision{Service: service}.Resolve(scope)).To(Succeed())
		scope.Values["v"].([]any)[0] = "changed"
		Expect(service.Provision.UserInputs[0].Default).To(Equal([]any{"one"}))
	})
})

var _ = Describe("parameters that cannot be passed on", func() {
	resolve := func(parameters map[string]any, guard bool, secrets ...string) string {
		GinkgoHelper()
		provision := vars.Provision{Service: &brokerpak.Service{}, Parameters: parameters, Secrets: secrets}
		err := provision.Resolve(vars.NewScope(vars.Options{GuardReferences: guard}))
		if err == nil {
			return ""
		}
		var user *fault.UserError
		Expect(errors.As(err, &user)).To(BeTrue(), "not for the user: %v", err)
		return user.Message
	}
	nested := func(depth int) any {
		var item any = "core"
		for range depth {
			item = []any{item}
		}
		return item
	}

	It("are nested too deeply", func() {
		Expect(resolve(values{"p": nested(100)}, true)).To(BeEmpty())
		Expect(resolve(values{"p": nested(101)}, true)).To(Equal(`parameter "p" is nested more than 100 levels deep`))
	})

	It("are numbers that nothing can hold", func() {
		message := resolve(values{"p": values{"n": math.Inf(1)}}, false)
		Expect(message).To(HavePrefix(`parameter "p" cannot be used: the number at "p/n" is too large`))
	})

	It("are integers that BOSH cannot read", func() {
		Expect(resolve(values{"p": uint64(math.MaxUint64)}, true)).To(BeEmpty())
		Expect(resolve(values{"p": 1e21}, true)).To(HavePrefix(`parameter "p" cannot be used: the number at "p" is too large`))
		Expect(resolve(values{"p": 1e21}, false)).To(BeEmpty())
		Expect(resolve(values{"p": 1e-21}, true)).To(BeEmpty())
	})

	DescribeTable("hold what BOSH would take for a credential",
		func(parameters map[string]any) {
			Expect(resolve(parameters, true)).To(Equal(`parameter "p" must not hold "((", which would be a reference to a credential`))
			Expect(resolve(parameters, false)).To(BeEmpty())
			Expect(resolve(parameters, true, "p")).To(BeEmpty(), "the value of a secret may hold anything")
		},
		Entry("whole", values{"p": "((/admin))"}),
		Entry("inside", values{"p": "x((y"}),
		Entry("in a list", values{"p": []any{"a", "(("}}),
		Entry("in a key", values{"p": values{"((a": 1}}),
	)

	It("have such a name", func() {
		Expect(resolve(values{"((p": 1}, true)).To(ContainSubstring(`must not hold "(("`))
	})
})

var _ = Describe("MergeParameters", func() {
	inputs := []brokerpak.Variable{{Name: "plain"}, {Name: "nullable", Nullable: true}}

	DescribeTable("lays a request over the earlier ones",
		func(earlier, requested, expected map[string]any) {
			Expect(vars.MergeParameters(inputs, earlier, requested)).To(Equal(expected))
		},
		Entry("nothing at all", nil, nil, values{}),
		Entry("nothing new", values{"plain": "a"}, nil, values{"plain": "a"}),
		Entry("replaced whole", values{"plain": values{"a": 1, "b": 2}}, values{"plain": values{"a": 3}}, values{"plain": values{"a": 3}}),
		Entry("null resets", values{"plain": "a", "nullable": "b"}, values{"plain": nil}, values{"nullable": "b"}),
		Entry("null stays where it is allowed", values{"nullable": "b"}, values{"nullable": nil}, values{"nullable": nil}),
		Entry("null of an input that is not declared", nil, values{"unknown": nil}, values{}),
	)

	It("lays the entries of the additional input over the earlier ones", func() {
		inputs := append(inputs, brokerpak.Variable{Name: "rest", Type: "object", Additional: true})
		earlier := values{"rest": values{"a": 1, "b": values{"c": 2}}}
		Expect(vars.MergeParameters(inputs, earlier, values{"rest": values{"b": 3, "d": nil}})).To(Equal(values{"rest": values{"a": 1, "b": 3}}))
		Expect(vars.MergeParameters(inputs, earlier, values{"rest": values{"a": nil, "b": nil}})).To(Equal(values{}))
		Expect(earlier).To(Equal(values{"rest": values{"a": 1, "b": values{"c": 2}}}))
	})

	It("changes neither", func() {
		earlier, requested := values{"plain": []any{"a"}}, values{"nullable": []any{"b"}}
		merged := vars.MergeParameters(inputs, earlier, requested)
		merged["plain"].([]any)[0], merged["nullable"].([]any)[0] = "x", "y"
		Expect(earlier).To(Equal(values{"plain": []any{"a"}}))
		Expect(requested).To(Equal(values{"nullable": []any{"b"}}))
	})
})

var _ = Describe("HasReference", func() {
	It("looks into everything", func() {
		for _, item := range []any{"a ((b", []any{[]any{"(("}}, values{"a": values{"((": true}}} {
			Expect(vars.HasReference(item)).To(BeTrue(), "%v", item)
		}
		for _, item := range []any{nil, true, int64(5), "( (", "))", []any{"(", "("}, values{"(": "("}, strings.Repeat("(x", 9)} {
			Expect(vars.HasReference(item)).To(BeFalse(), "%v", item)
		}
	})
})
