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
	"service-adapter/brokerpak/vars"
	"service-adapter/internal/odb"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
	"service-adapter/manifestgen"
	"service-adapter/schemas"
)

// call is what one generate-manifest call has besides the instance.
type call struct {
	Parameters map[string]any `yaml:"parameters"`
	Context    map[string]any `yaml:"context"`
	// Plan is the name of the pak's plan.
	Plan string `yaml:"plan"`
	UAA  map[string]any
	// Upgrade calls have no parameters and no secrets, checks nothing at all.
	Upgrade, Check bool `yaml:"-"`
}

// world is an operator's broker with one service instance.
type world struct {
	pak       *brokerpak.Pak
	service   *brokerpak.Service
	generator *manifestgen.Generator
	instance  *odb.Instance
	plan      string
	dir       string
}

// newWorld opens a pak; its first service is deployed by the generator.
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

// install replaces the pak by another version.
func (w *world) install(dir string) {
	GinkgoHelper()
	pak, err := brokerpak.Open(dir)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(pak.Close)
	w.pak, w.service, w.dir = pak, pak.Services[0], dir
}

func (w *world) secure(on bool) { w.generator.Secure = &on }

// generate makes the manifest as the adapter does, from what the broker sends.
func (w *world) generate(c call) (*serviceadapter.MarshalledGenerateManifest, error) {
	GinkgoHelper()
	return w.generator.Generate(context.Background(), w.request(c))
}

// request is what the adapter makes of a call.
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

func (c call) body(w *world) map[string]any {
	switch {
	case c.Check:
		return map[string]any{}
	case c.Upgrade:
		return map[string]any{"context": value.Normalise(c.Context)}
	}
	body := map[string]any{"service_id": w.service.ID, "context": c.Context, "organization_guid": "org", "space_guid": "space"}
	if c.Parameters != nil {
		body["parameters"] = c.Parameters
	}
	body, _ = value.Normalise(body).(map[string]any)
	return body
}

func brokerPlan(raw map[string]any) serviceadapter.Plan {
	GinkgoHelper()
	text, err := json.Marshal(raw)
	Expect(err).NotTo(HaveOccurred())
	var plan serviceadapter.Plan
	Expect(json.Unmarshal(text, &plan)).To(Succeed())
	Expect(plan.Validate()).To(Succeed())
	return plan
}

// deploy does what the broker does with a result.
func (w *world) deploy(result *serviceadapter.MarshalledGenerateManifest) {
	GinkgoHelper()
	product, err := json.Marshal(result)
	Expect(err).NotTo(HaveOccurred())
	Expect(w.instance.Deploy(string(product))).To(Succeed())
}

// must generates and deploys.
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

// updateBlock is that of the deployment, which may depend on whether the instance exists, and which the broker does not compare.
var updateBlock = regexp.MustCompile(`(?m)^update:\n(?:  .*\n)*`)

// expectNoPendingChanges makes the broker's check; the text must be the same, too, but for the update block.
func (w *world) expectNoPendingChanges() {
	GinkgoHelper()
	result, err := w.generate(call{Check: true})
	Expect(err).NotTo(HaveOccurred())
	Expect(odb.SameManifests(w.instance.Manifest, result.Manifest)).To(BeTrue(), result.Manifest)
	Expect(updateBlock.ReplaceAllString(result.Manifest, "")).To(Equal(updateBlock.ReplaceAllString(w.instance.Manifest, "")))
	Expect(result.ODBManagedSecrets).To(BeEmpty())
}

// tree decodes the deployed manifest.
func (w *world) tree() map[string]any {
	GinkgoHelper()
	return decode(w.instance.Manifest)
}

func decode(text string) map[string]any {
	GinkgoHelper()
	var raw any
	Expect(yaml.Unmarshal([]byte(text), &raw)).To(Succeed())
	tree, _ := value.Normalise(raw).(map[string]any)
	return tree
}

func recordOf(manifest string) *record.Record {
	GinkgoHelper()
	found, err := record.FromManifest(manifest)
	Expect(err).NotTo(HaveOccurred())
	Expect(found).NotTo(BeNil())
	return found
}

// packed writes the files of a pak into a directory. The manifest and the head of the definition are always the same.
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
