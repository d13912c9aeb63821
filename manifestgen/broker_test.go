package manifestgen_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"
	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak"
	"service-adapter/internal/odb"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
	"service-adapter/internal/vars"
	"service-adapter/manifestgen"
	"service-adapter/schemas"
)

// call holds the parts of a generate-manifest call that differ from one call for the instance to the next.
type call struct {
	Parameters map[string]any `yaml:"parameters"`
	Context    map[string]any `yaml:"context"`
	// Plan is the name of the pak's plan. The empty string selects the current plan of the instance.
	Plan string `yaml:"plan"`
	UAA  map[string]any
	// Upgrade is the call of an upgrade, which has no parameters and no secrets. Check is the check for pending
	// changes, with an empty request.
	Upgrade, Check bool `yaml:"-"`
}

// world is the broker of an operator, with one service instance and the generator under test.
type world struct {
	pak       *brokerpak.Pak
	service   *brokerpak.Service
	generator *manifestgen.Generator
	instance  *odb.Instance
	plan      string
	dir       string
}

// newWorld opens the pak in the directory and returns a world in which the instance of its first service is not
// deployed yet.
func newWorld(dir string) *world {
	GinkgoHelper()
	w := &world{generator: &manifestgen.Generator{
		CheckManifest: schemas.CheckManifest, Logger: slog.New(slog.DiscardHandler),
		Environment: vars.Environment{Config: func(string) (any, bool) { return nil, false }},
	}}
	w.secure(true)
	w.install(dir)
	w.instance = odb.Sample(w.service, &w.service.Plans[0], "one")
	delete(w.instance.Plan["properties"].(map[string]any), "brokerpak")
	w.plan = w.service.Plans[0].Name
	return w
}

// install replaces the pak by the one in the directory.
func (w *world) install(dir string) {
	GinkgoHelper()
	pak, err := brokerpak.Open(dir)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(pak.Close)
	w.pak, w.service, w.dir = pak, pak.Services[0], dir
}

// secure sets whether the broker stores secrets.
func (w *world) secure(on bool) { w.generator.Secure = &on }

// generate generates the manifest from the broker's request, as the adapter does.
func (w *world) generate(c call) (*serviceadapter.MarshalledGenerateManifest, error) {
	GinkgoHelper()
	return w.generator.Generate(context.Background(), w.request(c))
}

// request returns the request that the adapter builds from the call.
func (w *world) request(c call) manifestgen.Request {
	GinkgoHelper()
	if c.Plan == "" {
		c.Plan = w.plan
	}
	plan := *w.service.Plan(c.Plan)
	properties := value.CloneMap(plan.Properties)
	if properties == nil {
		properties = map[string]any{}
	}
	own, _ := value.Normalise(w.instance.Plan["properties"]).(map[string]any)
	maps.Copy(properties, own)
	plan.Properties = properties
	request := manifestgen.Request{
		Pak: w.pak, Service: w.service, Plan: plan, ServiceID: w.service.ID, Deployment: w.instance.Deployment,
		BrokerPlan: brokerPlan(w.instance.Plan), Body: c.body(w), UAAClient: c.UAA,
		PreviousManifest: w.instance.Manifest,
	}
	var err error
	request.Record, err = record.FromManifest(w.instance.Manifest)
	Expect(err).NotTo(HaveOccurred())
	request.Parameters, _ = request.Body["parameters"].(map[string]any)
	if w.instance.Manifest != "" {
		request.PreviousPlan = &request.BrokerPlan
		if !c.Upgrade && *w.generator.Secure {
			request.PreviousSecrets = w.instance.Secrets
		}
	}
	return request
}

// body returns the body of the request that the broker sends for the call.
func (c call) body(w *world) map[string]any {
	switch {
	case c.Check:
		return map[string]any{}
	case c.Upgrade:
		return map[string]any{"context": value.Normalise(c.Context)}
	}
	body := map[string]any{
		"service_id": w.service.ID, "plan_id": w.service.Plan(c.Plan).ID, "context": c.Context,
		"organization_guid": "org", "space_guid": "space",
	}
	if c.Parameters != nil {
		body["parameters"] = c.Parameters
	}
	body, _ = value.Normalise(body).(map[string]any)
	return body
}

// brokerPlan decodes and validates a plan as the SDK does.
func brokerPlan(raw map[string]any) serviceadapter.Plan {
	GinkgoHelper()
	text, err := json.Marshal(raw)
	Expect(err).NotTo(HaveOccurred())
	var plan serviceadapter.Plan
	Expect(json.Unmarshal(text, &plan)).To(Succeed())
	Expect(plan.Validate()).To(Succeed())
	return plan
}

// deploy stores the secrets and the manifest of a result, as the broker does.
func (w *world) deploy(result *serviceadapter.MarshalledGenerateManifest) {
	GinkgoHelper()
	product, err := json.Marshal(result)
	Expect(err).NotTo(HaveOccurred())
	Expect(w.instance.Deploy(string(product))).To(Succeed())
}

// must generates a manifest, which must succeed, and deploys it.
func (w *world) must(c call) *serviceadapter.MarshalledGenerateManifest {
	GinkgoHelper()
	result, err := w.generate(c)
	Expect(err).NotTo(HaveOccurred())
	w.deploy(result)
	if c.Plan != "" {
		w.plan = c.Plan
	}
	return result
}

// updateBlock matches the update block of the deployment. It may depend on whether the instance exists, and the broker
// does not compare it.
var updateBlock = regexp.MustCompile(`(?m)^update:\n(?:  .*\n)*`)

// expectNoPendingChanges runs the broker's check for pending changes. It also expects the same text, except for the
// update block, and no secrets to store.
func (w *world) expectNoPendingChanges() {
	GinkgoHelper()
	result, err := w.generate(call{Check: true})
	Expect(err).NotTo(HaveOccurred())
	Expect(odb.SameManifests(w.instance.Manifest, result.Manifest)).To(BeTrue(), result.Manifest)
	Expect(updateBlock.ReplaceAllString(result.Manifest, "")).
		To(Equal(updateBlock.ReplaceAllString(w.instance.Manifest, "")))
	Expect(result.ODBManagedSecrets).To(BeEmpty())
}

// tree returns the deployed manifest as a tree.
func (w *world) tree() map[string]any {
	GinkgoHelper()
	return decode(w.instance.Manifest)
}

// decode parses a manifest.
func decode(text string) map[string]any {
	GinkgoHelper()
	var raw any
	Expect(yaml.Unmarshal([]byte(text), &raw)).To(Succeed())
	tree, _ := value.Normalise(raw).(map[string]any)
	return tree
}

// recordOf returns the record in a manifest, which must have one.
func recordOf(manifest string) *record.InstanceRecord {
	GinkgoHelper()
	stored, err := record.FromManifest(manifest)
	Expect(err).NotTo(HaveOccurred())
	Expect(stored).NotTo(BeNil())
	return stored
}

// packed writes the files of a pak into a new directory and returns the directory. The pak's manifest is always
// pakManifest, and serviceHead is put in front of the service definition.
func packed(files map[string]string) string {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	all := map[string]string{"manifest.yml": pakManifest, "service.yml": serviceHead + files["service.yml"]}
	for name, text := range files {
		if name != "service.yml" {
			all[name] = text
		}
	}
	for name, text := range all {
		Expect(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700)).To(Succeed())
		Expect(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)).To(Succeed())
	}
	return dir
}

const pakManifest = `packversion: 1
name: cases
version: 1.0.0
platforms:
- os: linux
  arch: amd64
terraform_binaries:
- name: tofu
  version: 1.12.6
service_definitions:
- service.yml
`

const serviceHead = `version: 1
name: box
id: 3f9e4a52-2a55-4d0b-8a3c-5d9a1f0c7e01
description: Boxes
display_name: Box
image_url: https://example.com/icon.png
documentation_url: https://example.com
support_url: https://example.com/support
plan_updateable: true
`

func release(name, version string, jobs ...string) serviceadapter.ServiceRelease {
	return serviceadapter.ServiceRelease{Name: name, Version: version, Jobs: jobs}
}

func stemcell(system, name, version string) serviceadapter.Stemcell {
	return serviceadapter.Stemcell{OS: system, Name: name, Version: version}
}
