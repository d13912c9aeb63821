package adapter_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/onsi/gomega"

	"service-adapter/adapter"
	"service-adapter/internal/odb"
	"service-adapter/spec/kit/site"
)

// fuzzSite returns a site with a pak that uses many parts of the input. The pak has no binaries, so OpenTofu is never
// started.
func fuzzSite(f *testing.F) *site.Site {
	gomega.RegisterTestingT(f)
	s := site.New(f.TempDir())
	return s.Serve(s.Pak("one", site.Definition{
		Inputs: "[{field_name: size, type: integer, default: 1, details: x}, {field_name: any, details: x}]",
		Labels: `{size: '${size}', context: '${json.marshal(request.context)}'}`,
		Bosh: `    secrets: [{name: password, length: 12}, {name: key, value: '${any}'}]
    outputs: {vms: '${bosh.host("server")}', size: '${size}'}
    dashboard_url: https://example.com/${request.instance_id}`,
		Bind: `{requires_app_guid: true, user_inputs: [{field_name: any, details: x}],
  computed_inputs: [{name: name, type: string, default: '${manifest.get("/name")}-${request.binding_id}'}]}`,
	}.String()))
}

// FuzzRun feeds standard input to every command. No command may panic, each must end with an exit code of the
// protocol, and standard output must be empty, one line or one document.
func FuzzRun(f *testing.F) {
	s := fuzzSite(f)
	deployed := site.Instance()
	create := deployed.Generate(site.Body(object{"size": 3, "any": []any{"x"}}))
	product := s.Call("generate-manifest", create)
	gomega.Expect(product.Code).To(gomega.Equal(0), product.Stderr)
	gomega.Expect(deployed.Deploy(product.Stdout)).To(gomega.Succeed())
	request := site.Body(object{"any": 1})
	request["app_guid"] = "app"
	for command, parameters := range map[string]object{
		"generate-manifest":     deployed.Generate(site.Body(object{"size": 4})),
		"create-binding":        deployed.Bind("b-1", request),
		"delete-binding":        deployed.Bind("b/../1", request),
		"dashboard-url":         {"instance_id": "inst-1", "plan": deployed.Plan, "manifest": deployed.Manifest},
		"generate-plan-schemas": {"plan": deployed.Plan},
	} {
		input, err := odb.Input(command, parameters)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(command, input)
	}
	f.Add("generate-manifest", `{"generate_manifest":{"service_deployment":null,"plan":{"instance_groups":[]},`+
		`"request_parameters":"{\"parameters\":[]}"}}`)
	f.Add("create-binding", `{"create_binding":{"binding_id":5,"bosh_vms":{},"manifest":"a: &a [*a]",`+
		`"request_parameters":{},"secrets":{"((":"\n"}}}`)
	f.Fuzz(func(t *testing.T, command, stdin string) {
		if !slices.Contains(adapter.Commands(), command) {
			return // another test covers the usage
		}
		result := s.Run(stdin, command)
		if !slices.Contains([]int{0, 1, 10, 41, 42, 49}, result.Code) {
			t.Errorf("exit code %d", result.Code)
		}
		if strings.Contains(result.Stderr, "internal error") {
			t.Errorf("a panic: %s", result.Stderr)
		}
		switch result.Code {
		case 0:
			if result.Stdout != "" && !json.Valid([]byte(result.Stdout)) {
				t.Errorf("no document: %q", result.Stdout)
			}
		case 1:
			if strings.Contains(result.Stdout, "\n") {
				t.Errorf("more than one line: %q", result.Stdout)
			}
		default:
			if result.Stdout != "" {
				t.Errorf("text with exit code %d: %q", result.Code, result.Stdout)
			}
		}
	})
}
