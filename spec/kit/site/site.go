// Package site runs the commands of the adapter in the process of a test: it writes paks, describes an instance as the
// broker does, and returns the output of commands. Its functions fail the current spec on an error.
package site

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"

	"service-adapter/adapter"
	"service-adapter/internal/odb"
)

// object is a JSON object.
type object = map[string]any

// A Site is a directory with paks, and the environment of an adapter that is configured by environment variables
// only.
type Site struct {
	Dir string
	Env map[string]string
}

// New returns a site whose state and cache are below dir. It serves no pak yet.
func New(dir string) *Site {
	s := &Site{Dir: dir, Env: map[string]string{
		"SERVICE_ADAPTER_STATE":            fmt.Sprintf("{config: {dir: %s/state}}", dir),
		"SERVICE_ADAPTER_CACHE_DIR":        dir + "/cache",
		"SERVICE_ADAPTER_SECURE_MANIFESTS": "true",
	}}
	return s
}

// Serve sets the paks of the site to these paths.
func (s *Site) Serve(paks ...string) *Site {
	text, err := json.Marshal(paks)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	s.Env["SERVICE_ADAPTER_PAKS"] = string(text)
	return s
}

// pakManifest is the manifest of a pak without binaries, as a format for its name, platform and service files.
const pakManifest = `packversion: 1
name: %s
version: 1.0.0
platforms: [{os: %s, arch: %s}]
terraform_binaries: [{name: tofu, version: 1.12.6, default: true}]
service_definitions: [%s]
`

// Pak writes a pak with one file for each service definition and returns its path.
func (s *Site) Pak(name string, definitions ...string) string {
	var files []string
	for i, Definition := range definitions {
		file := fmt.Sprintf("service%d.yml", i)
		s.Write(filepath.Join(name, file), Definition)
		files = append(files, file)
	}
	s.Write(filepath.Join(name, "manifest.yml"),
		fmt.Sprintf(pakManifest, name, runtime.GOOS, runtime.GOARCH, strings.Join(files, ", ")))
	return filepath.Join(s.Dir, name)
}

// Write writes a file with a path relative to the site and returns its absolute path.
func (s *Site) Write(name, text string) string {
	path := filepath.Join(s.Dir, name)
	gomega.Expect(os.MkdirAll(filepath.Dir(path), 0o700)).To(gomega.Succeed())
	gomega.Expect(os.WriteFile(path, []byte(text), 0o600)).To(gomega.Succeed())
	return path
}

// Getenv looks up a variable in the environment of the site.
func (s *Site) Getenv(name string) (string, bool) {
	text, ok := s.Env[name]
	return text, ok
}

// An Answer is the outcome of a command.
type Answer struct {
	Code           int
	Stdout, Stderr string
}

// Run executes a command with the text as standard input.
func (s *Site) Run(stdin string, args ...string) Answer {
	var stdout, stderr bytes.Buffer
	code := adapter.Run(context.Background(), adapter.Invocation{
		Args: append([]string{"service-adapter"}, args...), Stdin: strings.NewReader(stdin), Stdout: &stdout,
		Stderr: &stderr, Getenv: s.Getenv,
	})
	return Answer{Code: code, Stdout: stdout.String(), Stderr: stderr.String()}
}

// Call executes a command with its input as the JSON that the broker sends on standard input.
func (s *Site) Call(command string, parameters object) Answer {
	ginkgo.GinkgoHelper()
	input, err := odb.Input(command, parameters)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	result := s.Run(input, command)
	ginkgo.GinkgoWriter.Printf("%s: %+v\n", command, result)
	return result
}

// The ids of the service and plan in the paks of the tests.
const (
	ServiceID = "00000000-0000-4000-8000-000000000001"
	PlanID    = "00000000-0000-4000-8000-000000000011"
)

// A Definition builds a service definition with one plan, from its fields or their defaults. It shows the values of
// inputs as labels of the instance.
type Definition struct {
	Name, ID, PlanID string
	Properties       string // properties of the plan, YAML
	Inputs           string // user_inputs of provision and the keys after it, YAML
	Labels           string // labels of provision.bosh, YAML
	Bosh             string // further lines of provision.bosh, indented by 4
	Bind             string // bind section, YAML
}

// String returns the definition as YAML.
func (d Definition) String() string {
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
`, or(d.Name, "one"), or(d.ID, ServiceID), or(d.PlanID, PlanID), or(d.Properties, "{}"), or(d.Inputs, "[]"),
		or(d.Labels, "{}"), d.Bosh, or(d.Bind, "{}"))
}

// Instance returns an instance of the service of a default definition.
func Instance() *odb.Instance {
	sample := odb.Instance{
		ID: "inst-1", ServiceID: ServiceID, PlanID: PlanID, VMs: map[string][]string{"server": {"10.0.8.5"}},
		Plan: object{
			"properties": object{}, "lifecycle_errands": object{},
			"instance_groups": []any{object{
				"name": "server", "vm_type": "small", "instances": 1, "networks": []string{"default"},
				"azs": []string{"z1"},
			}},
		},
	}
	gomega.Expect(json.Unmarshal([]byte(`{"deployment_name":"service-instance_inst-1",
		"releases":[{"name":"server","version":"1.2.3","jobs":["server"]}],
		"stemcells":[{"stemcell_os":"ubuntu-noble","stemcell_version":"1.1"}]}`),
		&sample.Deployment)).To(gomega.Succeed())
	return &sample
}

// Body returns the body of a request for that service.
func Body(parameters any) object {
	return object{"service_id": ServiceID, "plan_id": PlanID, "context": object{}, "parameters": parameters}
}

// Labels generates the manifest of a new instance and returns the labels in the product. The command must succeed.
func (s *Site) Labels(plan object, request object) object {
	ginkgo.GinkgoHelper()
	deployed := Instance()
	deployed.Plan["properties"] = plan
	result := s.Call("generate-manifest", deployed.Generate(request))
	gomega.Expect(result.Code).To(gomega.Equal(0), result.Stderr)
	labels, _ := Document(result)["labels"].(object)
	return labels
}

// Document decodes standard output, which must be one JSON object.
func Document(result Answer) object {
	ginkgo.GinkgoHelper()
	var decoded object
	gomega.Expect(json.Unmarshal([]byte(result.Stdout), &decoded)).To(gomega.Succeed(), "%+v", result)
	return decoded
}

// ReadFile returns the content of a file.
func ReadFile(path string) string {
	ginkgo.GinkgoHelper()
	text, err := os.ReadFile(path)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	return string(text)
}

// Replaced returns a text in which the first occurrence of old, which it must contain, is replaced.
func Replaced(text, old, replacement string) string {
	ginkgo.GinkgoHelper()
	gomega.Expect(text).To(gomega.ContainSubstring(old))
	return strings.Replace(text, old, replacement, 1)
}

// JSONText returns a value as the broker sends it, as JSON in a text.
func JSONText(leaf any) string {
	ginkgo.GinkgoHelper()
	text, err := json.Marshal(leaf)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	return string(text)
}
