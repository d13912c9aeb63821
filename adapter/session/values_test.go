package session_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/spec/kit/site"
)

var _ = Describe("the defaults of the operator", func() {
	var s *site.Site

	BeforeEach(func() {
		s = site.New(GinkgoT().TempDir())
		s.Serve(s.Pak("one", site.Definition{
			Name: "my-db", Labels: "{x: '${x}'}",
			Inputs: "[{field_name: x, type: string, default: from the pak, details: x}]",
		}.String()))
	})

	DescribeTable("of provision: a later layer takes precedence",
		func(expected string, variables map[string]string) {
			for name, text := range variables {
				s.Env[name] = text
			}
			Expect(s.Labels(object{}, site.Body(nil))).To(Equal(object{"x": expected}))
		},
		Entry("none", "from the pak", nil),
		Entry("general, configuration", "1", map[string]string{"SERVICE_ADAPTER_PROVISION_DEFAULTS": "{x: '1'}"}),
		Entry("general, environment", "2", map[string]string{
			"SERVICE_ADAPTER_PROVISION_DEFAULTS": "{x: '1'}", "GSB_PROVISION_DEFAULTS": `{"x": "2"}`,
		}),
		Entry("of the service, configuration", "3", map[string]string{
			"GSB_PROVISION_DEFAULTS":   `{"x": "2"}`,
			"SERVICE_ADAPTER_SERVICES": "{my-db: {provision_defaults: {x: '3'}}}",
		}),
		Entry("of the service, environment", "4", map[string]string{
			"SERVICE_ADAPTER_SERVICES":             "{my-db: {provision_defaults: {x: '3'}}}",
			"GSB_SERVICE_MY_DB_PROVISION_DEFAULTS": `{"x": "4"}`,
		}),
		Entry("empty variable", "from the pak", map[string]string{"GSB_PROVISION_DEFAULTS": ""}),
	)

	DescribeTable("that are not a JSON object are rejected with the name of the variable, without its text",
		func(variable string) {
			s.Env[variable] = `{"x": "s3cret`
			result := s.Call("generate-manifest", site.Instance().Generate(site.Body(nil)))
			Expect(result.Code).To(Equal(1))
			Expect(result.Stdout).To(BeEmpty())
			Expect(result.Stderr).To(ContainSubstring("environment variable " + variable))
			Expect(result.Stderr).NotTo(ContainSubstring("s3cret"))
		},
		Entry("general", "GSB_PROVISION_DEFAULTS"),
		Entry("of the service", "GSB_SERVICE_MY_DB_PROVISION_DEFAULTS"),
	)

	It("of bind: the environment takes precedence, "+
		"and a user need not set a required parameter that has a default", func() {
		s.Serve(s.Pak("bind", site.Definition{Name: "my-db", Bind: `
  user_inputs:
  - {field_name: a, type: string, required: true, details: x}
  - {field_name: b, type: string, required: true, details: x}
  requires: [{that: '${a == "" && b == ""}', message: 'a is ${a}, b is ${b}', audience: user}]
`}.String()))
		s.Env["SERVICE_ADAPTER_SERVICES"] = "{my-db: {bind_defaults: {a: '1', b: '2'}}}"
		s.Env["GSB_SERVICE_MY_DB_BIND_DEFAULTS"] = `{"b": "3"}`
		result := s.Call("create-binding", site.Instance().Bind("b-1", site.Body(nil)))
		Expect(result).To(And(HaveField("Code", 1), HaveField("Stdout", "a is 1, b is 3")))
		schemas := site.Document(s.Call("generate-plan-schemas", object{"plan": site.Instance().Plan}))
		Expect(schemas["service_binding"]).NotTo(HaveKeyWithValue("create",
			HaveKeyWithValue("parameters", HaveKey("required"))))
		delete(s.Env, "GSB_SERVICE_MY_DB_BIND_DEFAULTS")
		delete(s.Env, "SERVICE_ADAPTER_SERVICES")
		result = s.Call("create-binding", site.Instance().Bind("b-1", site.Body(nil)))
		Expect(result.Code).To(Equal(1))
		Expect(result.Stdout).To(And(ContainSubstring("a"), ContainSubstring("b")))
	})
})

var _ = Describe("expressions that read the operator's configuration", func() {
	DescribeTable("config",
		func(key, expected string, variables map[string]string) {
			s := site.New(GinkgoT().TempDir())
			s.Serve(s.Pak("one", site.Definition{Labels: `{x: '${config("` + key + `")}'}`}.String()))
			manifest := site.Replaced(site.ReadFile(s.Dir+"/one/manifest.yml"), "terraform_binaries",
				"env_config_mapping: {MAPPED: db.host}\nterraform_binaries")
			s.Write("one/manifest.yml", manifest)
			file := s.Write("config.yml",
				"config: {db.host: dotted, db: {host: nested, port: 6379, on: true}, gone: null}\n")
			s.Env["SERVICE_ADAPTER_CONFIG"] = file
			for name, text := range variables {
				s.Env[name] = text
			}
			deployed := site.Instance()
			result := s.Call("generate-manifest", deployed.Generate(site.Body(nil)))
			if expected == "" {
				Expect(result.Code).To(Equal(1))
				Expect(result.Stdout).To(BeEmpty())
				Expect(result.Stderr).To(ContainSubstring(key))
				return
			}
			Expect(result.Code).To(Equal(0), result.Stderr)
			Expect(site.Document(result)["labels"]).To(Equal(object{"x": expected}))
		},
		Entry("dotted key", "db.host", "dotted", nil),
		Entry("nested key", "db.port", "6379", nil),
		Entry("boolean", "db.on", "true", nil),
		Entry("variable that env_config_mapping maps", "db.host", "mapped", map[string]string{"MAPPED": "mapped"}),
		Entry("variable of the key, which takes precedence", "db.host", "own",
			map[string]string{"MAPPED": "mapped", "GSB_DB_HOST": "own"}),
		Entry("empty variable", "db.host", "dotted", map[string]string{"GSB_DB_HOST": ""}),
		Entry("unknown key", "db.name", "", nil),
		Entry("null", "gone", "", nil),
	)

	It("env", func() {
		s := site.New(GinkgoT().TempDir())
		s.Serve(s.Pak("one", site.Definition{Labels: `{x: '${env("REGION")}'}`}.String()))
		result := s.Call("generate-manifest", site.Instance().Generate(site.Body(nil)))
		Expect(result).To(And(HaveField("Code", 1), HaveField("Stdout", ""),
			HaveField("Stderr", ContainSubstring("REGION"))))
		s.Env["REGION"] = "eu"
		Expect(s.Labels(object{}, site.Body(nil))).To(Equal(object{"x": "eu"}))
	})
})
