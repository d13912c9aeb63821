package adapter_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// secret has all that a log line must escape.
const secret = "s3cret \"quoted\" <\\> and\na s3cret second line"

var _ = Describe("secrets on standard error", func() {
	// The service shows what it can of a value to the operator: as it is, in JSON, and in a URL.
	shown := func(expression string) string {
		return `[{that: '${1 == 2}', message: 'it is ${` + expression + `}, ${json.marshal(` + expression + `)}, x=${str.queryEscape(` + expression + `)}', audience: operator}]`
	}

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
		Entry("parameter", definition{
			inputs: "[{field_name: x, type: string, details: x}]", bosh: "    checks: " + shown("x"),
		}, "generate-manifest", func(*site) object { return instance().Generate(body(object{"x": secret})) }),
		Entry("parameter of a binding", definition{
			bind: "{user_inputs: [{field_name: x, type: string, details: x}], requires: " + shown("x") + "}",
		}, "create-binding", func(*site) object { return instance().Bind("b-1", body(object{"x": secret})) }),
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
			inputs: "[{field_name: x, type: string, details: x}]", bosh: "    checks: " + shown("x"),
		}, "generate-manifest", func(s *site) object {
			s.env["SERVICE_ADAPTER_SERVICES"] = "{one: {provision_defaults: {x: " + jsonText(secret) + "}}}"
			return instance().Generate(body(nil))
		}),
		Entry("defaults, from the environment", definition{
			bind: "{user_inputs: [{field_name: x, type: string, details: x}], requires: " + shown("x") + "}",
		}, "create-binding", func(s *site) object {
			s.env["GSB_SERVICE_ONE_BIND_DEFAULTS"] = `{"x": ` + jsonText(secret) + `}`
			return instance().Bind("b-1", body(nil))
		}),
	)
})
