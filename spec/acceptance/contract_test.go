package acceptance_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/odb"
	"service-adapter/spec/kit"
)

// draft04 is the exact value of $schema that the broker requires.
const draft04 = "http://json-schema.org/draft-04/schema#"

var _ = Describe("the contract of the other commands", func() {
	var b *broker

	BeforeEach(func(ctx context.Context) {
		b = newBroker(newSite("entries"))
		b.deploy(ctx, nil)
	})

	DescribeTable("row 9: deletes a binding if the parameters of the request are sent",
		func(ctx context.Context, key string) {
			Expect(b.bind(ctx, "bind-1", nil).Exit).To(Equal(0))
			parameters := b.unbindParameters("bind-1")
			body := parameters["request_parameters"]
			delete(parameters, "request_parameters")
			parameters[key] = body
			got := b.call(ctx, deleteBinding, parameters)
			Expect(got.Exit).To(Equal(0), got.Stderr)
			Expect(got.Stdout).To(BeEmpty())
			b.site.expectNothingLeft()
		},
		Entry("as request_parameters, as the broker does", "request_parameters"),
		Entry("as delete_parameters, as the protocol is published", "delete_parameters"),
	)

	It("row 11: exits with 41 for a binding that does not exist, and leaves no files", func(ctx context.Context) {
		got := b.unbind(ctx, "bind-1")
		Expect(got.Exit).To(Equal(41), got.Stderr)
		Expect(got.Stdout).To(BeEmpty())
		b.site.expectNothingLeft()
	})

	It("row 12: exits with 49 for a binding that exists, and changes nothing", func(ctx context.Context) {
		secret := credentials(b.bind(ctx, "bind-1", nil))["secret"]
		before, err := os.ReadFile(filepath.Join(b.site.entries, "bind-1-account"))
		Expect(err).NotTo(HaveOccurred())
		Expect(string(before)).To(ContainSubstring(secret.(string)))
		Expect(b.bind(ctx, "bind-1", object{"content": "other"}).Exit).To(Equal(49))
		Expect(os.ReadFile(filepath.Join(b.site.entries, "bind-1-account"))).To(Equal(before))
		Expect(b.unbind(ctx, "bind-1").Exit).To(Equal(0))
		b.site.expectNothingLeft()
	})

	It("row 12: exits with 42 without an app, but only if the pak requires an app", func(ctx context.Context) {
		without := b.bindParameters("bind-1", nil)
		body := without["request_parameters"].(object)
		delete(body, "app_guid")
		body["bind_resource"] = object{}
		Expect(b.call(ctx, createBinding, without).Exit).To(Equal(0))

		definition, err := os.ReadFile(filepath.Join(b.site.pak, "entries.yml"))
		Expect(err).NotTo(HaveOccurred())
		b.site.write("entries.yml",
			strings.Replace(string(definition), "\nbind:\n", "\nbind:\n  requires_app_guid: true\n", 1))
		without["binding_id"] = "bind-2"
		got := b.call(ctx, createBinding, without)
		Expect(got.Exit).To(Equal(42), got.Stderr)
		Expect(got.Stdout).To(BeEmpty())
		Expect(b.bind(ctx, "bind-2", nil).Exit).To(Equal(0))
	})

	It("row 13: returns three schemas of the draft that the broker requires", func(ctx context.Context) {
		schemas := decode(b.call(ctx, generatePlanSchemas, object{"plan": b.Plan}).Stdout)
		for _, path := range [][]string{
			{"service_instance", "create"},
			{"service_instance", "update"},
			{"service_binding", "create"},
		} {
			schema := schemas[path[0]].(object)[path[1]].(object)["parameters"].(object)
			Expect(schema["$schema"]).To(Equal(draft04), "%v", path)
			Expect(schema["properties"]).To(HaveKey("number"), "%v", path)
		}
	})

	It("returns an error for the user if the schemas cannot be generated, because the broker has none",
		func(ctx context.Context) {
			b.site.set(map[string]any{"service": "entry"})
			got := b.call(ctx, generatePlanSchemas, object{"plan": b.Plan})
			Expect(got.Exit).To(Equal(1))
			Expect(got.Stdout).To(Equal("There was a problem reading the schemas of the plan's parameters. Please " +
				"contact your operations team."))
			Expect(got.Stderr).To(MatchRegexp(`level=ERROR .*the configuration names the service \\"entry\\"`))
			Expect(b.call(ctx, generateManifest, b.Generate(b.body(nil)))).To(And(HaveField("Exit", 0),
				HaveField("Stderr", Not(ContainSubstring("level=ERROR")))),
				"the request says which service it means")
		})

	It("row 14: exits with 10 for a service without a dashboard", func(ctx context.Context) {
		got := b.call(ctx, dashboardURL, object{"instance_id": "inst-1", "plan": b.Plan, "manifest": b.Manifest})
		Expect(got.Exit).To(Equal(10), got.Stderr)
		Expect(got.Stdout).To(BeEmpty())
	})

	It("row 17: exits with 1 if standard output is closed", func(ctx context.Context) {
		for command, parameters := range map[string]object{
			generateManifest: b.Generate(b.body(nil)), createBinding: b.bindParameters("bind-1", nil),
		} {
			reader, writer, err := os.Pipe()
			Expect(err).NotTo(HaveOccurred())
			Expect(reader.Close()).To(Succeed())
			run := exec.CommandContext(ctx, adapterBinary, command)
			run.Stdin, run.Stdout, run.Stderr = strings.NewReader(stdin(command, parameters)), writer, GinkgoWriter
			run.Env, run.Dir = b.site.environment(), b.site.dir
			Expect(run.Run()).NotTo(Succeed())
			Expect(run.ProcessState.ExitCode()).To(Equal(1), command)
			Expect(writer.Close()).To(Succeed())
		}
		Expect(b.unbind(ctx, "bind-1").Exit).To(Equal(0), "the broker deletes a binding whose creation failed")
		b.site.expectNothingLeft()
	})

	It("row 17: accepts a manifest of three megabytes", kit.Slow(), func(ctx context.Context) {
		b.site.set(object{"max_request_kb": 4096})
		b.deploy(ctx, object{"text": strings.Repeat("three megabytes, one of them in the record. ", 1<<20/26)})
		Expect(len(b.Manifest)).To(BeNumerically(">", 3<<20))
		expectSame(b.Manifest, b.call(ctx, generateManifest, b.Generate(object{})))
		Expect(b.bind(ctx, "bind-1", nil).Exit).To(Equal(0))
	})

	It("row 18: accepts positional arguments", func(ctx context.Context) {
		text := func(value any) string {
			if s, ok := value.(string); ok {
				return s
			}
			return encode(value)
		}
		generate := func(parameters object) answer {
			return b.run(ctx, "", generateManifest, text(parameters["service_deployment"]), text(parameters["plan"]),
				text(parameters["request_parameters"]), text(parameters["previous_manifest"]),
				text(parameters["previous_plan"]))
		}
		b.Manifest = ""
		lost := generate(b.Generate(b.body(nil)))
		Expect(lost.Exit).To(Equal(1))
		Expect(lost.Stdout).To(BeEmpty())
		Expect(lost.Stderr).To(ContainSubstring("use_stdin"), "the broker would lose the secrets")
		b.site.set(map[string]any{"secure_manifests": false}) // the broker cannot store secrets in this mode
		got := generate(b.Generate(b.body(object{"text": "mine"})))
		Expect(got.Exit).To(Equal(0), got.Stderr)
		Expect(got.Stdout).To(HavePrefix("name: service-instance_inst-1\n"))
		Expect(job(got.Stdout)).To(HaveKeyWithValue("text", "mine"))
		b.Manifest = got.Stdout
		again := generate(b.Generate(object{}))
		same, err := odb.SameManifests(b.Manifest, again.Stdout)
		Expect(err).NotTo(HaveOccurred())
		Expect(same).To(BeTrue())
		expectRefused(generate(b.Generate(b.body(object{"number": "many"}))), `"number" must be a number`)
		missing := b.run(ctx, "", generateManifest, "{}")
		Expect(missing.Exit).To(Equal(1))
		Expect(missing.Stderr).To(ContainSubstring("Missing arguments for generate-manifest"))

		bound := b.bindParameters("bind-1", object{"content": "mine"})
		arguments := []string{"bind-1", text(bound["bosh_vms"]), b.Manifest, text(bound["request_parameters"])}
		Expect(credentials(b.run(ctx, "", append([]string{createBinding}, arguments...)...))["secret"]).NotTo(BeEmpty())
		Expect(b.run(ctx, "", append([]string{createBinding}, arguments...)...).Exit).To(Equal(49))
		Expect(b.run(ctx, "", append([]string{deleteBinding}, arguments...)...).Exit).To(Equal(0))
		Expect(b.run(ctx, "", append([]string{deleteBinding}, arguments...)...).Exit).To(Equal(41))
		Expect(b.run(ctx, "", dashboardURL, "inst-1", text(b.Plan), b.Manifest).Exit).To(Equal(10))
		Expect(decode(b.run(ctx, "", generatePlanSchemas, "-plan-json", text(b.Plan)).Stdout)).To(
			HaveKey("service_binding"))
		b.site.expectNothingLeft()
	})

	It("row 19: needs only a temporary directory", func(ctx context.Context) {
		temporary := b.withoutPrivileges() // with an environment that has neither HOME nor PATH
		Expect(b.call(ctx, generatePlanSchemas, object{"plan": b.Plan}).Exit).To(Equal(0))
		expectSame(b.Manifest, b.call(ctx, generateManifest, b.Generate(object{})))
		Expect(b.bind(ctx, "bind-1", nil).Exit).To(Equal(0))
		Expect(filepath.Join(temporary, "bind-1-account")).To(BeARegularFile())
		Expect(b.unbind(ctx, "bind-1").Exit).To(Equal(0))
		Expect(filepath.Join(temporary, "bind-1-account")).NotTo(BeAnExistingFile())
		Expect(list(b.site.working)).To(BeEmpty())
		b.site.expectNoProcesses()
	})

	It("row 20: shares no temporary file between two adapters", func(ctx context.Context) {
		use := func(id string) func() {
			return func() {
				Expect(b.bind(ctx, id, nil).Exit).To(Equal(0))
				expectSame(b.Manifest, b.call(ctx, generateManifest, b.Generate(object{})))
				Expect(b.unbind(ctx, id).Exit).To(Equal(0))
			}
		}
		together(use("bind-1"), use("bind-2"))
		b.site.expectNothingLeft()
	})
})
