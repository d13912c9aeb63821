package parity_test

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"
	"gopkg.in/yaml.v3"

	"service-adapter/internal/odb"
	"service-adapter/spec/kit"
	binary "service-adapter/spec/kit/broker"
)

// These types have short names, because all cases use them.
type (
	object = map[string]any
	answer = binary.Answer
)

// A broker plays ODB with one instance of a pak.
type broker struct {
	*odb.Instance
	dir    string
	config object
	env    []string
	// previousPlan is the plan of the deployed instance. It is nil if the plan has not changed.
	previousPlan object
	uaa          any
	// noSecrets makes the broker send no secrets, as for an upgrade or without CredHub.
	noSecrets bool
}

// newBroker installs a pak for a broker whose instance has not been deployed: "redis", the pak of this directory, or
// the example pak with the name.
func newBroker(name string) *broker {
	GinkgoHelper()
	dir, err := os.MkdirTemp("", "par-") // short, because OpenTofu creates sockets below it
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(os.RemoveAll, dir)
	pak := filepath.Join(dir, "pak")
	source := kit.Path("examples", name)
	if name == "redis" {
		source = "pak"
	}
	Expect(os.CopyFS(pak, os.DirFS(source))).To(Succeed())
	bin := filepath.Join(pak, "bin", runtime.GOOS, runtime.GOARCH, kit.Newest)
	Expect(os.MkdirAll(bin, 0o755)).To(Succeed())
	Expect(os.Symlink(kit.OpenTofuPath(kit.Newest), filepath.Join(bin, "tofu"))).To(Succeed())
	b := &broker{dir: dir, Instance: &odb.Instance{ID: "some-instance-id"}, uaa: "null"}
	b.config = object{
		"paks": []string{pak}, "secure_manifests": true, "cache_dir": filepath.Join(dir, "cache"),
		"state": object{"config": object{"dir": filepath.Join(dir, "state")}},
	}
	return b
}

// with replaces keys of the adapter's configuration.
func (b *broker) with(keys object) { maps.Copy(b.config, keys) }

// call runs a command of the adapter with the parameters of a request, and returns the answer.
func (b *broker) call(ctx context.Context, command string, parameters object) answer {
	GinkgoHelper()
	text, err := json.Marshal(b.config) // JSON is valid YAML
	Expect(err).NotTo(HaveOccurred())
	file := filepath.Join(b.dir, "service-adapter.yml")
	Expect(os.WriteFile(file, text, 0o600)).To(Succeed())
	adapter := binary.Adapter{
		Path: adapterBinary, Dir: b.dir,
		Env: append([]string{"SERVICE_ADAPTER_CONFIG=" + file, "TMPDIR=" + b.dir}, b.env...),
	}
	got, err := adapter.Call(ctx, command, parameters)
	Expect(err).NotTo(HaveOccurred())
	GinkgoWriter.Printf("%s: exit %d\nstdout: %.4000s\nstderr: %.2000s\n", command, got.Exit, got.Stdout, got.Stderr)
	return got
}

// body returns the body of a request that creates or updates the instance.
func (b *broker) body(parameters object) object {
	return object{
		"context": object{"platform": "cloudfoundry"}, "service_id": b.ServiceID, "plan_id": b.PlanID,
		"parameters": parameters,
	}
}

// ask runs generate-manifest with the body of a request and returns the answer.
func (b *broker) ask(ctx context.Context, body object) answer {
	GinkgoHelper()
	parameters := b.Generate(body)
	parameters["uaa_client"] = b.uaa
	if b.previousPlan != nil {
		parameters["previous_plan"] = b.previousPlan
	}
	if b.noSecrets {
		parameters["previous_secrets"] = "null"
	}
	return b.call(ctx, "generate-manifest", parameters)
}

// A product is the product of generate-manifest.
type product struct {
	text    string
	tree    object
	Secrets object            `json:"secrets"`
	Configs map[string]string `json:"configs"`
}

// generate runs generate-manifest, which must succeed, and returns the product. It deploys nothing.
func (b *broker) generate(ctx context.Context, parameters object) product {
	GinkgoHelper()
	return productOf(b.ask(ctx, b.body(parameters)))
}

// deploy does the same as generate, and deploys the result.
func (b *broker) deploy(ctx context.Context, parameters object) product {
	GinkgoHelper()
	got := b.ask(ctx, b.body(parameters))
	decoded := productOf(got)
	Expect(b.Deploy(got.Stdout)).To(Succeed())
	return decoded
}

// productOf decodes the answer to generate-manifest, which must have succeeded.
func productOf(got answer) product {
	GinkgoHelper()
	Expect(got.Exit).To(Equal(0), got.Stderr)
	var decoded struct {
		product
		Manifest string `json:"manifest"`
	}
	Expect(json.Unmarshal([]byte(got.Stdout), &decoded)).To(Succeed())
	decoded.text, decoded.tree = decoded.Manifest, decode(decoded.Manifest)
	return decoded.product
}

// decode decodes the YAML of a manifest.
func decode(text string) object {
	GinkgoHelper()
	var tree object
	Expect(yaml.Unmarshal([]byte(text), &tree)).To(Succeed())
	return tree
}

// expectNoPendingChanges asserts that the broker's check for pending changes finds none. The broker rejects every
// update of an instance with pending changes.
func (b *broker) expectNoPendingChanges(ctx context.Context) {
	GinkgoHelper()
	decoded := productOf(b.ask(ctx, object{}))
	Expect(odb.SameManifests(b.Manifest, decoded.text)).To(BeTrue(),
		"deployed:\n%s\nnow:\n%s", b.Manifest, decoded.text)
}

// expectPendingChanges asserts that the broker's check finds pending changes.
func (b *broker) expectPendingChanges(ctx context.Context) {
	GinkgoHelper()
	Expect(odb.SameManifests(b.Manifest, productOf(b.ask(ctx, object{})).text)).To(BeFalse())
}

// group returns an instance group of a manifest by its index.
func (p product) group(index int) object { return p.tree["instance_groups"].([]any)[index].(object) }

// groups returns the names of the instance groups, each followed by the names of its jobs.
func (p product) groups() []string {
	var names []string
	for _, item := range p.tree["instance_groups"].([]any) {
		group := item.(object)
		name := group["name"].(string) + ":"
		for _, job := range group["jobs"].([]any) {
			name += " " + job.(object)["name"].(string)
		}
		names = append(names, name)
	}
	return names
}

// job returns the properties of the first job of the first instance group.
func (p product) job() object {
	return p.group(0)["jobs"].([]any)[0].(object)["properties"].(object)
}

// planGroup returns an instance group of a plan.
func planGroup(name string, instances int) object {
	return object{
		"name": name, "vm_type": "small", "instances": instances, "networks": []string{"net"},
		"azs": []string{"az"},
	}
}

// planGroups returns the instance groups of the plan.
func (b *broker) planGroups() []any { return b.Plan["instance_groups"].([]any) }

// properties returns the properties of the plan.
func (b *broker) properties() object { return b.Plan["properties"].(object) }

// release returns a service release with jobs.
func release(name, version string, jobs ...string) serviceadapter.ServiceRelease {
	return serviceadapter.ServiceRelease{Name: name, Version: version, Jobs: jobs}
}

// unremarkable is the standard error of a command without messages.
const unremarkable = "[odb-sdk] handling generate-manifest\n"

// expectRefused asserts that a command failed with these texts for the operator and without a message for the user.
func expectRefused(got answer, texts ...string) {
	GinkgoHelper()
	Expect(got.Exit).To(Equal(1))
	Expect(got.Stdout).To(BeEmpty())
	for _, text := range texts {
		Expect(strings.ReplaceAll(got.Stderr, `\"`, `"`)).To(ContainSubstring(text))
	}
}

// contactOperator begins the messages that users receive for problems that only the operator can correct.
const contactOperator = "Contact your operator, service configuration issue occurred: "

// expectTold asserts that a command failed with these texts for the user.
func expectTold(got answer, texts ...string) {
	GinkgoHelper()
	Expect(got.Exit).To(Equal(1))
	for _, text := range texts {
		Expect(got.Stdout).To(ContainSubstring(text))
	}
}

// bind runs create-binding and returns the answer.
func (b *broker) bind(ctx context.Context, id string, body object) answer {
	GinkgoHelper()
	return b.call(ctx, "create-binding", b.bindParameters(id, body))
}

// unbind runs delete-binding and returns the answer.
func (b *broker) unbind(ctx context.Context, id string) answer {
	GinkgoHelper()
	return b.call(ctx, "delete-binding", b.bindParameters(id, object{"service_id": b.ServiceID, "plan_id": b.PlanID}))
}

// bindParameters returns the parameters of create-binding and delete-binding. Keys of the body replace the defaults.
func (b *broker) bindParameters(id string, body object) object {
	all := object{
		"app_guid": "app", "bind_resource": object{"app_guid": "app"}, "context": object{"platform": "cloudfoundry"},
		"service_id": b.ServiceID, "plan_id": b.PlanID,
	}
	maps.Copy(all, body)
	parameters := b.Bind(id, all)
	if b.noSecrets {
		parameters["secrets"] = "null"
	}
	return parameters
}

// credentials returns the credentials in the answer to create-binding, which must have succeeded.
func credentials(got answer) object {
	GinkgoHelper()
	Expect(got.Exit).To(Equal(0), got.Stderr)
	var decoded struct{ Credentials object }
	Expect(json.Unmarshal([]byte(got.Stdout), &decoded)).To(Succeed())
	return decoded.Credentials
}

// fixture returns the content of a file in testdata.
func fixture(name string) string {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}
