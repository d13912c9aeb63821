package schemas_test

import (
	"encoding/json"
	"errors"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/xeipuuv/gojsonschema"

	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
	"service-adapter/schemas"
)

var _ = Describe("ForPlan", func() {
	const published = "http://json-schema.org/draft-04/schema#"

	service := func(inputs ...brokerpak.Variable) *brokerpak.Service {
		return &brokerpak.Service{
			Offering: brokerpak.Offering{Name: "redis"}, Provision: brokerpak.Action{UserInputs: inputs},
		}
	}
	create := func(s *brokerpak.Service) map[string]any {
		GinkgoHelper()
		schema, _, _, err := schemas.ForPlan(s, nil, schemas.Supplied{})
		Expect(err).NotTo(HaveOccurred())
		return schema
	}
	update := func(s *brokerpak.Service) map[string]any {
		GinkgoHelper()
		_, schema, _, err := schemas.ForPlan(s, nil, schemas.Supplied{})
		Expect(err).NotTo(HaveOccurred())
		return schema
	}
	// property returns the published schema of n in a create.
	property := func(v brokerpak.Variable) map[string]any {
		GinkgoHelper()
		return create(service(v))["properties"].(map[string]any)["n"].(map[string]any)
	}

	It("returns empty schemas for a service without inputs", func() {
		first, second, third, err := schemas.ForPlan(service(), map[string]any{"a": 1}, schemas.Supplied{})
		Expect(err).NotTo(HaveOccurred())
		for _, schema := range []map[string]any{first, second, third} {
			text, err := json.Marshal(schema)
			Expect(err).NotTo(HaveOccurred())
			Expect(text).To(MatchJSON(`{"$schema": "` + published + `",
				"type": "object", "additionalProperties": false, "properties": {}}`))
		}
	})

	It("allows any parameter if the action has an additional input", func() {
		rest := brokerpak.Variable{
			Name: "rest", Type: "object", Details: "Others",
			DefaultValue: brokerpak.DefaultValue{HasDefault: true, Default: map[string]any{}},
			RequestRules: brokerpak.RequestRules{Additional: true},
		}
		s := service(input("string", `{}`), rest)
		for _, schema := range []map[string]any{create(s), update(s)} {
			Expect(schema).To(HaveKeyWithValue("additionalProperties", true))
			Expect(schema["properties"]).To(And(HaveKey("n"), Not(HaveKey("rest"))))
		}
		s.Provision.UserInputs[1].ProhibitUpdate = true
		Expect(create(s)).To(HaveKeyWithValue("additionalProperties", true))
		Expect(update(s)).To(HaveKeyWithValue("additionalProperties", false))
		closed, _, _, err := schemas.ForPlan(s, map[string]any{"rest": map[string]any{}}, schemas.Supplied{})
		Expect(err).NotTo(HaveOccurred())
		Expect(closed).To(HaveKeyWithValue("additionalProperties", false))
	})

	It("describes an input of several types", func() {
		v := input("", `{"minimum": 1}`)
		v.Types = []string{"string", "integer"}
		Expect(property(v)).To(HaveKeyWithValue("type", []any{"string", "integer"}))
		v.Nullable = true
		Expect(property(v)).To(HaveKeyWithValue("type", []any{"string", "integer", "null"}))
		check := func(item any) error {
			return schemas.CheckValues([]brokerpak.Variable{v}, map[string]any{v.Name: item}, nil)
		}
		Expect(check("5G")).To(Succeed())
		Expect(check(int64(5))).To(Succeed())
		Expect(check(nil)).To(Succeed())
		Expect(check(int64(0))).To(MatchError(ContainSubstring("must be at least 1")))
		Expect(check([]any{})).To(MatchError(ContainSubstring("must be a string or an integer")))
	})

	It("describes an input", func() {
		v := input("string", `{"maxLength": 8, "examples": ["a"], "nonsense": 1,
			"description": "replaced", "default": "replaced"}`)
		v.ProhibitUpdate, v.Nullable = true, true
		v.Enum = enum("small", "large")
		v.HasDefault, v.Default, v.DefaultExpr = true, "$${x}", template("$${x}")
		Expect(property(v)).To(BeComparableTo(map[string]any{
			"title": "N", "description": "the details",
			"type": []any{"string", "null"}, "enum": []any{"small", "large", nil},
			"default": "${x}", "maxLength": int64(8), "examples": []any{"a"},
			"nonsense": int64(1), "prohibitUpdate": true,
		}))
	})

	DescribeTable("derives the title of an input from its name", func(name, title string) {
		v := brokerpak.Variable{Name: name}
		Expect(create(service(v))["properties"]).To(HaveKeyWithValue(name, HaveKeyWithValue("title", title)))
	},
		Entry(nil, "max_disk_gb", "Max Disk GB"),
		Entry(nil, "jdbc-url.id", "JDBC URL ID"),
		Entry(nil, "émile", "Émile"),
		Entry(nil, "__", ""),
	)

	DescribeTable("shows the default of an input", func(
		typeName string, value any, text, defaultValue, description any,
	) {
		v := input(typeName, "")
		v.HasDefault, v.Default = true, value
		if text != nil {
			v.DefaultExpr = template(text.(string))
		}
		schema := property(v)
		Expect(schema["description"]).To(Equal(description))
		if defaultValue == nil {
			Expect(schema).NotTo(HaveKey("default"))
		} else {
			Expect(schema).To(HaveKeyWithValue("default", defaultValue))
		}
	},
		Entry("a number", "integer", int64(5), nil, int64(5), "the details"),
		Entry("a list, whose strings are not evaluated", "array", []any{"${x}"}, nil, []any{"${x}"}, "the details"),
		Entry("a text", "string", "x", "x", "x", "the details"),
		Entry("an expression", "string", "${request.plan_id}", "${request.plan_id}", nil,
			"the details (computed when it is left out)"),
		Entry("a text that is cast", "array", "[1]", "[1]", []any{int64(1)}, "the details"),
		Entry("a text that cannot be cast", "integer", "many", "many", nil, "the details"),
	)

	DescribeTable("shows the value that the plan or the operator supplies as the default",
		func(supplied map[string]any, defaultValue any, description string) {
			v := input("integer", "")
			v.HasDefault, v.Default = true, int64(5)
			s := service(v)
			s.Provision.Bosh = &brokerpak.Bosh{PlanDefaults: []string{"n"}}
			s.Bind.UserInputs = s.Provision.UserInputs
			if _, overwritten := supplied["computed"]; overwritten {
				s.Provision.ComputedInputs = []brokerpak.Variable{
					{Name: "n", DefaultValue: brokerpak.DefaultValue{Overwrite: true, Default: int64(7)}},
				}
				s.Bind.ComputedInputs = s.Provision.ComputedInputs
			}
			create, update, bind, err := schemas.ForPlan(s, map[string]any{"n": 3},
				schemas.Supplied{Provision: supplied, Bind: supplied})
			Expect(err).NotTo(HaveOccurred())
			kept := update["properties"].(map[string]any)["n"].(map[string]any)
			Expect(kept).NotTo(HaveKey("default"), "an update keeps what is left out")
			Expect(kept["description"]).To(Equal("the details"))
			for _, schema := range []map[string]any{create, bind} {
				property := schema["properties"].(map[string]any)["n"].(map[string]any)
				if defaultValue == nil {
					Expect(property).NotTo(HaveKey("default"))
				} else {
					Expect(property).To(HaveKeyWithValue("default", defaultValue))
				}
				Expect(property["description"]).To(Equal(description))
			}
		},
		Entry("not supplied", nil, int64(5), "the details"),
		Entry("a value", map[string]any{"n": int64(3)}, int64(3), "the details"),
		Entry("null", map[string]any{"n": nil}, nil, "the details"),
		Entry("a list", map[string]any{"n": []any{"a"}}, []any{"a"}, "the details"),
		Entry("a secret", map[string]any{"n": schemas.Hidden{}}, nil,
			"the details (the operator sets it when it is left out)"),
		Entry("computed whatever the user sends", map[string]any{"computed": 1}, nil, "the details"),
	)

	It("uses the title in the constraints", func() {
		Expect(property(input("string", `{"title": "Own"}`))).To(HaveKeyWithValue("title", "Own"))
	})

	It("translates constraints of later drafts to draft-04", func() {
		Expect(property(input("array", `{"items": {"exclusiveMinimum": 5}, "additionalItems": true, "not": false, `+
			`"contains": {"const": 1}, "propertyNames": {"pattern": "a"}, "const": []}`))).To(
			BeComparableTo(map[string]any{
				"title": "N", "description": "the details", "type": "array",
				"items":           map[string]any{"minimum": int64(5), "exclusiveMinimum": true},
				"additionalItems": true,
				"not":             map[string]any{"not": map[string]any{}},
				"contains":        map[string]any{"const": int64(1)},
				"enum":            []any{[]any{}},
			}))
	})

	It("requires the inputs that only the user can supply", func() {
		required := func(name string) brokerpak.Variable { return brokerpak.Variable{Name: name, Required: true} }
		withDefault := required("default")
		withDefault.HasDefault, withDefault.Default = true, int64(1)
		withExpr := required("expression")
		withExpr.HasDefault, withExpr.DefaultExpr = true, template("${x}")
		s := service(required("z"), required("a"), withDefault, withExpr, required("computed"), required("owned"),
			required("operator"),
			brokerpak.Variable{Name: "optional"})
		s.Provision.ComputedInputs = []brokerpak.Variable{{Name: "computed"}}
		s.Provision.PlanInputs = []brokerpak.Variable{{Name: "a"}} // which this plan does not set
		s.Bind.UserInputs = []brokerpak.Variable{required("owned"), required("from_plan"), required("operator")}
		s.Bind.PlanInputs = []brokerpak.Variable{{Name: "from_plan"}}

		properties := map[string]any{"owned": int64(1)}
		supplied := schemas.Supplied{Provision: map[string]any{"operator": nil}, Bind: map[string]any{"operator": nil}}
		first, second, third, err := schemas.ForPlan(s, properties, supplied)
		Expect(err).NotTo(HaveOccurred())
		Expect(first["required"]).To(Equal([]string{"a", "z"}))
		Expect(first["properties"]).NotTo(HaveKey("owned"))
		Expect(second).NotTo(HaveKey("required"))
		Expect(second["properties"]).NotTo(HaveKey("owned"))
		Expect(third["required"]).To(Equal([]string{"owned"}))
		Expect(third["properties"]).To(And(HaveKey("owned"), HaveKey("from_plan")))
		Expect(supplied.Bind).To(HaveLen(1))

		first, _, third, err = schemas.ForPlan(s, properties, schemas.Supplied{})
		Expect(err).NotTo(HaveOccurred())
		Expect(first["required"]).To(Equal([]string{"a", "operator", "z"}))
		Expect(third["required"]).To(Equal([]string{"operator", "owned"}))
	})

	It("allows import inputs when an instance is created", func() {
		s := service(brokerpak.Variable{Name: "size", Type: "string"})
		s.Provision.ImportInputs = []brokerpak.Variable{
			{Name: "existing_id", Type: "string", Details: "what to import"}, {Name: "size"}, {Name: "any"},
		}
		Expect(create(s)["properties"]).To(And(
			HaveKeyWithValue("existing_id", map[string]any{
				"title": "Existing ID", "description": "what to import",
				"type": "string",
			}),
			HaveKeyWithValue("any", Not(HaveKey("type"))),
			HaveKeyWithValue("size", HaveKeyWithValue("type", "string")),
		))
		Expect(update(s)["properties"]).NotTo(HaveKey("existing_id"))
	})

	DescribeTable("allows null in an update if it resets the input",
		func(change func(*brokerpak.Variable), given string, valid bool) {
			v := input("string", "")
			v.Enum = enum("a", "b")
			change(&v)
			Expect(validAsBroker(update(service(v)), `{"n": `+given+`}`)).To(Equal(valid))
			Expect(validAsBroker(update(service(v)), `{}`)).To(BeTrue())
		},
		Entry("an optional one", func(*brokerpak.Variable) {}, `null`, true),
		Entry("a required one", func(v *brokerpak.Variable) { v.Required = true }, `null`, false),
		Entry("a required one with a default", func(v *brokerpak.Variable) {
			v.Required, v.HasDefault, v.Default = true, true,
				"a"
		}, `null`, true),
		Entry("a nullable one", func(v *brokerpak.Variable) { v.Required, v.Nullable = true, true }, `null`, true),
		Entry("another value", func(*brokerpak.Variable) {}, `"c"`, false),
		Entry("one that may not change", func(v *brokerpak.Variable) { v.ProhibitUpdate = true }, `"a"`, false),
	)

	It("does not allow null when an instance is created", func() {
		Expect(validAsBroker(create(service(input("string", ""))), `{"n": null}`)).To(BeFalse())
	})

	DescribeTable("rejects a constraint that the platform would reject",
		func(constraints, message string) {
			_, _, _, err := schemas.ForPlan(service(brokerpak.Variable{Name: "fine"}, input("string", constraints)),
				nil, schemas.Supplied{})
			var faults diag.Errors
			Expect(errors.As(err, &faults)).To(BeTrue(), "%v", err)
			Expect(faults).To(HaveLen(1))
			Expect(err).To(MatchError(HavePrefix(
				`generating the schema for creating instances of "redis": definitions/redis.yml:7:5: ` + message)))
		},
		Entry(nil, `{"pattern": "["}`, "constraint pattern of input \"n\" cannot be used: error parsing regexp"),
		Entry(nil, `{"minimum": 1, "exclusiveMinimum": true, "pattern": "["}`, "constraint pattern of input"),
		Entry(nil, `{"enum": []}`, `constraint enum of input "n" cannot be used: `),
		Entry(nil, `{"$ref": "http://example.com/schema"}`,
			`constraint $ref of input "n" cannot be used: $ref is not supported`),
		Entry(nil, `{"exclusiveMaximum": true}`, `constraint exclusiveMaximum of input "n" cannot be used: `),
		Entry(nil, `{"definitions": 5, "items": 5}`, `constraint items of input "n" cannot be used: `),
	)
})

// validAsBroker reports whether parameters are valid, as the on-demand broker determines it: it requires the exact
// $schema, compiles the plan schema and validates the parameters.
func validAsBroker(schema map[string]any, parameters string) bool {
	GinkgoHelper()
	text, err := json.Marshal(schema)
	Expect(err).NotTo(HaveOccurred())
	var decoded map[string]any
	Expect(json.Unmarshal(text, &decoded)).To(Succeed())
	Expect(decoded["$schema"]).To(Equal("http://json-schema.org/draft-04/schema#"))
	compiled, err := gojsonschema.NewSchema(gojsonschema.NewBytesLoader(text))
	Expect(err).NotTo(HaveOccurred())
	result, err := compiled.Validate(gojsonschema.NewStringLoader(strings.TrimSpace(parameters)))
	Expect(err).NotTo(HaveOccurred())
	return result.Valid()
}
