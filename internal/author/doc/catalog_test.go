package doc_test

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
	"service-adapter/internal/author/doc"
	"service-adapter/internal/author/release"
	"service-adapter/internal/fault"
	"service-adapter/internal/odb"
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

// manifestAndService returns the arguments of doc.Catalog for a service of a pak.
func manifestAndService(path, service string) (*brokerpak.Manifest, *brokerpak.Service) {
	GinkgoHelper()
	pak := openPak(path)
	return &pak.Manifest, pak.Service(service)
}

var _ = Describe("the catalog", func() {
	DescribeTable("equals its golden file", func(path, service, name string) {
		text, err := doc.Catalog(manifestAndService(path, service))
		Expect(err).NotTo(HaveOccurred())
		expectGolden(name+".catalog.yml", text)
	},
		Entry("for the pak with everything", everything, "everything.db", "everything"),
		Entry("for a service without plans", everything, "minimal", "minimal"),
		Entry("for redis", parityPak(), "redis", "redis"),
		Entry("for the specification's example", example("example-email"), "example-service", "example-email"),
	)

	DescribeTable("with errands equals its golden file", func(path, service, name string) {
		text, err := doc.CatalogWithErrands(manifestAndService(path, service))
		Expect(err).NotTo(HaveOccurred())
		expectGolden(name+".errands.yml", text)
	},
		Entry("for the pak with everything", everything, "everything.db", "everything"),
		Entry("for a service that consists of an OpenTofu template only",
			example("postgresql-database"), "postgresql-database",
			"postgresql-database"),
	)

	// What the template of the broker's job demands.
	DescribeTable("has the keys that the broker requires",
		func(
			path, service string,
			write func(*brokerpak.Manifest, *brokerpak.Service, ...*release.Release) (string, error),
		) {
			manifest, chosen := manifestAndService(path, service)
			text, err := write(manifest, chosen)
			Expect(err).NotTo(HaveOccurred())
			var root map[string]map[string]any
			_ = yaml.Unmarshal([]byte(text), &root) // the switches are no maps
			for _, key := range []string{
				"id", "service_name", "service_description", "bindable", "plan_updatable",
				"plans",
			} {
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
		Entry("of redis", parityPak(), "redis", doc.Catalog),
		Entry("of a service with everything", everything, "everything.db", doc.Catalog),
		Entry("of a service without plans", everything, "minimal", doc.Catalog),
		Entry("of a service with everything and errands", everything, "everything.db", doc.CatalogWithErrands),
		Entry("of a service without plans, with errands", everything, "minimal", doc.CatalogWithErrands),
		Entry("of a service with errands alone", example("postgresql-database"), "postgresql-database",
			doc.CatalogWithErrands),
	)

	// The release of the broker accepts only versions that match the expression of semver.org.
	DescribeTable("has maintenance_info only for a version that the broker accepts", func(version string, ok bool) {
		pak := openPak(parityPak())
		pak.Manifest.Version = version
		text, err := doc.Catalog(&pak.Manifest, pak.Services[0])
		Expect(err).NotTo(HaveOccurred())
		var decoded struct {
			Catalog struct {
				Maintenance *doc.MaintenanceInfo `yaml:"maintenance_info"`
			} `yaml:"service_catalog"`
		}
		Expect(yaml.Unmarshal([]byte(text), &decoded)).To(Succeed())
		if !ok {
			Expect(decoded.Catalog.Maintenance).To(BeNil())
			return
		}
		Expect(decoded.Catalog.Maintenance.Version).To(Equal(version))
		Expect(decoded.Catalog.Maintenance.Description).To(Equal("Upgrade to version " + version + " of redis"))
	},
		Entry(nil, "1.2.3", true), Entry(nil, "0.10.0-rc.1+build.5", true),
		Entry(nil, "1.2", false), Entry(nil, "v1.2.3", false), Entry(nil, "01.2.3", false),
		Entry(nil, "1.2.3.4", false), Entry(nil, "latest", false), Entry(nil, "", false),
	)

	It("contains plans that the adapter can deploy", func(ctx context.Context) {
		service := openPak(parityPak()).Services[0]
		text, err := doc.Catalog(&brokerpak.Manifest{}, service)
		Expect(err).NotTo(HaveOccurred())
		decoded := filled(text)
		Expect(decoded.EnablePlanSchemas).To(BeTrue())
		Expect(decoded.Catalog.ID).To(Equal(service.ID))
		Expect(decoded.Catalog.Plans).To(HaveLen(2))
		for i, plan := range decoded.Catalog.Plans {
			instance := odb.Sample(service, &service.Plans[i], "one")
			instance.Plan = map[string]any{
				"properties": plan["properties"], "instance_groups": plan["instance_groups"],
				"lifecycle_errands": map[string]any{},
			}
			manifest := generated(ctx, instance,
				map[string]string{"SERVICE_ADAPTER_PAKS": "[" + parityPak() + "]"})
			Expect(manifest).To(ContainSubstring("vm_type: filled"))
			Expect(strings.Contains(manifest, "tls: true")).To(Equal(plan["name"] == "durable"),
				"the plan's own property")
		}
	})

	It("contains plans and a release with which errands apply and destroy the template", func(ctx context.Context) {
		service := openPak(example("postgresql-database")).Services[0]
		text, err := doc.CatalogWithErrands(&brokerpak.Manifest{}, service)
		Expect(err).NotTo(HaveOccurred())
		decoded := filled(text)
		Expect(decoded.SecureManifests).To(BeTrue())
		for i, plan := range decoded.Catalog.Plans {
			instance := odb.Sample(service, &service.Plans[i], "one")
			instance.Deployment.Releases = decoded.Deployment.Releases
			instance.Deployment.Stemcells = decoded.Deployment.Stemcells
			part := planned(plan)
			instance.Plan = map[string]any{
				"properties": part.Properties, "instance_groups": part.InstanceGroups,
				"lifecycle_errands": part.LifecycleErrands,
			}
			Expect(errandJobs(generated(ctx, instance, map[string]string{
				"SERVICE_ADAPTER_PAKS": "[" + example("postgresql-database") + "]", "PGACCESS_USER": "admin",
				"PGACCESS_PASSWORD":                 "secret",
				"SERVICE_ADAPTER_STATE":             "{type: pg}",
				"SERVICE_ADAPTER_ERRAND_PROPERTIES": "{paks: [/pak], state: {type: pg}, config: ((config))}",
			}))).To(Equal(map[string]string{
				"apply-instance":   "service-adapter",
				"destroy-instance": "service-adapter",
			}))
		}
	})

	Describe("with releases", func() {
		// available returns a release with jobs.
		available := func(name, version string, jobs ...string) *release.Release {
			opened := &release.Release{Name: name, Version: version}
			for _, job := range jobs {
				opened.Jobs = append(opened.Jobs, release.Job{Name: job})
			}
			return opened
		}
		deployed := func(text string) serviceadapter.ServiceReleases {
			GinkgoHelper()
			return filled(text).Deployment.Releases
		}

		It("assigns each job to a release, with which the plans can be deployed", func(ctx context.Context) {
			service := openPak(parityPak()).Services[0]
			text, err := doc.Catalog(&brokerpak.Manifest{}, service,
				available("redis", "4.1.0", "cleanup-data", "redis-server"),
				available("health", "2.0", "health-check", "smoke"))
			Expect(err).NotTo(HaveOccurred())
			Expect(text).NotTo(ContainSubstring("REPLACE_ME_release"))
			Expect(deployed(text)).To(Equal(serviceadapter.ServiceReleases{
				{Name: "redis", Version: "4.1.0", Jobs: []string{"cleanup-data", "redis-server"}},
				{Name: "health", Version: "2.0", Jobs: []string{"health-check"}},
			}))
			for i, plan := range filled(text).Catalog.Plans {
				instance := odb.Sample(service, &service.Plans[i], "one")
				instance.Deployment.Releases = deployed(text)
				instance.Plan = map[string]any{
					"properties": plan["properties"], "instance_groups": plan["instance_groups"],
					"lifecycle_errands": map[string]any{},
				}
				Expect(generated(ctx, instance,
					map[string]string{"SERVICE_ADAPTER_PAKS": "[" + parityPak() + "]"})).To(And(
					MatchRegexp(`name: redis-server\n +release: redis\n`),
					MatchRegexp(`name: health-check\n +release: health\n`)))
			}
		})

		It("reports which jobs no release has, which several have, and which releases have no jobs", func() {
			text, err := doc.Catalog(&brokerpak.Manifest{}, openPak(parityPak()).Services[0],
				available("redis", "", "redis-server"),
				available("other", "1", "redis-server"), available("more", "1", "cleanup-data", "redis-server"))
			Expect(err).NotTo(HaveOccurred())
			Expect(text).To(ContainSubstring("    # The service takes no job from the release other.\n"))
			Expect(text).To(ContainSubstring("    - name: redis\n      version: REPLACE_ME_release_version\n" +
				"      jobs: [redis-server]\n" +
				"    # The job redis-server is also in the release redis, which provides it.\n" +
				"    - name: more\n      version: \"1\"\n      jobs: [cleanup-data]\n" +
				"    # No release of --release contains these jobs.\n    - name: REPLACE_ME_release\n"))
			Expect(deployed(text)).To(HaveExactElements(HaveField("Jobs", []string{"redis-server"}),
				HaveField("Jobs", []string{"cleanup-data"}), HaveField("Jobs", []string{"health-check"})))
		})

		It("names the release that the definition requires, if it is the only one that is missing", func() {
			service := openPak(everything).Service("everything.db")
			text, err := doc.Catalog(&brokerpak.Manifest{}, service, available("backup-tools", "3", "backup"))
			Expect(err).NotTo(HaveOccurred())
			Expect(text).To(ContainSubstring("    # The pak requires the release everything >= 2.\n" +
				"    - name: everything\n      version: REPLACE_ME_release_version\n      jobs: [db]\n"))
		})
	})

	It("has no placeholder for values that the definition computes", func() {
		root := filepath.Join(GinkgoT().TempDir(), "pak")
		Expect(os.CopyFS(root, os.DirFS(example("redis-cluster")))).To(Succeed())
		change(filepath.Join(root, "redis-cluster.yml"), "at_most: ${max_nodes}", `at_most: ${max_nodes}
      vm_type: large
      persistent_disk_type: 100GB`)
		text, err := doc.Catalog(&brokerpak.Manifest{}, openPak(root).Services[0])
		Expect(err).NotTo(HaveOccurred())
		Expect(text).To(ContainSubstring(`
        # The pak computes instances, vm_type, persistent_disk_type, so that the values here have no effect.
        - name: node
          vm_type: computed
          instances: 1
          networks: [REPLACE_ME_network]
          azs: [REPLACE_ME_az]
`))
		Expect(text).To(ContainSubstring("jobs: [cluster-7, form-cluster]"))
	})

	Describe("the requirements of instances", func() {
		// entries returns binding_with_dns of each plan, by its name.
		entries := func(service *brokerpak.Service) map[string]any {
			GinkgoHelper()
			text, err := doc.Catalog(&brokerpak.Manifest{}, service)
			Expect(err).NotTo(HaveOccurred())
			var decoded catalogs
			Expect(yaml.Unmarshal([]byte(text), &decoded)).To(Succeed())
			found := map[string]any{}
			for _, plan := range decoded.Catalog.Plans {
				found[plan["name"].(string)] = plan["binding_with_dns"]
			}
			return found
		}
		entry := func(link, group string) []any {
			return []any{map[string]any{"name": "mysql", "link_provider": link, "instance_group": group}}
		}

		It("includes the link that each plan's manifest shares", func() {
			Expect(entries(openPak(example("mysql")).Services[0])).To(Equal(map[string]any{
				"single": entry("mysql-address", "mysql"), "cluster": entry("proxy-address", "proxy"),
			}))
		})

		It("names a link as the manifest does", func() {
			service := openPak(example("mysql")).Services[0]
			text := &service.Provision.Bosh.Manifest.Text
			*text = strings.Replace(*text, "{shared: true}", "{as: server, shared: true}", 1)
			Expect(entries(service)).To(HaveKeyWithValue("single", entry("server", "mysql")))
		})

		It("leaves the choice between several links to the operator, and names them", func() {
			service := openPak(example("mysql")).Services[0]
			cluster := &service.Provision.Bosh.Ops[0].Document.Text
			*cluster = strings.Replace(*cluster, "- type: remove\n  path: /instance_groups/name=mysql/jobs/"+
				"name=pxc-mysql/provides\n", "", 1)
			Expect(entries(service)).To(HaveKeyWithValue("cluster",
				entry("REPLACE_ME_link_provider", "REPLACE_ME_instance_group")))
			text, err := doc.Catalog(&brokerpak.Manifest{}, service)
			Expect(err).NotTo(HaveOccurred())
			Expect(text).To(ContainSubstring("binding_with_dns:\n" +
				"        # The manifest shares mysql-address of mysql, proxy-address of proxy.\n"))
		})

		It("includes a disk for the groups whose disk the pak checks, and for no other", func() {
			service := openPak(example("mysql")).Services[0]
			disks := func() map[string]string {
				GinkgoHelper()
				text, err := doc.Catalog(&brokerpak.Manifest{}, service)
				Expect(err).NotTo(HaveOccurred())
				found := map[string]string{}
				for _, group := range planned(filled(text).Catalog.Plans[1]).InstanceGroups {
					found[group.Name] = group.PersistentDiskType
				}
				return found
			}
			Expect(disks()).To(Equal(map[string]string{"mysql": "filled", "proxy": ""}))
			By("suggesting one for every group if no check requires it")
			service.Provision.Bosh.Checks = nil
			Expect(disks()).To(Equal(map[string]string{"mysql": "filled", "proxy": "filled"}))
		})
	})

	It("contains the name under which the release is built", func() {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "final.yml"))
		Expect(err).NotTo(HaveOccurred())
		var release struct{ Name string }
		Expect(yaml.Unmarshal(text, &release)).To(Succeed())
		catalog, err := doc.CatalogWithErrands(manifestAndService(everything, "minimal"))
		Expect(err).NotTo(HaveOccurred())
		Expect(filled(catalog).Deployment.Releases).To(ContainElement(HaveField("Name", release.Name)))
	})

	It("runs the errands on an instance group whose name the service does not use", func() {
		service := openPak(everything).Service("minimal")
		service.Provision.Bosh.Manifest.Text = "instance_groups: [{name: errands}, {name: adapter-errands}]"
		text, err := doc.CatalogWithErrands(&brokerpak.Manifest{}, service)
		Expect(err).NotTo(HaveOccurred())
		var names []string
		for _, group := range planned(filled(text).Catalog.Plans[0]).InstanceGroups {
			names = append(names, group.Name)
		}
		Expect(names).To(Equal([]string{"errands", "adapter-errands", "adapter-adapter-errands"}))
	})

	It("does not use the name of a group that the definition sizes for that group", func() {
		service := openPak(everything).Service("minimal")
		service.Provision.Bosh.Manifest.Text = "instance_groups: [{name: server}, {name: errands}]"
		service.Provision.Bosh.Groups = []brokerpak.GroupSize{{Name: "errands", Like: "server"}}
		text, err := doc.CatalogWithErrands(&brokerpak.Manifest{}, service)
		Expect(err).NotTo(HaveOccurred())
		Expect(planned(filled(text).Catalog.Plans[0]).InstanceGroups).To(HaveExactElements(HaveField("Name", "server"),
			HaveField("Name", "adapter-errands")))
	})

	It("has no errand that applies the template if the manifest needs an output", func() {
		service := openPak(everything).Service("minimal")
		service.Provision.Templates = map[string]string{"outputs.tf": `output "host" { value = "x" }`}
		service.Provision.Bosh.Manifest.Text = "instance_groups: [{name: server, env: {host: ((host))}}]"
		text, err := doc.CatalogWithErrands(&brokerpak.Manifest{}, service)
		Expect(err).NotTo(HaveOccurred())
		Expect(text).To(MatchRegexp(`output \(\(host\)\) of the template \(\S*minimal\.yml:\d+:\d+\)`))
		decoded := filled(text)
		Expect(decoded.SecureManifests).To(BeFalse(), "the manifest gets no secret inputs")
		Expect(decoded.Deployment.Releases).To(HaveExactElements(HaveField("Jobs", []string{"destroy-instance"})))
		Expect(planned(decoded.Catalog.Plans[0]).LifecycleErrands).To(Equal(serviceadapter.LifecycleErrands{
			PreDelete: []serviceadapter.Errand{{Name: "destroy-instance"}},
		}))
	})

	DescribeTable("with errands is rejected", func(change func(*brokerpak.Service), text string) {
		service := openPak(everything).Service("minimal")
		change(service)
		_, err := doc.CatalogWithErrands(&brokerpak.Manifest{}, service)
		var user *fault.UserError
		Expect(err).To(BeAssignableToTypeOf(user))
		Expect(err).To(MatchError(ContainSubstring(text)))
	},
		Entry("for a service without a provision template", func(service *brokerpak.Service) {
			service.Provision.Templates = nil
		},
			`service "minimal" has no provision template`),
		Entry("for a service with a job of that name", func(service *brokerpak.Service) {
			service.Provision.Bosh.Manifest.Text = "instance_groups: [{name: server, jobs: [{name: destroy-instance}]}]"
		}, `a job "destroy-instance" of its own`),
		Entry("for a service with a group of that name", func(service *brokerpak.Service) {
			service.Provision.Bosh.Manifest.Text = "instance_groups: [{name: apply-instance}]"
		}, `an instance group or a job "apply-instance"`),
	)

	It("is rejected for a service that the broker cannot deploy", func() {
		_, err := doc.Catalog(&brokerpak.Manifest{}, &brokerpak.Service{Offering: brokerpak.Offering{Name: "cloud"}})
		var user *fault.UserError
		Expect(err).To(BeAssignableToTypeOf(user))
		Expect(err).To(
			MatchError(
				ContainSubstring(`service "cloud" has neither a provision.bosh section nor a provision template`)))
	})
})

// change replaces a text, which must be contained, in a file.
func change(file, before, after string) {
	GinkgoHelper()
	text, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	Expect(string(text)).To(ContainSubstring(before))
	Expect(os.WriteFile(file, []byte(strings.Replace(string(text), before, after, 1)), 0o600)).To(Succeed())
}

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

// generated returns the manifest that the adapter generates for an instance with this configuration.
func generated(ctx context.Context, instance *odb.Instance, configuration map[string]string) string {
	GinkgoHelper()
	input, err := odb.Input("generate-manifest", instance.Generate(map[string]any{}))
	Expect(err).NotTo(HaveOccurred())
	environment := map[string]string{
		"SERVICE_ADAPTER_SECURE_MANIFESTS": "true",
		"SERVICE_ADAPTER_CACHE_DIR":        GinkgoT().TempDir(),
	}
	maps.Copy(environment, configuration)
	var stdout, stderr bytes.Buffer
	exit := adapter.Run(ctx, adapter.Invocation{
		Args: []string{"service-adapter", "generate-manifest"}, Stdin: strings.NewReader(input), Stdout: &stdout,
		Stderr: &stderr,
		Getenv: func(name string) (string, bool) { text, ok := environment[name]; return text, ok },
	})
	Expect(exit).To(Equal(0), stdout.String()+stderr.String())
	Expect(instance.Deploy(stdout.String())).To(Succeed())
	return instance.Manifest
}

// errandJobs returns the releases of the jobs in a manifest by the jobs' names. The manifest must have only one group,
// for errands.
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
