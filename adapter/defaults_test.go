package adapter_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func replaced(text, old, replacement string) string {
	GinkgoHelper()
	Expect(text).To(ContainSubstring(old))
	return strings.Replace(text, old, replacement, 1)
}

var _ = Describe("defaults of the operator", func() {
	var s *site

	BeforeEach(func() {
		s = newSite(GinkgoT().TempDir())
		s.serve(s.pak("one", definition{
			name: "my-db", labels: "{x: '${x}'}",
			inputs: "[{field_name: x, type: string, default: from the pak, details: x}]",
		}.String()))
	})

	DescribeTable("of provision: later ones win",
		func(expected string, variables map[string]string) {
			for name, text := range variables {
				s.env[name] = text
			}
			Expect(s.labels(object{}, body(nil))).To(Equal(object{"x": expected}))
		},
		Entry("none", "from the pak", nil),
		Entry("general, configuration", "1", map[string]string{"SERVICE_ADAPTER_PROVISION_DEFAULTS": "{x: '1'}"}),
		Entry("general, environment", "2", map[string]string{
			"SERVICE_ADAPTER_PROVISION_DEFAULTS": "{x: '1'}", "GSB_PROVISION_DEFAULTS": `{"x": "2"}`,
		}),
		Entry("of the service, configuration", "3", map[string]string{
			"GSB_PROVISION_DEFAULTS": `{"x": "2"}`, "SERVICE_ADAPTER_SERVICES": "{my-db: {provision_defaults: {x: '3'}}}",
		}),
		Entry("of the service, environment", "4", map[string]string{
			"SERVICE_ADAPTER_SERVICES": "{my-db: {provision_defaults: {x: '3'}}}", "GSB_SERVICE_MY_DB_PROVISION_DEFAULTS": `{"x": "4"}`,
		}),
		Entry("empty variable", "from the pak", map[string]string{"GSB_PROVISION_DEFAULTS": ""}),
	)

	DescribeTable("that are no JSON object are refused by the variable's name, without their text",
		func(variable string) {
			s.env[variable] = `{"x": "s3cret`
			result := s.call("generate-manifest", instance().Generate(body(nil)))
			Expect(result.Code).To(Equal(1))
			Expect(result.Stdout).To(BeEmpty())
			Expect(result.Stderr).To(ContainSubstring("environment variable " + variable))
			Expect(result.Stderr).NotTo(ContainSubstring("s3cret"))
		},
		Entry("general", "GSB_PROVISION_DEFAULTS"),
		Entry("of the service", "GSB_SERVICE_MY_DB_PROVISION_DEFAULTS"),
	)

	It("of bind: the environment wins, and both keep a parameter from being required of users", func() {
		s.serve(s.pak("bind", definition{name: "my-db", bind: `
  user_inputs:
  - {field_name: a, type: string, required: true, details: x}
  - {field_name: b, type: string, required: true, details: x}
  requires: [{that: '${a == "" && b == ""}', message: 'a is ${a}, b is ${b}', audience: user}]
`}.String()))
		s.env["SERVICE_ADAPTER_SERVICES"] = "{my-db: {bind_defaults: {a: '1', b: '2'}}}"
		s.env["GSB_SERVICE_MY_DB_BIND_DEFAULTS"] = `{"b": "3"}`
		result := s.call("create-binding", instance().Bind("b-1", body(nil)))
		Expect(result).To(And(HaveField("Code", 1), HaveField("Stdout", "a is 1, b is 3")))
		schemas := document(s.call("generate-plan-schemas", object{"plan": instance().Plan}))
		Expect(schemas["service_binding"]).NotTo(HaveKeyWithValue("create", HaveKeyWithValue("parameters", HaveKey("required"))))
		delete(s.env, "GSB_SERVICE_MY_DB_BIND_DEFAULTS")
		delete(s.env, "SERVICE_ADAPTER_SERVICES")
		result = s.call("create-binding", instance().Bind("b-1", body(nil)))
		Expect(result.Code).To(Equal(1))
		Expect(result.Stdout).To(And(ContainSubstring("a"), ContainSubstring("b")))
	})
})

var _ = Describe("what expressions read of the operator's world", func() {
	DescribeTable("config",
		func(key, expected string, variables map[string]string) {
			s := newSite(GinkgoT().TempDir())
			s.serve(s.pak("one", definition{labels: `{x: '${config("` + key + `")}'}`}.String()))
			manifest := replaced(readFile(s.dir+"/one/manifest.yml"), "terraform_binaries", "env_config_mapping: {MAPPED: db.host}\nterraform_binaries")
			s.write("one/manifest.yml", manifest)
			file := s.write("config.yml", "config: {db.host: dotted, db: {host: nested, port: 6379, on: true}, gone: null}\n")
			s.env["SERVICE_ADAPTER_CONFIG"] = file
			for name, text := range variables {
				s.env[name] = text
			}
			deployed := instance()
			result := s.call("generate-manifest", deployed.Generate(body(nil)))
			if expected == "" {
				Expect(result.Code).To(Equal(1))
				Expect(result.Stdout).To(BeEmpty())
				Expect(result.Stderr).To(ContainSubstring(key))
				return
			}
			Expect(result.Code).To(Equal(0), result.Stderr)
			Expect(document(result)["labels"]).To(Equal(object{"x": expected}))
		},
		Entry("dotted key", "db.host", "dotted", nil),
		Entry("nested key", "db.port", "6379", nil),
		Entry("boolean", "db.on", "true", nil),
		Entry("variable that is mapped", "db.host", "mapped", map[string]string{"MAPPED": "mapped"}),
		Entry("variable of the key wins", "db.host", "own", map[string]string{"MAPPED": "mapped", "GSB_DB_HOST": "own"}),
		Entry("empty variable", "db.host", "dotted", map[string]string{"GSB_DB_HOST": ""}),
		Entry("unknown key", "db.name", "", nil),
		Entry("null", "gone", "", nil),
	)

	It("env", func() {
		s := newSite(GinkgoT().TempDir())
		s.serve(s.pak("one", definition{labels: `{x: '${env("REGION")}'}`}.String()))
		result := s.call("generate-manifest", instance().Generate(body(nil)))
		Expect(result).To(And(HaveField("Code", 1), HaveField("Stdout", ""), HaveField("Stderr", ContainSubstring("REGION"))))
		s.env["REGION"] = "eu"
		Expect(s.labels(object{}, body(nil))).To(Equal(object{"x": "eu"}))
	})
})
