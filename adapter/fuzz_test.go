package adapter_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onsi/gomega"

	"service-adapter/adapter"
	"service-adapter/internal/odb"
)

// fuzzSite serves a pak that uses much of what the broker sends. It has no binaries, so no OpenTofu is started.
func fuzzSite(f *testing.F) *site {
	gomega.RegisterTestingT(f)
	s := newSite(f.TempDir())
	return s.serve(s.pak("one", definition{
		inputs: "[{field_name: size, type: integer, default: 1, details: x}, {field_name: any, details: x}]",
		labels: `{size: '${size}', context: '${json.marshal(request.context)}'}`,
		bosh: `    secrets: [{name: password, length: 12}, {name: key, value: '${any}'}]
    outputs: {vms: '${bosh.host("server")}', size: '${size}'}
    dashboard_url: https://example.com/${request.instance_id}`,
		bind: `{requires_app_guid: true, user_inputs: [{field_name: any, details: x}],
  computed_inputs: [{name: name, type: string, default: '${manifest.get("/name")}-${request.binding_id}'}]}`,
	}.String()))
}

// FuzzRun feeds standard input to every command: none panics, each ends with a code of the protocol, and standard output is
// empty, one line or one document.
func FuzzRun(f *testing.F) {
	s := fuzzSite(f)
	deployed := instance()
	create := deployed.Generate(body(object{"size": 3, "any": []any{"x"}}))
	product := s.call("generate-manifest", create)
	gomega.Expect(product.Code).To(gomega.Equal(0), product.Stderr)
	gomega.Expect(deployed.Deploy(product.Stdout)).To(gomega.Succeed())
	request := body(object{"any": 1})
	request["app_guid"] = "app"
	for command, parameters := range map[string]object{
		"generate-manifest":     deployed.Generate(body(object{"size": 4})),
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
	f.Add("generate-manifest", `{"generate_manifest":{"service_deployment":null,"plan":{"instance_groups":[]},"request_parameters":"{\"parameters\":[]}"}}`)
	f.Add("create-binding", `{"create_binding":{"binding_id":5,"bosh_vms":{},"manifest":"a: &a [*a]","request_parameters":{},"secrets":{"((":"\n"}}}`)
	f.Fuzz(func(t *testing.T, command, stdin string) {
		if !slices.Contains(adapter.Commands(), command) {
			return // the usage has a test
		}
		result := s.run(stdin, command)
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

// FuzzLoadConfig feeds files and one variable: no panic, and a configuration that is accepted can be used.
func FuzzLoadConfig(f *testing.F) {
	file := filepath.Join(f.TempDir(), "config.yml")
	for _, text := range []string{
		"paks: [/pak]\nservice: x\nsecure_manifests: true\nstate: {type: local, config: {dir: /s}}\nbudget: 1m\n",
		"paks: [/pak]\nservices: {x: {plans: [{id: a}], bind_defaults: {a: 2026-01-01}}}\nconfig: {a.b: &x [1], c: *x}\n",
		"paks: &a [*a]\n", "a: {b: c}\n---\n", "paks: !!binary aGk=\n", "<<: {paks: [x]}\n", "? [a]\n: b\n",
	} {
		f.Add(text, "")
		f.Add("paks: [/pak]", text)
	}
	f.Fuzz(func(t *testing.T, text, services string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		config, err := adapter.LoadConfig(func(name string) (string, bool) {
			switch name {
			case adapter.ConfigVariable:
				return file, true
			case "SERVICE_ADAPTER_SERVICES":
				return services, true
			default:
				return "", false
			}
		})
		if err == nil && (len(config.Paks) == 0 || config.Budget <= 0 || config.State.Type == "" || config.CacheDir == "") {
			t.Errorf("accepted %+v", config)
		}
	})
}
