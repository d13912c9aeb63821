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
	"service-adapter/spec/kit/site"
)

var _ = Describe("a command", func() {
	var s *site.Site

	BeforeEach(func() { s = site.New(GinkgoT().TempDir()) })

	// The table of outcomes: exit code, standard output, level of the log.
	DescribeTable("ends",
		func(command string, parameters func() object, d site.Definition, code int, stdout, level, message string) {
			s.Serve(s.Pak("one", d.String()))
			result := s.Call(command, parameters())
			Expect(result.Code).To(Equal(code))
			Expect(result.Stdout).To(Equal(stdout))
			Expect(result.Stderr).To(MatchRegexp(
				`(?m)^time=\S+Z level=%s msg="command ended without a result" command=%s exit=%d error=.*%s`,
				level, command, code, message))
			audit := strings.Count(result.Stderr, "level=INFO msg=audit ")
			Expect(audit).To(BeElementOf(0, 2))
			Expect(strings.Count(result.Stderr, "\n")).To(Equal(2+audit),
				"the SDK's line, one more, and those of the audit")
		},
		Entry("with 10 if the pak lacks the capability", "dashboard-url",
			func() object {
				return object{"instance_id": "inst-1", "plan": site.Instance().Plan, "manifest": "name: x"}
			},
			site.Definition{},
			10, "", "INFO", "not implemented by this pak"),
		Entry("with 10 if the pak has no bindings", "create-binding",
			func() object { return site.Instance().Bind("b-1", site.Body(nil)) }, site.Definition{Bind: "null"},
			10, "", "INFO", "not implemented by this pak"),
		Entry("with 42 if an app is required", "create-binding",
			func() object { return site.Instance().Bind("b-1", site.Body(nil)) },
			site.Definition{Bind: "{requires_app_guid: true}"}, 42, "", "INFO", "app_guid is required"),
		Entry("with 1 and a sentence if the user can correct the fault", "generate-manifest",
			func() object { return site.Instance().Generate(site.Body(object{"sise": 1})) },
			site.Definition{Inputs: "[{field_name: size, type: integer, default: 1, details: x}]"},
			1, `parameter "sise" is not supported (did you mean "size"?); supported parameters: size`, "WARN",
			"is not supported"),
		Entry("with 1 and one line if the message of the service has several", "generate-manifest",
			func() object { return site.Instance().Generate(site.Body(nil)) },
			site.Definition{
				Bosh: "    checks: [{that: '${1 == 2}', message: \"this\\n  and that\\n\", audience: user}]",
			}, 1, `this and that`, "WARN", "this"),
		Entry("with 1 and an empty standard output if the operator must correct the fault", "generate-manifest",
			func() object { return site.Instance().Generate(site.Body(nil)) },
			site.Definition{Bosh: "    checks: [{that: '${1 == 2}', message: for the operator, audience: operator}]"},
			1, "", "ERROR", "for the operator"),
		Entry("with 1 and an empty standard output if the input of the broker is wrong", "generate-manifest",
			func() object { return object{"service_deployment": "{}"} }, site.Definition{},
			1, "", "ERROR", "validating service deployment"),
		Entry("with 1 and an empty standard output if the pak lacks binaries", "create-binding",
			func() object { return site.Instance().Bind("b-1", site.Body(nil)) },
			site.Definition{Bind: "{template: ''}"}, 1, "", "ERROR", "has no binaries"),
		Entry("with 1 and an empty standard output without a binding id", "create-binding",
			func() object { return site.Instance().Bind("", site.Body(nil)) }, site.Definition{},
			1, "", "ERROR", "the request has no binding_id"),
	)

	It("creates and deletes a binding: 0, 49, 0, 41", func() {
		s.Serve(s.Pak("one", site.Definition{Bind: `{template: 'output "greeting" { value = "hello" }'}`}.String()))
		tofu, err := filepath.Abs("../build/tofu/1.12.6/tofu")
		Expect(err).NotTo(HaveOccurred())
		Expect(tofu).To(BeARegularFile(), "run `make tools` first: it builds OpenTofu")
		bin := filepath.Join(s.Dir, "one", "bin", runtime.GOOS, runtime.GOARCH)
		Expect(os.MkdirAll(bin, 0o700)).To(Succeed())
		Expect(os.Symlink(tofu, filepath.Join(bin, "tofu"))).To(Succeed())

		Expect(s.Call("create-binding", site.Instance().Bind("b-1", site.Body(nil)))).To(And(
			HaveField("Code", 0), HaveField("Stdout", `{"credentials":{"greeting":"hello"}}`+"\n"),
			HaveField("Stderr",
				MatchRegexp(`^\[odb-sdk\] handling create-binding\n(time=\S+ level=INFO msg=audit [^\n]*\n){2}$`))))
		again := s.Call("create-binding", site.Instance().Bind("b-1", site.Body(nil)))
		Expect(again).To(And(HaveField("Code", 49), HaveField("Stdout", "")))
		Expect(again.Stderr).To(ContainSubstring("level=INFO"))
		Expect(s.Call("delete-binding", site.Instance().Bind("b-1", object{}))).To(And(HaveField("Code", 0),
			HaveField("Stdout", "")))
		unknown := s.Call("delete-binding", site.Instance().Bind("b-1", object{}))
		Expect(unknown).To(And(HaveField("Code", 41), HaveField("Stdout", "")))
		Expect(unknown.Stderr).To(ContainSubstring("level=INFO"))

		By("with the input of the published interface")
		published := site.Instance().Bind("b-1", object{})
		published["delete_parameters"] = published["request_parameters"]
		delete(published, "request_parameters")
		Expect(s.Call("delete-binding", published).Code).To(Equal(41))
	})

	It("is one of five", func() {
		Expect(s.Run("")).To(And(HaveField("Code", 1), HaveField("Stdout", ""), HaveField("Stderr",
			"usage: service-adapter COMMAND\nthe following commands are supported: create-binding, dashboard-url, "+
				"delete-binding, generate-manifest, generate-plan-schemas\n"+
				"authors and operators have others: see service-adapter --help\n")))
		Expect(s.Run("", "bind")).To(And(HaveField("Code", 1), HaveField("Stdout", ""),
			HaveField("Stderr", HavePrefix("unknown subcommand: bind\nusage:"))))
	})

	It("that panics ends with 1 and logs the location without the value", func() {
		for _, value := range []any{"s3cret", errors.New("s3cret"), nil} {
			var stdout, stderr bytes.Buffer
			code := adapter.Run(context.Background(), adapter.Invocation{
				Args: []string{"service-adapter", "dashboard-url"}, Stdin: strings.NewReader("{}"), Stdout: &stdout,
				Stderr: &stderr,
				Getenv: func(string) (string, bool) { panic(value) },
			})
			Expect(code).To(Equal(1))
			Expect(stdout.String()).To(BeEmpty())
			Expect(stderr.String()).To(MatchRegexp(`^\[odb-sdk\] handling dashboard-url\ntime=\S+ level=ERROR ` +
				`.*internal error at service-adapter/adapter_test\.\S+:\d+ .*this is a bug in the adapter"\n$`))
			Expect(stderr.String()).NotTo(ContainSubstring("s3cret"))
		}
	})

	It("whose result cannot be written fails", func() {
		s.Serve(s.Pak("one", site.Definition{}.String()))
		var stderr bytes.Buffer
		code := adapter.Run(context.Background(), adapter.Invocation{
			Args: []string{
				"service-adapter", "generate-plan-schemas", "--plan-json", site.JSONText(site.Instance().Plan),
			},
			Stdout: closed{}, Stderr: &stderr,
			Getenv: s.Getenv,
		})
		Expect(code).To(Equal(1))
		Expect(stderr.String()).To(ContainSubstring("writing the result"))
	})

	It("names every pak that cannot be loaded", func() {
		s.Serve(filepath.Join(s.Dir, "none"), s.Pak("broken", "version: 1\nname: [x]\n"))
		result := s.Call("generate-manifest", site.Instance().Generate(site.Body(nil)))
		Expect(result).To(And(HaveField("Code", 1), HaveField("Stdout", "")))
		Expect(result.Stderr).To(And(ContainSubstring("loading the paks"), ContainSubstring("none"),
			ContainSubstring("broken/service0.yml:2")))
	})

	DescribeTable("logs lines of the configured level and above",
		func(level string, written bool) {
			s.Serve(s.Pak("one", site.Definition{Bind: "{requires_app_guid: true}"}.String()))
			s.Env["SERVICE_ADAPTER_LOG_LEVEL"] = level
			result := s.Call("create-binding", site.Instance().Bind("b-1", site.Body(nil)))
			Expect(result.Code).To(Equal(42))
			Expect(strings.Contains(result.Stderr, "level=INFO")).To(Equal(written))
		},
		Entry(nil, "debug", true), Entry(nil, "info", true), Entry(nil, "warn", false), Entry(nil, "error", false),
	)

	DescribeTable("reports missing environment variables that the pak requires before it starts OpenTofu",
		func(set string) {
			pak := s.Pak("one", site.Definition{}.String())
			s.Serve(pak)
			s.Write("one/manifest.yml", site.Replaced(site.ReadFile(pak+"/manifest.yml"), "terraform_binaries",
				"required_env_variables: [DB_TOKEN]\nterraform_binaries"))
			switch set {
			case "variable":
				s.Env["DB_TOKEN"] = "s3cret-token"
			case "key":
				s.Env["SERVICE_ADAPTER_CONFIG"] = s.Write("config.yml", "config: {DB_TOKEN: s3cret-token}")
			}
			for command, parameters := range map[string]object{
				"create-binding": site.Instance().Bind("b-1", site.Body(nil)),
				"delete-binding": site.Instance().Bind("b-1", site.Body(nil)),
			} {
				result := s.Call(command, parameters)
				Expect(result).To(And(HaveField("Code", 1), HaveField("Stdout", "")))
				Expect(strings.Contains(result.Stderr,
					"pak one requires DB_TOKEN, which is neither an environment variable nor a key of `config`")).
					To(Equal(set == "nowhere"))
			}
			Expect(s.Call("generate-manifest", site.Instance().Generate(site.Body(nil))).Code).To(Equal(0),
				"which runs no OpenTofu")
		},
		Entry(nil, "nowhere"), Entry(nil, "variable"), Entry(nil, "key"),
	)
})

// closed is a writer that always fails, like a closed pipe.
type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, fmt.Errorf("broken pipe") }
