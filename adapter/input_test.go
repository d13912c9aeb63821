package adapter_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing/iotest"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/adapter"
	"service-adapter/spec/kit/site"
)

// endless is a reader that never ends.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

var _ = Describe("the input", func() {
	var s *site.Site

	BeforeEach(func() {
		s = site.New(GinkgoT().TempDir())
		s.Serve(s.Pak("one", site.Definition{
			Labels: "{size: '${size}'}", Inputs: "[{field_name: size, type: integer, default: 1, details: x}]",
			Bosh: "    dashboard_url: https://example.com/${request.instance_id}",
			Bind: "{requires_app_guid: true, user_inputs: []}",
		}.String()))
	})

	DescribeTable("is rejected without showing its content",
		func(stdin, message string) {
			for _, command := range adapter.Commands() {
				result := s.Run(stdin, command)
				Expect(result.Code).To(Equal(1))
				Expect(result.Stdout).To(BeEmpty())
				Expect(result.Stderr).To(ContainSubstring(message), command)
				Expect(result.Stderr).NotTo(ContainSubstring("s3c"))
			}
		},
		Entry("nothing", "", "expecting parameters to be passed via stdin"),
		Entry("not JSON", "s3cret", "not valid JSON at byte 1"),
		Entry("cut JSON", `{"s3cret": "s3`, "not valid JSON at byte 14"),
		Entry("text after it", `{} s3cret`, "not valid JSON at byte 4"),
		Entry("text", `"s3cret"`, "expected a JSON object, as the broker sends it: found: string"),
		Entry("number", `17`, "found: number"),
		Entry("null", "null", "unmarshalling"),
		Entry("empty object", "{}", "unmarshalling"),
		Entry("a field of the command that is not an object",
			`{"generate_manifest": "s3cret", "create_binding": ["s3cret"], "delete_binding": 5,
			"dashboard_url": true, "generate_plan_schemas": "s3cret"}`, "expected a JSON object at"),
		Entry("leaf that is cut JSON", `{"generate_manifest": {"service_deployment": "{\"s3cret"},
			"create_binding": {"bosh_vms": "{\"s3cret"},
			"delete_binding": {"bosh_vms": "{\"s3cret"}, "dashboard_url": {"plan": "{\"s3cret"},
			"generate_plan_schemas": {"plan": "{\"s3cret"}}`, "unmarshalling"),
	)

	DescribeTable("is rejected if it cannot be read",
		func(stdin io.Reader, message string) {
			var stdout, stderr bytes.Buffer
			code := adapter.Run(context.Background(), adapter.Invocation{
				Args: []string{"service-adapter", "generate-manifest"}, Stdin: stdin, Stdout: &stdout, Stderr: &stderr,
				Getenv: s.Getenv,
			})
			Expect(code).To(Equal(1))
			Expect(stdout.String()).To(BeEmpty())
			Expect(stderr.String()).To(ContainSubstring(message))
		},
		Entry("too large", endless{}, "reading standard input: it is larger than 64 MB"),
		Entry("broken", iotest.ErrReader(errors.New("broken pipe")), "reading standard input: broken pipe"),
	)

	It("may have objects where the broker sends texts, nulls, and fields of other versions of the broker", func() {
		parameters := site.Instance().Generate(site.Body(object{"size": 3}))
		expected := s.Call("generate-manifest", parameters)
		Expect(expected.Code).To(Equal(0), expected.Stderr)
		objects := object{
			"previous_plan": nil, "previous_manifest": nil, "previous_secrets": nil,
			"previous_configs": nil, "uaa_client": nil,
		}
		for _, name := range []string{"service_deployment", "plan", "request_parameters"} {
			objects[name] = parameters[name]
		}
		objects["of_a_newer_broker"] = []any{1}
		result := s.Run(
			site.JSONText(object{"generate_manifest": objects, "version": 2, "create_binding": "no object"}),
			"generate-manifest")
		Expect(result).To(Equal(expected))
		Expect(site.Document(result)["labels"]).To(Equal(object{"size": "3"}))
	})

	It("may be arguments; the manifest is then plain text", func() {
		parameters := site.Instance().Generate(site.Body(object{"size": 3}))
		arguments := []string{
			site.JSONText(parameters["service_deployment"]), site.JSONText(parameters["plan"]),
			site.JSONText(parameters["request_parameters"]), "", "null",
		}
		result := s.Run("", append([]string{"generate-manifest"}, arguments...)...)
		Expect(result.Code).To(Equal(0), result.Stderr)
		Expect(result.Stdout).To(Equal(site.Document(s.Call("generate-manifest", parameters))["manifest"]))

		manifest := result.Stdout
		dashboard := s.Run("", "dashboard-url", "inst-1", arguments[1], manifest)
		Expect(dashboard).To(And(HaveField("Code", 0),
			HaveField("Stdout", "{\"dashboard_url\":\"https://example.com/inst-1\"}\n")))
		Expect(s.Run("", "create-binding", "b-1", "{}", manifest, "{}").Code).To(Equal(42), "the request names no app")
		missing := s.Run("", "create-binding", "b-1", "{}")
		Expect(missing).To(And(HaveField("Code", 1), HaveField("Stdout", ""),
			HaveField("Stderr", ContainSubstring("Missing arguments for create-binding. "+
				"Usage: service-adapter create-binding <binding-ID>"))))
	})

	DescribeTable("of generate-plan-schemas may be a flag",
		func(arguments func(plan string) []string) {
			deployed := site.Instance()
			expected := s.Call("generate-plan-schemas", object{"plan": deployed.Plan})
			Expect(expected.Code).To(Equal(0), expected.Stderr)
			Expect(s.Run("", append([]string{"generate-plan-schemas"},
				arguments(site.JSONText(deployed.Plan))...)...)).To(Equal(expected))
		},
		Entry("two dashes", func(plan string) []string { return []string{"--plan-json", plan} }),
		Entry("one dash", func(plan string) []string { return []string{"-plan-json", plan} }),
		Entry("equals sign", func(plan string) []string { return []string{"--plan-json=" + plan} }),
	)

	DescribeTable("of generate-plan-schemas is rejected",
		func(message string, arguments ...string) {
			result := s.Run("", append([]string{"generate-plan-schemas"}, arguments...)...)
			Expect(result).To(And(HaveField("Code", 1), HaveField("Stdout", ""),
				HaveField("Stderr", ContainSubstring(message))))
		},
		Entry("other flag", "flag provided but not defined: -plan", "--plan", "{}"),
		Entry("help, with the usage", "    \tPlan JSON\n", "-h"),
		Entry("no flag", "Missing arguments for generate-plan-schemas", "{}"),
		Entry("empty flag", "Missing arguments for generate-plan-schemas", "--plan-json", ""),
	)

	It("with parameters that are not an object is rejected with a message for the user", func() {
		for command, parameters := range map[string]object{
			"generate-manifest": site.Instance().Generate(site.Body("text")),
			"create-binding":    site.Instance().Bind("b-1", site.Body([]any{1})),
		} {
			result := s.Call(command, parameters)
			Expect(result.Code).To(Equal(1))
			Expect(result.Stdout).To(HavePrefix("parameters must be a JSON object, not a"))
		}
	})
})
