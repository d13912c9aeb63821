package instance_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/expr"
	"service-adapter/internal/diag"
	"service-adapter/internal/instance"
	"service-adapter/internal/record"
	"service-adapter/internal/vars"
)

const manifest = `name: service-instance_abc
instance_groups:
- name: box
  instances: 3
  jobs:
  - name: box
    properties:
      password: ((/odb/svc/service-instance_abc/password))
      uri: "redis://:((password))@host:((port))"
      nested: {list: [((password)), plain, {"key": ((password))}]}
      certificate: ((tls.certificate))
      tls: ((tls))
      missing: ((nowhere))
      open: "a (( b"
      size: 1000000
      yes: "y"
`

// parsed parses a valid expression.
func parsed(text string) *expr.Template {
	GinkgoHelper()
	template, err := expr.Parse(expr.Source{Text: text, Pos: diag.Pos{File: "service.yml", Line: 1, Column: 1}})
	Expect(err).NotTo(HaveOccurred())
	return template
}

// deployed returns an instance with the manifest above, but without a record.
func deployed() *instance.View {
	return &instance.View{
		Manifest: []byte(manifest),
		Secrets: map[string]string{
			"((/odb/svc/service-instance_abc/password))": "s3cret", "((password))": "p((q))", "((port))": "6379",
			"((tls.certificate))": "CERT",
		},
		VMs: map[string][]string{"box": {"10.0.0.1", "10.0.0.2"}, "empty": {}},
		DNS: map[string]string{"primary": "q-s0.box.bosh"},
	}
}

// evaluate returns the value of an expression that reads an instance.
func evaluate(view *instance.View, text string) (any, error) {
	GinkgoHelper()
	scope := vars.NewScope(vars.Options{Constants: view.Constants(), Functions: view.Functions()})
	return scope.Eval("x", parsed(text))
}

const properties = "/instance_groups/name=box/jobs/name=box/properties/"

var _ = Describe("expressions that read an instance", func() {
	DescribeTable("can read",
		func(text string, expected any) {
			Expect(evaluate(deployed(), text)).To(BeEquivalentTo(expected))
		},
		Entry("a secret", `${manifest.get("`+properties+`password")}`, "s3cret"),
		Entry("secrets within a text, each replaced once", `${manifest.get("`+properties+`uri")}`,
			"redis://:p((q))@host:6379"),
		Entry("a part of a structured secret", `${manifest.get("`+properties+`certificate")}`, "CERT"),
		Entry("an element of a list by index", `${manifest.get("`+properties+`nested/list/0")}`, "p((q))"),
		Entry("secrets in lists and mappings", `${json.marshal(manifest.get("`+properties+`nested"))}`,
			`{"list":["p((q))","plain",{"key":"p((q))"}]}`),
		Entry("a number, without an exponent", `${manifest.get("`+properties+`size")}`, "1000000"),
		Entry("a text that only looks like a reference", `${manifest.get("`+properties+`open")}`, "a (( b"),
		Entry("an optional value that exists", `${manifest.find("`+properties+`password", "none")}`, "s3cret"),
		Entry("the default of an optional value that does not exist", `${manifest.find("/gone/x", "none")}`, "none"),
		Entry("groups by index", `${manifest.get("/instance_groups/0/name")}`, "box"),
		Entry("a host", `${bosh.host("box")}`, "10.0.0.1"),
		Entry("hosts", `${json.marshal(bosh.hosts("box"))}`, `["10.0.0.1","10.0.0.2"]`),
		Entry("an address", `${bosh.address("primary")}`, "q-s0.box.bosh"),
		Entry("the deployment", `${bosh.deployment}`, "service-instance_abc"),
		Entry("VMs", `${json.marshal(bosh.vms["box"])}`, `["10.0.0.1","10.0.0.2"]`),
		Entry("DNS names", `${bosh.dns["primary"]}`, "q-s0.box.bosh"),
	)

	DescribeTable("fail with an explanation if a value is missing:",
		func(text, message string) {
			_, err := evaluate(deployed(), text)
			Expect(err).To(MatchError(ContainSubstring(message)))
			Expect(err).NotTo(MatchError(ContainSubstring("s3cret")))
		},
		Entry("a secret that the broker did not send", `${manifest.get("`+properties+`missing")}`,
			`the broker sent no value for ((nowhere)): the manifest contains it at "`+properties+
				`missing"; is enable_secure_manifests on?`),
		Entry("a key", `${manifest.get("/gone/x")}`, `the manifest has no value at "/gone/x"`),
		Entry("an index", `${manifest.get("/instance_groups/7")}`, `the manifest has no value at "/instance_groups/7"`),
		Entry("a name", `${manifest.get("/instance_groups/name=gone")}`,
			`the manifest has no value at "/instance_groups/name=gone"`),
		Entry("a part of a reference", `${manifest.get("`+properties+`tls/certificate")}`,
			`the manifest has no value at "`+properties+`tls/certificate": `+
				`"`+properties+`tls" is the reference ((tls)); `+
				`write the parts that are read as references of their own, such as ((tls.certificate))`),
		Entry("a part of a part of a reference", `${manifest.get("`+properties+`certificate/0/x")}`,
			`is the reference ((tls.certificate)); write the parts that are read as references of their own, `+
				`such as ((tls.certificate.KEY))`),
		Entry("a part of a text with references", `${manifest.get("`+properties+`uri/host")}`, `found 'string'`),
		Entry("a path", `${manifest.get("name")}`, `path "name": `),
		Entry("a group", `${bosh.host("bax")}`, `no VMs for instance group "bax"; instance groups: box, empty`),
		Entry("VMs of a group", `${bosh.hosts("empty")}`,
			`no VMs for instance group "empty"; instance groups: box, empty`),
		Entry("an address", `${bosh.address("x")}`,
			`the broker sent no DNS address "x", only: primary; configure binding_with_dns for the plan`),
	)

	It("use the default for a secret only if the broker sends no secrets at all", func() {
		find := `${manifest.find("` + properties + `missing", "none")}`
		_, err := evaluate(deployed(), find)
		Expect(err).To(MatchError(ContainSubstring("the broker sent no value for ((nowhere))")))
		view := deployed()
		view.Secrets = nil
		Expect(evaluate(view, find)).To(Equal("none"))
	})

	It("fail if the manifest is invalid", func() {
		view := &instance.View{Manifest: []byte("{")}
		_, err := evaluate(view, `${manifest.get("/name")}`)
		Expect(err).To(MatchError(ContainSubstring("reading the deployed manifest")))
		Expect(view.Deployment()).To(BeEmpty())
	})

	It("use the record's deployment if the manifest is invalid", func() {
		view := &instance.View{
			Manifest: []byte("{"),
			Record:   &record.InstanceRecord{Identity: record.Identity{Deployment: "service-instance_x"}},
		}
		Expect(view.InstanceID()).To(Equal("x"))
	})

	It("do not resolve references with View.GetRaw", func() {
		Expect(deployed().GetRaw(properties + "password")).To(Equal("((/odb/svc/service-instance_abc/password))"))
	})

	DescribeTable("are deferred if they read the deployment",
		func(text string, deferred bool) { Expect(instance.Deferred(parsed(text))).To(Equal(deferred)) },
		Entry("a literal", "x", false),
		Entry("a variable", "${x}", false),
		Entry("the deployment's name", "${bosh.deployment}", false),
		Entry("the manifest", `${x}-${manifest.get("/name")}`, true),
		Entry("a host", `${bosh.host("box")}`, true),
		Entry("VMs", `${json.marshal(bosh.vms["box"])}`, true),
		Entry("DNS names", `${bosh.dns["x"]}`, true),
	)
})

var _ = Describe("the details of an instance", func() {
	var service *brokerpak.Service
	output := func(text string) brokerpak.Output { return brokerpak.Output{Expr: parsed(text)} }
	BeforeEach(func() {
		service = &brokerpak.Service{}
		service.Provision.Bosh = &brokerpak.Bosh{}
		service.Provision.Bosh.Outputs = map[string]brokerpak.Output{
			"scheme": output(`${tls ? "rediss" : "redis"}`),
			"uri": output(
				`${scheme}://${bosh.host("box")}:${manifest.get("` + properties + `size")}/${request.instance_id}`),
			"fixed": {Literal: int64(5)},
		}
	})

	It("are the recorded outputs and the deferred ones", func() {
		view := deployed()
		view.Record = &record.InstanceRecord{
			Identity: record.Identity{Deployment: "service-instance_abc"},
			Provisioned: record.Provisioned{
				Outputs:   map[string]any{"scheme": "recorded", "template": "t"},
				Variables: map[string]any{"scheme": "http"},
			},
		}
		Expect(view.Details(service, vars.Environment{})).To(Equal(map[string]any{
			"scheme": "recorded", "template": "t", "fixed": int64(5), "uri": "http://10.0.0.1:1000000/abc",
		}))
	})

	It("have their declared types", func() {
		service.Provision.Outputs = []brokerpak.Variable{
			{Name: "tls", Type: "boolean"},
			{Name: "port", Type: "integer"},
			{Name: "hosts", Type: "array"},
			{Name: "fixed", Type: "string"},
			{Name: "wrong", Type: "integer"},
			{Name: "of_template", Type: "integer"},
		}
		service.Provision.Bosh.Outputs = map[string]brokerpak.Output{
			"tls": output(`${2 > 1}`), "port": output(`${manifest.get("` + properties + `size")}`),
			"hosts": output(`${json.marshal(bosh.hosts("box"))}`),
			"fixed": {Literal: int64(5)}, "wrong": output("x"),
		}
		view := deployed()
		view.Record = &record.InstanceRecord{Provisioned: record.Provisioned{
			Outputs:  map[string]any{"tls": "true"},
			Template: &record.Template{Outputs: map[string]any{"of_template": "1"}},
		}}
		Expect(view.Details(service, vars.Environment{})).To(Equal(map[string]any{
			"tls": true, "port": int64(1000000), "hosts": []any{"10.0.0.1", "10.0.0.2"}, "fixed": int64(5),
			"wrong":       "x",
			"of_template": "1",
		}))
	})

	It("ignore the recorded value of an output that reads the deployment", func() {
		service.Provision.Bosh.Outputs = map[string]brokerpak.Output{"host": output(`${bosh.host("box")}`)}
		view := deployed()
		view.Record = &record.InstanceRecord{Provisioned: record.Provisioned{Outputs: map[string]any{"host": "stale"}}}
		Expect(view.Details(service, vars.Environment{})).To(Equal(map[string]any{"host": "10.0.0.1"}))
	})

	It("include the outputs of an errand, which are not in the manifest", func() {
		service.Provision.Bosh.Outputs = map[string]brokerpak.Output{
			"url": output(`http://${instance.details["host"]}`),
		}
		view := deployed()
		view.Record = &record.InstanceRecord{Provisioned: record.Provisioned{Errand: &record.Versions{}}}
		view.Applied = map[string]any{"host": "h", "key": "k"}
		Expect(view.Details(service,
			vars.Environment{})).To(Equal(map[string]any{"host": "h", "key": "k", "url": "http://h"}))
	})

	It("are not available to a dashboard URL that the broker reads before the errand has run", func() {
		service.Provision.Bosh.DashboardURL = parsed(`https://${instance.details["host"]}/`)
		view := deployed()
		view.Record = &record.InstanceRecord{Provisioned: record.Provisioned{Errand: &record.Versions{}}}
		Expect(view.DashboardURL(service, vars.Environment{}, nil)).To(BeEmpty())
		view.Record = &record.InstanceRecord{Provisioned: record.Provisioned{
			Template: &record.Template{Outputs: map[string]any{"host": "h"}},
		}}
		Expect(view.DashboardURL(service, vars.Environment{}, nil)).To(Equal("https://h/"))
	})

	It("cause an error that names the version of the pak if a variable is missing", func() {
		view := deployed()
		view.Record = &record.InstanceRecord{Identity: record.Identity{Pak: "redis", PakVersion: "1.0.0"}}
		_, err := view.Details(service, vars.Environment{})
		Expect(err).To(MatchError(ContainSubstring(
			`evaluating output "scheme" of the instance, whose manifest was created by version 1.0.0 of pak redis`)))
	})

	It("are empty without a manifest template", func() {
		Expect(deployed().Details(&brokerpak.Service{}, vars.Environment{})).To(BeEmpty())
	})
})

var _ = Describe("the dashboard URL", func() {
	service := func(url string) *brokerpak.Service {
		bosh := &brokerpak.Bosh{InstanceOutputs: brokerpak.InstanceOutputs{DashboardURL: parsed(url)}}
		return &brokerpak.Service{Provision: brokerpak.Action{Bosh: bosh}}
	}

	It("is read from the record", func() {
		provisioned := record.Provisioned{DashboardURL: "https://recorded"}
		view := &instance.View{Record: &record.InstanceRecord{Provisioned: provisioned}}
		Expect(view.DashboardURL(service("https://${gone}"), vars.Environment{}, nil)).To(Equal("https://recorded"))
	})

	It("is evaluated if it reads the deployment or if the manifest has no record", func() {
		view := deployed()
		Expect(view.DashboardURL(service(`https://${bosh.deployment}/${request.instance_id}`), vars.Environment{},
			map[string]any{"request.instance_id": "abc"})).To(Equal("https://service-instance_abc/abc"))
		view.Record = &record.InstanceRecord{
			Identity:    record.Identity{Deployment: "service-instance_abc"},
			Provisioned: record.Provisioned{Variables: map[string]any{"port": int64(80)}},
		}
		Expect(view.DashboardURL(service(`https://${bosh.host("box")}:${port}`), vars.Environment{},
			nil)).To(Equal("https://10.0.0.1:80"))
	})

	It("is empty if the service has none", func() {
		Expect(deployed().DashboardURL(&brokerpak.Service{}, vars.Environment{}, nil)).To(BeEmpty())
	})
})
