package adapter_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/adapter"
)

var _ = Describe("a command", func() {
	var s *site

	BeforeEach(func() { s = newSite(GinkgoT().TempDir()) })

	// The table of outcomes: exit code, standard output, level of the log.
	DescribeTable("ends",
		func(command string, parameters func() object, d definition, code int, stdout, level, message string) {
			s.serve(s.pak("one", d.String()))
			result := s.call(command, parameters())
			Expect(result.Code).To(Equal(code))
			Expect(result.Stdout).To(Equal(stdout))
			Expect(result.Stderr).To(MatchRegexp(`(?m)^time=\S+Z level=%s msg="command ended without a result" command=%s exit=%d error=.*%s`,
				level, command, code, message))
			audit := strings.Count(result.Stderr, "level=INFO msg=audit ")
			Expect(audit).To(BeElementOf(0, 2))
			Expect(strings.Count(result.Stderr, "\n")).To(Equal(2+audit), "the SDK's line, one more, and those of the audit")
		},
		Entry("with 10 where the pak has no such capability", "dashboard-url",
			func() object { return object{"instance_id": "inst-1", "plan": instance().Plan, "manifest": "name: x"} }, definition{},
			10, "", "INFO", "not implemented by this pak"),
		Entry("with 10 where the pak makes no bindings", "create-binding",
			func() object { return instance().Bind("b-1", body(nil)) }, definition{bind: "null"},
			10, "", "INFO", "not implemented by this pak"),
		Entry("with 42 where an app is needed", "create-binding",
			func() object { return instance().Bind("b-1", body(nil)) }, definition{bind: "{requires_app_guid: true}"},
			42, "", "INFO", "app_guid is required"),
		Entry("with 1 and a sentence where the user can mend it", "generate-manifest",
			func() object { return instance().Generate(body(object{"sise": 1})) },
			definition{inputs: "[{field_name: size, type: integer, default: 1, details: x}]"},
			1, `parameter "sise" is not supported (did you mean "size"?); supported parameters: size`, "WARN", "is not supported"),
		Entry("with 1 and one line where the service's message has several", "generate-manifest",
			func() object { return instance().Generate(body(nil)) },
			definition{bosh: "    checks: [{that: '${1 == 2}', message: \"this\\n  and that\\n\", audience: user}]"},
			1, `this and that`, "WARN", "this"),
		Entry("with 1 and nothing where the operator has to", "generate-manifest",
			func() object { return instance().Generate(body(nil)) },
			definition{bosh: "    checks: [{that: '${1 == 2}', message: for the operator, audience: operator}]"},
			1, "", "ERROR", "for the operator"),
		Entry("with 1 and nothing where the broker's input is wrong", "generate-manifest",
			func() object { return object{"service_deployment": "{}"} }, definition{},
			1, "", "ERROR", "validating service deployment"),
		Entry("with 1 and nothing where the pak lacks binaries", "create-binding",
			func() object { return instance().Bind("b-1", body(nil)) }, definition{bind: "{template: ''}"},
			1, "", "ERROR", "has no binaries"),
		Entry("with 1 and nothing without a binding id", "create-binding",
			func() object { return instance().Bind("", body(nil)) }, definition{},
			1, "", "ERROR", "the request has no binding_id"),
	)

	It("makes and deletes a binding: 0, 49, 0, 41", func() {
		s.serve(s.pak("one", definition{bind: `{template: 'output "greeting" { value = "hello" }'}`}.String()))
		tofu, err := filepath.Abs("../build/tofu/1.12.6/tofu")
		Expect(err).NotTo(HaveOccurred())
		Expect(tofu).To(BeARegularFile(), "run `make tools` first: it builds OpenTofu")
		bin := filepath.Join(s.dir, "one", "bin", runtime.GOOS, runtime.GOARCH)
		Expect(os.MkdirAll(bin, 0o700)).To(Succeed())
		Expect(os.Symlink(tofu, filepath.Join(bin, "tofu"))).To(Succeed())

		Expect(s.call("create-binding", instance().Bind("b-1", body(nil)))).To(And(
			HaveField("Code", 0), HaveField("Stdout", `{"credentials":{"greeting":"hello"}}`+"\n"), HaveField("Stderr", MatchRegexp(`^\[odb-sdk\] handling create-binding\n(time=\S+ level=INFO msg=audit [^\n]*\n){2}$`))))
		again := s.call("create-binding", instance().Bind("b-1", body(nil)))
		Expect(again).To(And(HaveField("Code", 49), HaveField("Stdout", "")))
		Expect(again.Stderr).To(ContainSubstring("level=INFO"))
		Expect(s.call("delete-binding", instance().Bind("b-1", object{}))).To(And(HaveField("Code", 0), HaveField("Stdout", "")))
		unknown := s.call("delete-binding", instance().Bind("b-1", object{}))
		Expect(unknown).To(And(HaveField("Code", 41), HaveField("Stdout", "")))
		Expect(unknown.Stderr).To(ContainSubstring("level=INFO"))

		By("as the published interface has it")
		published := instance().Bind("b-1", object{})
		published["delete_parameters"] = published["request_parameters"]
		delete(published, "request_parameters")
		Expect(s.call("delete-binding", published).Code).To(Equal(41))
	})

	It("is one of five", func() {
		Expect(s.run("")).To(And(HaveField("Code", 1), HaveField("Stdout", ""), HaveField("Stderr",
			"usage: service-adapter COMMAND\nthe following commands are supported: create-binding, dashboard-url, delete-binding, generate-manifest, "+
				"generate-plan-schemas\nauthors and operators have others: see service-adapter --help\n")))
		Expect(s.run("", "bind")).To(And(HaveField("Code", 1), HaveField("Stdout", ""), HaveField("Stderr", HavePrefix("unknown subcommand: bind\nusage:"))))
	})

	It("that panics ends with 1, a place and no value", func() {
		for _, value := range []any{"s3cret", errors.New("s3cret"), nil} {
			var stdout, stderr bytes.Buffer
			code := adapter.Run(context.Background(), adapter.Invocation{
				Args: []string{"service-adapter", "dashboard-url"}, Stdin: strings.NewReader("{}"), Stdout: &stdout, Stderr: &stderr,
				Getenv: func(string) (string, bool) { panic(value) },
			})
			Expect(code).To(Equal(1))
			Expect(stdout.String()).To(BeEmpty())
			Expect(stderr.String()).To(MatchRegexp(`^\[odb-sdk\] handling dashboard-url\ntime=\S+ level=ERROR .*internal error at service-adapter/adapter_test\.\S+:\d+ .*this is a bug in the adapter"\n$`))
			Expect(stderr.String()).NotTo(ContainSubstring("s3cret"))
		}
	})

	It("whose result cannot be written has failed", func() {
		s.serve(s.pak("one", definition{}.String()))
		var stderr bytes.Buffer
		code := adapter.Run(context.Background(), adapter.Invocation{
			Args: []string{"service-adapter", "generate-plan-schemas", "--plan-json", jsonText(instance().Plan)}, Stdout: closed{}, Stderr: &stderr,
			Getenv: s.getenv,
		})
		Expect(code).To(Equal(1))
		Expect(stderr.String()).To(ContainSubstring("writing the result"))
	})

	It("names every pak that cannot be loaded", func() {
		s.serve(filepath.Join(s.dir, "none"), s.pak("broken", "version: 1\nname: [x]\n"))
		result := s.call("generate-manifest", instance().Generate(body(nil)))
		Expect(result).To(And(HaveField("Code", 1), HaveField("Stdout", "")))
		Expect(result.Stderr).To(And(ContainSubstring("loading the paks"), ContainSubstring("none"), ContainSubstring("broken/service0.yml:2")))
	})

	DescribeTable("logs from the configured level on",
		func(level string, written bool) {
			s.serve(s.pak("one", definition{bind: "{requires_app_guid: true}"}.String()))
			s.env["SERVICE_ADAPTER_LOG_LEVEL"] = level
			result := s.call("create-binding", instance().Bind("b-1", body(nil)))
			Expect(result.Code).To(Equal(42))
			Expect(strings.Contains(result.Stderr, "level=INFO")).To(Equal(written))
		},
		Entry(nil, "debug", true), Entry(nil, "info", true), Entry(nil, "warn", false), Entry(nil, "error", false),
	)

	DescribeTable("asks for the environment variables that the pak requires before anything runs",
		func(set string) {
			pak := s.pak("one", definition{}.String())
			s.serve(pak)
			s.write("one/manifest.yml", replaced(readFile(pak+"/manifest.yml"), "terraform_binaries", "required_env_variables: [DB_TOKEN]\nterraform_binaries"))
			switch set {
			case "variable":
				s.env["DB_TOKEN"] = "s3cret-token"
			case "key":
				s.env["SERVICE_ADAPTER_CONFIG"] = s.write("config.yml", "config: {DB_TOKEN: s3cret-token}")
			}
			for command, parameters := range map[string]object{
				"create-binding": instance().Bind("b-1", body(nil)), "delete-binding": instance().Bind("b-1", body(nil)),
			} {
				result := s.call(command, parameters)
				Expect(result).To(And(HaveField("Code", 1), HaveField("Stdout", "")))
				Expect(strings.Contains(result.Stderr, "pak one requires DB_TOKEN, which is neither an environment variable nor a key of `config`")).
					To(Equal(set == "nowhere"))
			}
			Expect(s.call("generate-manifest", instance().Generate(body(nil))).Code).To(Equal(0), "which runs no OpenTofu")
		},
		Entry(nil, "nowhere"), Entry(nil, "variable"), Entry(nil, "key"),
	)
})

// closed is a standard output that nobody reads.
type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, fmt.Errorf("broken pipe") }
