package adapter_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

const (
	// secret has all that a log line must escape.
	secret = "s3cret \"quoted\" <\\> and\na s3cret second line"
	// generated is the end of a text that looks generated and has what a log line must escape.
	generated = "\"7Hq2<xP0vLk9\\dWm4RtZ"
)

var _ = Describe("secrets on standard error", func() {
	// The service shows what it can of a value to the operator: as it is, in JSON, and in a URL.
	shown := func(expression string) string {
		return `[{that: '${1 == 2}', message: 'it is ${` + expression + `}, ${json.marshal(` + expression + `)}, x=${str.queryEscape(` + expression + `)}', audience: operator}]`
	}

	// sensitive is a definition whose bind template declares x sensitive.
	const sensitive = "user_inputs: [{field_name: x, type: string, details: x}], template: 'variable \"x\" { sensitive = true }'"

	DescribeTable("are masked, wherever they come from",
		func(d definition, command string, arrange func(s *site) object) {
			s := newSite(GinkgoT().TempDir())
			s.serve(s.pak("one", d.String()))
			result := s.call(command, arrange(s))
			Expect(result.Code).To(Equal(1))
			Expect(result.Stdout).To(BeEmpty())
			Expect(result.Stderr).To(ContainSubstring("it is [redacted], "), "the service must have shown it")
			Expect(result.Stderr).NotTo(ContainSubstring("s3cret"))
		},
		Entry("parameter that looks generated", definition{
			inputs: "[{field_name: x, type: string, details: x}]", bosh: "    checks: " + shown("x"),
		}, "generate-manifest", func(*site) object { return instance().Generate(body(object{"x": "s3cret" + generated})) }),
		Entry("parameter whose name says so", definition{
			inputs: "[{field_name: db_password, type: string, details: x}]", bosh: "    checks: " + shown("db_password"),
		}, "generate-manifest", func(*site) object { return instance().Generate(body(object{"db_password": secret})) }),
		Entry("parameter of a variable that is sensitive", definition{
			bind: "{" + sensitive + ", requires: " + shown("x") + "}",
		}, "create-binding", func(*site) object { return instance().Bind("b-1", body(object{"x": secret})) }),
		Entry("property of a plan whose name says so", definition{
			inputs: "[{field_name: plan_password, type: string, details: x}]", bosh: "    checks: " + shown("plan_password"),
		}, "generate-manifest", func(*site) object {
			deployed := instance()
			deployed.Plan["properties"] = object{"plan_password": secret}
			return deployed.Generate(body(nil))
		}),
		Entry("secret of the manifest", definition{
			bind: "{requires: " + shown(`manifest.get("/x")`) + "}",
		}, "create-binding", func(*site) object {
			deployed := instance()
			deployed.Manifest, deployed.Secrets = "name: x\nx: ((/odb/x))\n", map[string]string{"((/odb/x))": secret}
			return deployed.Bind("b-1", body(nil))
		}),
		Entry("key of a structured secret", definition{
			bind: "{requires: " + shown(`manifest.get("/x")`) + "}",
		}, "create-binding", func(*site) object {
			deployed := instance()
			deployed.Manifest, deployed.Secrets = "name: x\nx: ((/odb/x.key))\n", map[string]string{
				"((/odb/x.key))": jsonText(object{"private_key": secret}),
			}
			return deployed.Bind("b-1", body(nil))
		}),
		Entry("secret of the UAA client", definition{
			bosh: "    checks: " + shown("uaa_client.client_secret"),
		}, "generate-manifest", func(*site) object {
			parameters := instance().Generate(body(nil))
			parameters["uaa_client"] = object{"client_id": "inst-1", "client_secret": secret}
			return parameters
		}),
		Entry("environment", definition{
			bosh: "    checks: " + shown(`env("TOKEN")`),
		}, "generate-manifest", func(s *site) object {
			s.env["TOKEN"] = secret
			return instance().Generate(body(nil))
		}),
		Entry("configuration", definition{
			bosh: "    checks: " + shown(`config("token")`),
		}, "generate-manifest", func(s *site) object {
			s.env["SERVICE_ADAPTER_CONFIG"] = s.write("config.yml", "config: {token: "+jsonText(secret)+"}")
			return instance().Generate(body(nil))
		}),
		Entry("configuration, from the environment", definition{
			bosh: "    checks: " + shown(`config("token")`),
		}, "generate-manifest", func(s *site) object {
			s.env["GSB_TOKEN"] = secret
			return instance().Generate(body(nil))
		}),
		Entry("defaults of the operator", definition{
			inputs: "[{field_name: token, type: string, details: x}]", bosh: "    checks: " + shown("token"),
		}, "generate-manifest", func(s *site) object {
			s.env["SERVICE_ADAPTER_SERVICES"] = "{one: {provision_defaults: {token: " + jsonText(secret) + "}}}"
			return instance().Generate(body(nil))
		}),
		Entry("defaults, from the environment", definition{
			bind: "{" + sensitive + ", requires: " + shown("x") + "}",
		}, "create-binding", func(s *site) object {
			s.env["GSB_SERVICE_ONE_BIND_DEFAULTS"] = `{"x": ` + jsonText(secret) + `}`
			return instance().Bind("b-1", body(nil))
		}),
	)

	It("are no names, hosts, paths, ids and words of the definition", func() {
		for _, plain := range []string{"db.example.com:5432", "orders_production", "/global/root_ca", "0d6c2f8e-56cc-4a3a-9f1e-2b7a3d5c8e90", "5.31.0", "one"} {
			s := newSite(GinkgoT().TempDir())
			s.serve(s.pak("one", definition{
				inputs: "[{field_name: x, type: string, details: x}]",
				bosh:   `    checks: [{that: '${1 == 2}', message: 'it is ${x}', audience: operator}]`,
			}.String()))
			s.env["SERVICE_ADAPTER_SERVICES"] = "{one: {provision_defaults: {x: " + jsonText(plain) + ", password: one}}}"
			result := s.call("generate-manifest", instance().Generate(body(nil)))
			Expect(result.Stderr).To(ContainSubstring("it is " + plain))
		}
	})

	It("are not in what the cf user reads", func() {
		s := newSite(GinkgoT().TempDir())
		s.serve(s.pak("one", definition{bind: `{requires: [{that: '${1 == 2}', message: 'it is ${manifest.get("/x")}', audience: user}]}`}.String()))
		deployed := instance()
		deployed.Manifest, deployed.Secrets = "name: x\nx: ((/odb/x))\n", map[string]string{"((/odb/x))": "s3cret"}
		Expect(s.call("create-binding", deployed.Bind("b-1", body(nil))).Stdout).To(Equal("it is [redacted]"))
	})
})
