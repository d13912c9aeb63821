package adapter_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/adapter"
	"service-adapter/internal/odb"
)

func TestAdapter(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "adapter")
}

type object = map[string]any

// site is a directory with paks, and the environment of an adapter that is configured by variables alone.
type site struct {
	dir string
	env map[string]string
}

func newSite(dir string) *site {
	s := &site{dir: dir, env: map[string]string{
		"SERVICE_ADAPTER_STATE":            fmt.Sprintf("{config: {dir: %s/state}}", dir),
		"SERVICE_ADAPTER_CACHE_DIR":        dir + "/cache",
		"SERVICE_ADAPTER_SECURE_MANIFESTS": "true",
	}}
	return s
}

// serve makes the adapter serve these paks.
func (s *site) serve(paks ...string) *site {
	text, err := json.Marshal(paks)
	Expect(err).NotTo(HaveOccurred())
	s.env["SERVICE_ADAPTER_PAKS"] = string(text)
	return s
}

// pakManifest is the manifest of a pak without binaries.
const pakManifest = `packversion: 1
name: %s
version: 1.0.0
platforms: [{os: %s, arch: %s}]
terraform_binaries: [{name: tofu, version: 1.12.6, default: true}]
service_definitions: [%s]
`

// pak writes a pak of services, file name → definition, and returns its path.
func (s *site) pak(name string, definitions ...string) string {
	var files []string
	for i, definition := range definitions {
		file := fmt.Sprintf("service%d.yml", i)
		s.write(filepath.Join(name, file), definition)
		files = append(files, file)
	}
	s.write(filepath.Join(name, "manifest.yml"), fmt.Sprintf(pakManifest, name, runtime.GOOS, runtime.GOARCH, strings.Join(files, ", ")))
	return filepath.Join(s.dir, name)
}

func (s *site) write(name, text string) string {
	path := filepath.Join(s.dir, name)
	Expect(os.MkdirAll(filepath.Dir(path), 0o700)).To(Succeed())
	Expect(os.WriteFile(path, []byte(text), 0o600)).To(Succeed())
	return path
}

func (s *site) getenv(name string) (string, bool) {
	text, ok := s.env[name]
	return text, ok
}

// answer is the outcome of a command.
type answer struct {
	Code           int
	Stdout, Stderr string
}

func (s *site) run(stdin string, args ...string) answer {
	var stdout, stderr bytes.Buffer
	code := adapter.Run(context.Background(), adapter.Invocation{
		Args: append([]string{"service-adapter"}, args...), Stdin: strings.NewReader(stdin), Stdout: &stdout, Stderr: &stderr, Getenv: s.getenv,
	})
	return answer{Code: code, Stdout: stdout.String(), Stderr: stderr.String()}
}

// call runs a command with the broker's JSON.
func (s *site) call(command string, parameters object) answer {
	GinkgoHelper()
	input, err := odb.Input(command, parameters)
	Expect(err).NotTo(HaveOccurred())
	result := s.run(input, command)
	GinkgoWriter.Printf("%s: %+v\n", command, result)
	return result
}

// The ids that service and plan have in the paks of the tests.
const (
	serviceID = "00000000-0000-4000-8000-000000000001"
	planID    = "00000000-0000-4000-8000-000000000011"
)

// definition is a service with one plan. It shows values as labels of the instance. lines go into provision.bosh, further keys of
// the service follow.
type definition struct {
	name, id, planID string
	properties       string // of the plan, YAML
	inputs           string // provision, from user_inputs on
	labels           string // YAML
	bosh             string // further lines of provision.bosh, indented by 4
	bind             string // the section, YAML
}

func (d definition) String() string {
	or := func(text, otherwise string) string {
		if text == "" {
			return otherwise
		}
		return text
	}
	return fmt.Sprintf(`version: 1
name: %s
id: %s
description: A service
display_name: Service
image_url: https://example.com/x.png
documentation_url: https://example.com
support_url: https://example.com
plan_updateable: true
plans:
- {name: small, id: %s, description: Small, display_name: Small, properties: %s}
provision:
  user_inputs: %s
  bosh:
    manifest:
      stemcells: [{alias: default}]
      instance_groups: [{name: server, jobs: [{name: server}]}]
    labels: %s
%s
bind: %s
`, or(d.name, "one"), or(d.id, serviceID), or(d.planID, planID), or(d.properties, "{}"), or(d.inputs, "[]"), or(d.labels, "{}"),
		d.bosh, or(d.bind, "{}"))
}

// instance is an instance of the service that definition describes.
func instance() *odb.Instance {
	sample := odb.Instance{
		ID: "inst-1", ServiceID: serviceID, PlanID: planID, VMs: map[string][]string{"server": {"10.0.8.5"}},
		Plan: object{
			"properties": object{}, "lifecycle_errands": object{},
			"instance_groups": []any{object{
				"name": "server", "vm_type": "small", "instances": 1, "networks": []string{"default"}, "azs": []string{"z1"},
			}},
		},
	}
	Expect(json.Unmarshal([]byte(`{"deployment_name":"service-instance_inst-1",
		"releases":[{"name":"server","version":"1.2.3","jobs":["server"]}],
		"stemcells":[{"stemcell_os":"ubuntu-jammy","stemcell_version":"1.1"}]}`), &sample.Deployment)).To(Succeed())
	return &sample
}

// body is a request for that service.
func body(parameters any) object {
	return object{"service_id": serviceID, "plan_id": planID, "context": object{}, "parameters": parameters}
}

// labels runs generate-manifest of a new instance and returns the labels of its product.
func (s *site) labels(plan object, request object) object {
	GinkgoHelper()
	deployed := instance()
	deployed.Plan["properties"] = plan
	result := s.call("generate-manifest", deployed.Generate(request))
	Expect(result.Code).To(Equal(0), result.Stderr)
	return document(result)["labels"].(object)
}

// document decodes standard output, which must be one JSON document.
func document(result answer) object {
	GinkgoHelper()
	var decoded object
	Expect(json.Unmarshal([]byte(result.Stdout), &decoded)).To(Succeed(), "%+v", result)
	return decoded
}

func readFile(path string) string {
	GinkgoHelper()
	text, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}
