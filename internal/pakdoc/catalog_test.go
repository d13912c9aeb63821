package pakdoc_test

import (
	"bytes"
	"context"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"gopkg.in/yaml.v3"

	"github.com/pivotal-cf/on-demand-services-sdk/bosh"
	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/adapter"
	"service-adapter/brokerpak"
	"service-adapter/internal/fault"
	"service-adapter/internal/odb"
	"service-adapter/internal/pakdoc"
)

// catalogs are the parts of the broker's properties that the tests look at.
type catalogs struct {
	EnablePlanSchemas bool                             `yaml:"enable_plan_schemas"`
	SecureManifests   bool                             `yaml:"enable_secure_manifests"`
	Deployment        serviceadapter.ServiceDeployment `yaml:"service_deployment"`
	Catalog           struct {
		ID               string           `yaml:"id"`
		GlobalProperties map[string]any   `yaml:"global_properties"`
		Plans            []map[string]any `yaml:"plans"`
	} `yaml:"service_catalog"`
}

// filled decodes a catalog as an operator would fill it in.
func filled(text string) catalogs {
	GinkgoHelper()
	var decoded catalogs
	text = regexp.MustCompile(`REPLACE_ME_\w+`).ReplaceAllString(text, "filled")
	Expect(yaml.Unmarshal([]byte(text), &decoded)).To(Succeed())
	return decoded
}

var _ = Describe("the catalog", func() {
	DescribeTable("is what it was", func(path, service, name string) {
		text, err := pakdoc.Catalog(openPak(path).Service(service))
		Expect(err).NotTo(HaveOccurred())
		expectGolden(name+".catalog.yml", text)
	},
		Entry("for the pak with everything", everything, "everything.db", "everything"),
		Entry("for a service without plans", everything, "minimal", "minimal"),
		Entry("for redis", example("redis"), "redis", "redis"),
		Entry("for the specification's example", example("example-email"), "example-service", "example-email"),
	)

	DescribeTable("with errands is what it was", func(path, service, name string) {
		text, err := pakdoc.CatalogWithErrands(openPak(path).Service(service))
		Expect(err).NotTo(HaveOccurred())
		expectGolden(name+".errands.yml", text)
	},
		Entry("for the pak with everything", everything, "everything.db", "everything"),
		Entry("for a service that OpenTofu alone makes", example("postgresql-database"), "postgresql-database", "postgresql-database"),
	)

	// What the template of the broker's job demands.
	DescribeTable("has what the broker requires", func(path, service string, write func(*brokerpak.Service) (string, error)) {
		text, err := write(openPak(path).Service(service))
		Expect(err).NotTo(HaveOccurred())
		var root map[string]map[string]any
		_ = yaml.Unmarshal([]byte(text), &root) // the switches are no maps
		for _, key := range []string{"id", "service_name", "service_description", "bindable", "plan_updatable", "plans"} {
			Expect(root["service_catalog"]).To(HaveKey(key))
		}
		for _, plan := range filled(text).Catalog.Plans {
			for _, key := range []string{"name", "plan_id", "description", "instance_groups"} {
				Expect(plan[key]).NotTo(BeEmpty(), key)
			}
			for _, group := range plan["instance_groups"].([]any) {
				for _, key := range []string{"name", "vm_type", "instances", "networks", "azs"} {
					Expect(group).To(HaveKeyWithValue(key, Not(BeZero())))
				}
			}
		}
	},
		Entry("of redis", example("redis"), "redis", pakdoc.Catalog),
		Entry("of a service with everything", everything, "everything.db", pakdoc.Catalog),
		Entry("of a service without plans", everything, "minimal", pakdoc.Catalog),
		Entry("of a service with everything and errands", everything, "everything.db", pakdoc.CatalogWithErrands),
		Entry("of a service without plans, with errands", everything, "minimal", pakdoc.CatalogWithErrands),
		Entry("of a service with errands alone", example("postgresql-database"), "postgresql-database", pakdoc.CatalogWithErrands),
	)

	It("gives plans that the adapter deploys", func(ctx context.Context) {
		service := openPak(example("redis")).Services[0]
		text, err := pakdoc.Catalog(service)
		Expect(err).NotTo(HaveOccurred())
		decoded := filled(text)
		Expect(decoded.EnablePlanSchemas).To(BeTrue())
		Expect(decoded.Catalog.ID).To(Equal(service.ID))
		Expect(decoded.Catalog.Plans).To(HaveLen(2))
		for i, plan := range decoded.Catalog.Plans {
			instance := odb.Sample(service, &service.Plans[i], "one")
			instance.Plan = map[string]any{
				"properties": plan["properties"], "instance_groups": plan["instance_groups"], "lifecycle_errands": map[string]any{},
			}
			manifest := generated(ctx, instance, map[string]string{"SERVICE_ADAPTER_PAKS": "[" + example("redis") + "]"})
			Expect(manifest).To(ContainSubstring("vm_type: filled"))
			Expect(strings.Contains(manifest, "tls: true")).To(Equal(plan["name"] == "durable"), "the plan's own property")
		}
	})

	It("gives plans and a release with which errands apply and destroy", func(ctx context.Context) {
		service := openPak(example("postgresql-database")).Services[0]
		text, err := pakdoc.CatalogWithErrands(service)
		Expect(err).NotTo(HaveOccurred())
		decoded := filled(text)
		Expect(decoded.SecureManifests).To(BeTrue())
		for i, plan := range decoded.Catalog.Plans {
			instance := odb.Sample(service, &service.Plans[i], "one")
			instance.Deployment.Releases = decoded.Deployment.Releases
			part := planned(plan)
			instance.Plan = map[string]any{
				"properties": part.Properties, "instance_groups": part.InstanceGroups, "lifecycle_errands": part.LifecycleErrands,
			}
			Expect(errandJobs(generated(ctx, instance, map[string]string{
				"SERVICE_ADAPTER_PAKS": "[" + example("postgresql-database") + "]", "PGACCESS_USER": "admin", "PGACCESS_PASSWORD": "secret",
				"SERVICE_ADAPTER_ERRAND_PROPERTIES": "{paks: [/pak], state: {type: pg}}",
			}))).To(Equal(map[string]string{"apply-instance": "service-adapter", "destroy-instance": "service-adapter"}))
		}
	})

	It("names the release as it is made", func() {
		text, err := os.ReadFile(filepath.Join("..", "..", "config", "final.yml"))
		Expect(err).NotTo(HaveOccurred())
		var release struct{ Name string }
		Expect(yaml.Unmarshal(text, &release)).To(Succeed())
		catalog, err := pakdoc.CatalogWithErrands(openPak(everything).Service("minimal"))
		Expect(err).NotTo(HaveOccurred())
		Expect(filled(catalog).Deployment.Releases).To(HaveExactElements(HaveField("Name", release.Name)))
	})

	It("has a group for the errands that the service does not know", func() {
		service := openPak(everything).Service("minimal")
		service.Provision.Bosh.Manifest.Text = "instance_groups: [{name: errands}, {name: adapter-errands}]"
		text, err := pakdoc.CatalogWithErrands(service)
		Expect(err).NotTo(HaveOccurred())
		var names []string
		for _, group := range planned(filled(text).Catalog.Plans[0]).InstanceGroups {
			names = append(names, group.Name)
		}
		Expect(names).To(Equal([]string{"errands", "adapter-errands", "adapter-adapter-errands"}))
	})

	It("gives that group no name of one that the definition sizes", func() {
		service := openPak(everything).Service("minimal")
		service.Provision.Bosh.Manifest.Text = "instance_groups: [{name: server}, {name: errands}]"
		service.Provision.Bosh.Groups = []brokerpak.GroupSize{{Name: "errands", Like: "server"}}
		text, err := pakdoc.CatalogWithErrands(service)
		Expect(err).NotTo(HaveOccurred())
		Expect(planned(filled(text).Catalog.Plans[0]).InstanceGroups).To(HaveExactElements(HaveField("Name", "server"), HaveField("Name", "adapter-errands")))
	})

	It("has no errand that applies the template where the manifest needs an output", func() {
		service := openPak(everything).Service("minimal")
		service.Provision.Templates = map[string]string{"outputs.tf": `output "host" { value = "x" }`}
		service.Provision.Bosh.Manifest.Text = "instance_groups: [{name: server, env: {host: ((host))}}]"
		text, err := pakdoc.CatalogWithErrands(service)
		Expect(err).NotTo(HaveOccurred())
		Expect(text).To(MatchRegexp(`output \(\(host\)\) of the template \(\S*minimal\.yml:\d+:\d+\)`))
		decoded := filled(text)
		Expect(decoded.SecureManifests).To(BeFalse(), "the manifest gets no secret inputs")
		Expect(decoded.Deployment.Releases).To(HaveExactElements(HaveField("Jobs", []string{"destroy-instance"})))
		Expect(planned(decoded.Catalog.Plans[0]).LifecycleErrands).To(Equal(serviceadapter.LifecycleErrands{
			PreDelete: []serviceadapter.Errand{{Name: "destroy-instance"}},
		}))
	})

	DescribeTable("with errands is refused", func(change func(*brokerpak.Service), text string) {
		service := openPak(everything).Service("minimal")
		change(service)
		_, err := pakdoc.CatalogWithErrands(service)
		var user *fault.UserError
		Expect(err).To(BeAssignableToTypeOf(user))
		Expect(err).To(MatchError(ContainSubstring(text)))
	},
		Entry("for a service without a provision template", func(service *brokerpak.Service) { service.Provision.Templates = nil },
			`service "minimal" has no provision template`),
		Entry("for a service with a job of that name", func(service *brokerpak.Service) {
			service.Provision.Bosh.Manifest.Text = "instance_groups: [{name: server, jobs: [{name: destroy-instance}]}]"
		}, `a job "destroy-instance" of its own`),
		Entry("for a service with a group of that name", func(service *brokerpak.Service) {
			service.Provision.Bosh.Manifest.Text = "instance_groups: [{name: apply-instance}]"
		}, `an instance group or a job "apply-instance"`),
	)

	It("is refused for a service that the broker cannot deploy", func() {
		_, err := pakdoc.Catalog(&brokerpak.Service{Name: "cloud"})
		var user *fault.UserError
		Expect(err).To(BeAssignableToTypeOf(user))
		Expect(err).To(MatchError(ContainSubstring(`service "cloud" has neither a provision.bosh section nor a provision template`)))
	})
})

// planned decodes a plan of a catalog as the broker does, which refuses nothing else that is in it.
func planned(plan map[string]any) serviceadapter.Plan {
	GinkgoHelper()
	part := map[string]any{}
	for _, key := range []string{"properties", "lifecycle_errands", "instance_groups"} {
		part[key] = plan[key]
	}
	text, err := yaml.Marshal(part)
	Expect(err).NotTo(HaveOccurred())
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	var decoded serviceadapter.Plan
	Expect(decoder.Decode(&decoded)).To(Succeed())
	return decoded
}

// generated is the manifest that the adapter makes of an instance, with this configuration.
func generated(ctx context.Context, instance *odb.Instance, configuration map[string]string) string {
	GinkgoHelper()
	input, err := odb.Input("generate-manifest", instance.Generate(map[string]any{}))
	Expect(err).NotTo(HaveOccurred())
	environment := map[string]string{"SERVICE_ADAPTER_SECURE_MANIFESTS": "true", "SERVICE_ADAPTER_CACHE_DIR": GinkgoT().TempDir()}
	maps.Copy(environment, configuration)
	var stdout, stderr bytes.Buffer
	exit := adapter.Run(ctx, adapter.Invocation{
		Args: []string{"service-adapter", "generate-manifest"}, Stdin: strings.NewReader(input), Stdout: &stdout, Stderr: &stderr,
		Getenv: func(name string) (string, bool) { text, ok := environment[name]; return text, ok },
	})
	Expect(exit).To(Equal(0), stdout.String()+stderr.String())
	Expect(instance.Deploy(stdout.String())).To(Succeed())
	return instance.Manifest
}

// errandJobs are the jobs of a manifest that has one group, for errands: name → release.
func errandJobs(manifest string) map[string]string {
	GinkgoHelper()
	var decoded bosh.BoshManifest
	Expect(yaml.Unmarshal([]byte(manifest), &decoded)).To(Succeed())
	Expect(decoded.InstanceGroups).To(HaveExactElements(HaveField("Lifecycle", "errand")))
	jobs := map[string]string{}
	for _, job := range decoded.InstanceGroups[0].Jobs {
		jobs[job.Name] = job.Release
	}
	return jobs
}
