package adapter_test

import (
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/spec/kit/site"
)

const (
	// secret contains all characters that a log line must escape.
	secret = "s3cret \"quoted\" <\\> and\na s3cret second line"
	// generated is the end of a text that looks generated and contains characters that a log line must escape.
	generated = "\"7Hq2<xP0vLk9\\dWm4RtZ"
)

var _ = Describe("secrets on standard error", func() {
	// The service shows a value to the operator unchanged, in JSON, and in a URL.
	shown := func(expression string) string {
		return `[{that: '${1 == 2}', message: 'it is ${` + expression + `}, ${json.marshal(` + expression +
			`)}, x=${str.queryEscape(` + expression + `)}', audience: operator}]`
	}

	// sensitive is a definition whose bind template declares x as sensitive.
	const sensitive = "user_inputs: [{field_name: x, type: string, details: x}], " +
		"template: 'variable \"x\" { sensitive = true }'"

	DescribeTable("are masked, whatever their source",
		func(d site.Definition, command string, arrange func(s *site.Site) object) {
			s := site.New(GinkgoT().TempDir())
			s.Serve(s.Pak("one", d.String()))
			result := s.Call(command, arrange(s))
			Expect(result.Code).To(Equal(1))
			Expect(result.Stdout).To(BeEmpty())
			Expect(result.Stderr).To(ContainSubstring("it is [redacted], "), "the service must have shown it")
			Expect(result.Stderr).NotTo(ContainSubstring("s3cret"))
		},
		Entry("parameter that looks generated", site.Definition{
			Inputs: "[{field_name: x, type: string, details: x}]", Bosh: "    checks: " + shown("x"),
		}, "generate-manifest", func(*site.Site) object {
			return site.Instance().Generate(site.Body(object{"x": "s3cret" + generated}))
		}),
		Entry("parameter with the name of a secret", site.Definition{
			Inputs: "[{field_name: db_password, type: string, details: x}]",
			Bosh:   "    checks: " + shown("db_password"),
		}, "generate-manifest", func(*site.Site) object {
			return site.Instance().Generate(site.Body(object{"db_password": secret}))
		}),
		Entry("parameter whose variable is sensitive", site.Definition{
			Bind: "{" + sensitive + ", requires: " + shown("x") + "}",
		}, "create-binding", func(*site.Site) object {
			return site.Instance().Bind("b-1", site.Body(object{"x": secret}))
		}),
		Entry("property of a plan with the name of a secret", site.Definition{
			Inputs: "[{field_name: plan_password, type: string, details: x}]",
			Bosh:   "    checks: " + shown("plan_password"),
		}, "generate-manifest", func(*site.Site) object {
			deployed := site.Instance()
			deployed.Plan["properties"] = object{"plan_password": secret}
			return deployed.Generate(site.Body(nil))
		}),
		Entry("secret of the manifest", site.Definition{
			Bind: "{requires: " + shown(`manifest.get("/x")`) + "}",
		}, "create-binding", func(*site.Site) object {
			deployed := site.Instance()
			deployed.Manifest, deployed.Secrets = "name: x\nx: ((/odb/x))\n", map[string]string{"((/odb/x))": secret}
			return deployed.Bind("b-1", site.Body(nil))
		}),
		Entry("key of a structured secret", site.Definition{
			Bind: "{requires: " + shown(`manifest.get("/x")`) + "}",
		}, "create-binding", func(*site.Site) object {
			deployed := site.Instance()
			deployed.Manifest, deployed.Secrets = "name: x\nx: ((/odb/x.key))\n", map[string]string{
				"((/odb/x.key))": site.JSONText(object{"private_key": secret}),
			}
			return deployed.Bind("b-1", site.Body(nil))
		}),
		Entry("secret of the UAA client", site.Definition{
			Bosh: "    checks: " + shown("uaa_client.client_secret"),
		}, "generate-manifest", func(*site.Site) object {
			parameters := site.Instance().Generate(site.Body(nil))
			parameters["uaa_client"] = object{"client_id": "inst-1", "client_secret": secret}
			return parameters
		}),
		Entry("environment", site.Definition{
			Bosh: "    checks: " + shown(`env("TOKEN")`),
		}, "generate-manifest", func(s *site.Site) object {
			s.Env["TOKEN"] = secret
			return site.Instance().Generate(site.Body(nil))
		}),
		Entry("configuration", site.Definition{
			Bosh: "    checks: " + shown(`config("token")`),
		}, "generate-manifest", func(s *site.Site) object {
			s.Env["SERVICE_ADAPTER_CONFIG"] = s.Write("config.yml", "config: {token: "+site.JSONText(secret)+"}")
			return site.Instance().Generate(site.Body(nil))
		}),
		Entry("configuration, from the environment", site.Definition{
			Bosh: "    checks: " + shown(`config("token")`),
		}, "generate-manifest", func(s *site.Site) object {
			s.Env["GSB_TOKEN"] = secret
			return site.Instance().Generate(site.Body(nil))
		}),
		Entry("defaults of the operator", site.Definition{
			Inputs: "[{field_name: token, type: string, details: x}]", Bosh: "    checks: " + shown("token"),
		}, "generate-manifest", func(s *site.Site) object {
			s.Env["SERVICE_ADAPTER_SERVICES"] = "{one: {provision_defaults: {token: " + site.JSONText(secret) + "}}}"
			return site.Instance().Generate(site.Body(nil))
		}),
		Entry("defaults, from the environment", site.Definition{
			Bind: "{" + sensitive + ", requires: " + shown("x") + "}",
		}, "create-binding", func(s *site.Site) object {
			s.Env["GSB_SERVICE_ONE_BIND_DEFAULTS"] = `{"x": ` + site.JSONText(secret) + `}`
			return site.Instance().Bind("b-1", site.Body(nil))
		}),
		Entry("property of a plan of the operator", site.Definition{
			Inputs: "[{field_name: token, type: string, details: x}]", Bosh: "    checks: " + shown("token"),
		}, "generate-manifest", func(s *site.Site) object {
			s.Env["SERVICE_ADAPTER_SERVICES"] = "{one: {plans: [{name: own, id: own-id, token: " +
				site.JSONText(secret) + "}]}}"
			return site.Instance().Generate(object{"service_id": site.ServiceID, "plan_id": "own-id"})
		}),
		Entry("override of a plan, from the environment", site.Definition{
			Bind: "{" + sensitive + ", requires: " + shown("x") + "}",
		}, "create-binding", func(s *site.Site) object {
			s.Env["GSB_SERVICE_ONE_PLANS"] = `[{"name": "own", "id": "own-id", "bind_overrides": {"x": ` +
				site.JSONText(secret) + `}}]`
			return site.Instance().Bind("b-1", object{"service_id": site.ServiceID, "plan_id": "own-id"})
		}),
	)

	It("do not include names, hosts, paths, ids and words of the definition", func() {
		for _, plain := range []string{
			"db.example.com:5432", "orders_production", "/global/root_ca", "0d6c2f8e-56cc-4a3a-9f1e-2b7a3d5c8e90",
			"5.31.0", "one",
		} {
			s := site.New(GinkgoT().TempDir())
			s.Serve(s.Pak("one", site.Definition{
				Inputs: "[{field_name: x, type: string, details: x}]",
				Bosh:   `    checks: [{that: '${1 == 2}', message: 'it is ${x}', audience: operator}]`,
			}.String()))
			s.Env["SERVICE_ADAPTER_SERVICES"] = "{one: {provision_defaults: {x: " + site.JSONText(plain) +
				", password: one}}}"
			result := s.Call("generate-manifest", site.Instance().Generate(site.Body(nil)))
			Expect(result.Stderr).To(ContainSubstring("it is " + plain))
		}
	})

	It("are not in the message for the cf user", func() {
		s := site.New(GinkgoT().TempDir())
		s.Serve(s.Pak("one", site.Definition{
			Bind: `{requires: [{that: '${1 == 2}', message: 'it is ${manifest.get("/x")}', audience: user}]}`,
		}.String()))
		deployed := site.Instance()
		deployed.Manifest, deployed.Secrets = "name: x\nx: ((/odb/x))\n", map[string]string{"((/odb/x))": "s3cret"}
		Expect(s.Call("create-binding", deployed.Bind("b-1", site.Body(nil))).Stdout).To(Equal("it is [redacted]"))
	})

	It("are withheld if they cannot be masked in a second, and the broker shows the user its own text", func() {
		s := site.New(GinkgoT().TempDir())
		s.Serve(s.Pak("one", site.Definition{
			Bind: `{requires: [{that: '${1 == 2}', message: 'it is ${manifest.get("/y")}', audience: user}]}`,
		}.String()))
		s.Env["SERVICE_ADAPTER_RECORD_REQUESTS"] = filepath.Join(s.Dir, "requests")
		// Masking the text takes at least a second on every machine, because each of its characters may begin the
		// secret. The secret is short enough to search for it in a line of the log, also on a slow machine.
		deployed := site.Instance()
		deployed.Manifest = "name: x\nx: ((/odb/x))\ny: " + strings.Repeat("a", 4<<20) + "\n"
		deployed.Secrets = map[string]string{"((/odb/x))": strings.Repeat("a", 1<<18) + "b"}
		result := s.Call("create-binding", deployed.Bind("b-1", site.Body(nil)))
		Expect(result).To(And(HaveField("Code", 1), HaveField("Stdout", "")))
		Expect(result.Stderr).To(And(ContainSubstring("[withheld: masking its secrets took too long]\n"),
			ContainSubstring("event=end"), Not(ContainSubstring("aaaa"))))
		recordings, err := filepath.Glob(filepath.Join(s.Dir, "requests", "*"))
		Expect(err).NotTo(HaveOccurred())
		Expect(recordings).To(HaveLen(1))
		Expect(site.ReadFile(recordings[0])).To(And(ContainSubstring(`"withheld": [`), Not(ContainSubstring("aaaa"))))
	})
})
