package vars_test

import (
	"errors"
	"fmt"
	"strconv"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/expr"
	"service-adapter/internal/fault"
	"service-adapter/internal/vars"
)

var _ = Describe("the variables of a bind request", func() {
	// bind resolves the variables of a bind request and returns them.
	bind := func(service *brokerpak.Service, parameters, properties map[string]any) (map[string]any, error) {
		scope := vars.NewScope(vars.Options{
			Constants:       values{"request.plan_properties": properties},
			GuardReferences: false,
		})
		err := vars.Bind{
			Service: service, Plan: brokerpak.Plan{Properties: properties, BindOverrides: values{"override": "plan"}},
			Defaults:   values{"operator": "operator", "user": "operator", "override": "operator"},
			Parameters: parameters,
		}.Resolve(scope)
		return scope.Values, err
	}
	// property returns a plan input.
	property := func(name, typ string, required bool) brokerpak.Variable {
		return brokerpak.Variable{Name: name, Type: typ, Required: required, Pos: definition}
	}

	It("are set by operator, user, plan overrides, defaults, plan inputs and computed inputs, in this order", func() {
		service := &brokerpak.Service{}
		service.Bind.UserInputs = []brokerpak.Variable{
			input("user", "", "default"), input("default", "", "${user}!"), input("size", "", "default"),
		}
		service.Bind.PlanInputs = []brokerpak.Variable{
			property("size", "", false), property("flag", "boolean", true), property("lost", "", false),
		}
		service.Bind.ComputedInputs = []brokerpak.Variable{computed("flag", "", true, "${flag} of ${size}")}
		result, err := bind(service, values{"user": "user", "override": "user"},
			values{"size": "plan", "flag": true, "other": []any{}})
		Expect(err).NotTo(HaveOccurred())
		Expect(result).To(Equal(values{
			"operator": "operator", "user": "user", "override": "plan", "default": "user!", "size": "plan",
			"flag": "1 of plan",
		}))
	})

	It("include a map of the parameters that no input declares", func() {
		service := &brokerpak.Service{}
		service.Bind.UserInputs = []brokerpak.Variable{
			{Name: "role"}, {Name: "rest", Type: "object", RequestRules: brokerpak.RequestRules{Additional: true}},
		}
		result, err := bind(service, values{"role": "r", "any": values{"a": 1}, "rest": 2}, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(result).To(And(HaveKeyWithValue("role", "r"),
			HaveKeyWithValue("rest", values{"any": values{"a": 1}, "rest": 2})))
	})

	It("include plan inputs, converted as by expressions and cast to their type", func() {
		service := &brokerpak.Service{}
		service.Bind.PlanInputs = []brokerpak.Variable{
			property("number", "integer", true), property("text", "string", true), property("list", "array", true),
			property(`a"b`, "", true),
		}
		result, err := bind(service, nil,
			values{"number": int64(5), "text": true, "list": []any{int64(1)}, `a"b`: "quoted"})
		Expect(err).NotTo(HaveOccurred())
		Expect(result).To(HaveKeyWithValue("number", int64(5)))
		Expect(result).To(HaveKeyWithValue("text", "1"))
		Expect(result).To(HaveKeyWithValue("list", []any{"1"}))
		Expect(result).To(HaveKeyWithValue(`a"b`, "quoted"))
	})

	It("cause an error if required plan inputs are missing", func() {
		service := &brokerpak.Service{}
		service.Bind.PlanInputs = []brokerpak.Variable{property("size", "", true), property("flag", "boolean", false)}
		_, err := bind(service, nil, values{"flag": "maybe"})
		Expect(err).To(MatchError(And(
			ContainSubstring(`redis.yml:7:14: the plan has no property "size", which bind.plan_inputs requires`),
			ContainSubstring(`computing "flag"`),
		)))
	})

	It("cause an error for the user if a computed input reads a required parameter that is missing", func() {
		service := &brokerpak.Service{}
		topic, size := input("topic", "string", nil), input("size", "integer", nil)
		topic.Required, size.Required = true, true
		service.Bind.UserInputs = []brokerpak.Variable{topic, size}
		service.Bind.PlanInputs = []brokerpak.Variable{property("size", "integer", true)}
		service.Bind.ComputedInputs = []brokerpak.Variable{computed("url", "", false, "kafka:${topic}")}
		_, err := bind(service, nil, values{"size": "big"})
		Expect(fault.UserMessage(err)).To(Equal(`parameter "topic" is required`))
		Expect(err).To(MatchError(And(ContainSubstring(`computing "url"`), ContainSubstring(`computing "size"`))))
	})

	It("do not include plan properties that are not plan inputs", func() {
		result, err := bind(&brokerpak.Service{}, nil, values{"size": "plan"})
		Expect(err).NotTo(HaveOccurred())
		Expect(result).NotTo(HaveKey("size"))
	})
})

var _ = Describe("Scope", func() {
	It("prefers constants to variables", func() {
		scope := vars.NewScope(vars.Options{
			Constants: values{"request.instance_id": "real", "request.context": values{"a": "real"}},
		})
		scope.Set("", values{"request.instance_id": "fake", "request.context": values{"a": "fake"}, "own": "variable"})
		for text, expected := range map[string]string{
			"${request.instance_id}": "real", `${request.context["a"]}`: "real", "${request.context.a}": "real",
			"${own}": "variable",
		} {
			Expect(scope.Text("o", template(text))).To(Equal(expected), text)
		}
	})

	It("no longer lists a variable as unresolved once a layer sets it", func() {
		unset := func(string) (any, bool) { return nil, false }
		scope := vars.NewScope(vars.Options{TolerateUnset: true, Environment: vars.Environment{Config: unset}})
		for _, name := range []string{"set", "computed", "unset"} {
			Expect(scope.Defaults([]brokerpak.Variable{input(name, "string", `${config("size")}`)})).To(Succeed())
			Expect(scope.Unresolved).To(HaveKey(name))
		}
		scope.Set(vars.PlanLayer, values{"set": "large"})
		Expect(scope.Computed([]brokerpak.Variable{computed("computed", "string", true, "${set}")})).To(Succeed())
		Expect(scope.Unresolved).To(And(HaveLen(1), HaveKey("unset")))
		Expect(scope.Values).To(Equal(values{"set": "large", "computed": "large"}))
	})

	It("reads environment variables and configuration values", func() {
		scope := vars.NewScope(vars.Options{Environment: vars.Environment{
			Env:    func(name string) (string, bool) { return "env " + name, true },
			Config: func(key string) (any, bool) { return "config " + key, true },
		}})
		Expect(scope.Text("o", template(`${env("A")}, ${config("b.c")}`))).To(Equal("env A, config b.c"))
	})

	DescribeTable("evaluates conditions",
		func(text string, expected bool) {
			scope := vars.NewScope(vars.Options{Constants: values{"empty": nil}})
			Expect(scope.Holds("o", template(text))).To(Equal(expected))
		},
		Entry("true", "${1 == 1}", true), Entry("false", "${1 == 2}", false),
		Entry("null", "${empty}", false), Entry("empty", "", false),
	)

	It("considers a missing condition true, and reports the position of an invalid one", func() {
		scope := vars.NewScope(vars.Options{})
		Expect(scope.Holds("o", nil)).To(BeTrue())
		_, err := scope.Holds("o", template("perhaps"))
		Expect(err).To(MatchError(HavePrefix("redis.yml:7:14: ")))
	})

	It("can be extended with constants and functions", func() {
		scope := vars.NewScope(vars.Options{Constants: values{"a": "a"}})
		more := scope.With(values{"b": "b"}, map[string]expr.Function{
			"f": {Result: expr.String, Call: func([]any) (any, error) { return "f", nil }},
		})
		Expect(more.Text("o", template("${a}${b}${f()}"))).To(Equal("abf"))
		for _, text := range []string{"${b}", "${f()}"} {
			_, err := scope.Eval("o", template(text))
			Expect(err).To(HaveOccurred(), text)
		}
	})
})

var _ = Describe("generated values", func() {
	It("are recorded by owner and call, and can be carried over", func() {
		first := vars.NewScope(vars.Options{})
		password, err := first.Text("password", template("${rand.base64(9)}.${rand.base64(9)}"))
		Expect(err).NotTo(HaveOccurred())
		Expect(first.Text("other", template("${rand.base64(9)}"))).NotTo(Equal(password))
		Expect(first.Generated["password"]).To(And(HaveKey("rand.base64#1"), HaveKey("rand.base64#2")))

		second := vars.NewScope(vars.Options{Carried: first.Generated})
		Expect(second.Text("password", template("now ${rand.base64(9)}.${rand.base64(9)}"))).To(Equal("now " +
			password))
		Expect(second.Generated).To(Equal(vars.Generated{"password": first.Generated["password"]}),
			"unused values are dropped")
		Expect(second.Text("renamed", template("${rand.base64(9)}.${rand.base64(9)}"))).NotTo(Equal(password))
	})

	It("continue counting after the carried ones", func() {
		scope := vars.NewScope(vars.Options{
			Carried: vars.Generated{"b": {"counter.next#1": int64(2)}, "gone": {"rand.base64#1": "x"}},
		})
		Expect(scope.Text("new", template("${counter.next()} ${counter.next()}"))).To(Equal("3 4"))
		Expect(scope.Text("b", template("${counter.next()}"))).To(Equal("2"))
	})

	It("have one counter, also in scopes that are extended with constants", func() {
		scope := vars.NewScope(vars.Options{})
		first, second := scope.With(values{"a": "a"}, nil), scope.With(values{"b": "b"}, nil)
		for i, evaluated := range []*vars.Scope{first, second, scope, first} {
			owner := fmt.Sprint("owner ", i)
			Expect(evaluated.Text(owner, template("${counter.next()}"))).To(Equal(strconv.Itoa(i + 1)))
		}
	})
})

var _ = Describe("references to credentials", func() {
	scope := func(guard bool) *vars.Scope {
		s := vars.NewScope(vars.Options{
			GuardReferences: guard,
			Constants: values{
				"request.context": values{"name": "(x))"}, "bosh.deployment": "(d))",
				"uaa_client": values{"name": "(u))"},
			},
		})
		s.Set("", values{"operator": "(o))"})
		s.Set(vars.ParameterLayer, values{"user": "(u))", "object": values{"key": "(k))"}})
		return s
	}

	DescribeTable("cannot be constructed from values that a user controls",
		func(text string) {
			_, err := scope(true).Eval("out", template(text))
			var user *fault.UserError
			Expect(errors.As(err, &user)).To(BeTrue(), "%v", err)
			Expect(user.Message).To(Equal(`the value of "out" would contain "((", which is not allowed`))
			Expect(err).To(MatchError(ContainSubstring("redis.yml:7:14")))
			Expect(scope(false).Eval("out", template(text))).To(HavePrefix("(("))
		},
		Entry("a parameter", "(${user}"),
		Entry("a key of a parameter", `(${object["key"]}`),
		Entry("a key of a parameter, dotted", "(${object.key}"),
		Entry("the request", `(${request.context["name"]}`),
		Entry("the request, dotted", "(${request.context.name}"),
		Entry("the UAA client", `(${uaa_client["name"]}`),
		Entry("by a function", `${str.truncate(9, "(${user}")}`),
	)

	It("cannot be constructed through another variable", func() {
		s := scope(true)
		Expect(s.Computed([]brokerpak.Variable{computed("inner", "", false, "${user}")})).To(Succeed())
		Expect(s.Origins["inner"].FromRequest).To(BeTrue())
		_, err := s.Eval("out", template("(${inner}"))
		Expect(err).To(HaveOccurred())
	})

	It("can be constructed from values of the operator and the author", func() {
		Expect(scope(true).Text("out", template("(${operator}"))).To(Equal("((o))"))
		Expect(scope(true).Text("out", template("(${bosh.deployment}"))).To(Equal("((d))"))
		Expect(scope(true).Text("out", template("((author)) ${operator}"))).To(Equal("((author)) (o))"))
	})
})

var _ = DescribeTable("an error about a value that a function or a type rejects is reported to",
	func(expression, typ, message string) {
		list := []expr.Type{expr.String}
		missing := func([]any) (any, error) { return nil, errors.New("no such path") }
		s := vars.NewScope(vars.Options{
			Constants:   values{"request.instance_id": "{"},
			Functions:   map[string]expr.Function{"manifest.get": {Args: list, Result: expr.String, Call: missing}},
			Environment: vars.Environment{Config: func(string) (any, bool) { return nil, false }},
		})
		s.Set("operator defaults", values{"default": "{"})
		s.Set("parameters", values{"text": "{", "other": "x"})
		failed := s.Computed([]brokerpak.Variable{
			{Name: "copy", DefaultValue: brokerpak.DefaultValue{DefaultExpr: template("${text}")}},
			{Name: "result", Type: typ, DefaultValue: brokerpak.DefaultValue{DefaultExpr: template(expression)}},
		})
		Expect(failed).To(HaveOccurred())
		Expect(fault.UserMessage(failed)).To(Equal(message))
	},
	Entry("the user", `${yaml.toJSON(text)}`, "", `parameter "text" cannot be used: the text is not YAML`),
	Entry("the user, through another variable", `${yaml.toJSON(copy)}`, "",
		`parameter "text" cannot be used: the text is not YAML`),
	Entry("the user, for several parameters", `${yaml.toJSON("${text}${other}")}`, "",
		`parameter "other", "text" cannot be used: the text is not YAML`),
	Entry("the user, for a type", `${copy}`, "object",
		`parameter "text" cannot be used: converting to object: the text is not JSON`),
	Entry("the operator, for an operator default", `${yaml.toJSON(default)}`, "", ""),
	Entry("the operator, for a missing configuration value", `${config("size.${other}")}`, "", ""),
	Entry("the operator, for a path that the manifest lacks", `${manifest.get(text)}`, "", ""),
	Entry("the operator, for a value of the request", `${yaml.toJSON(request.instance_id)}`, "", ""),
)
