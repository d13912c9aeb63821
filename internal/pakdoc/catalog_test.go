package pakdoc_test

import (
	"bytes"
	"context"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"gopkg.in/yaml.v3"

	"service-adapter/adapter"
	"service-adapter/brokerpak"
	"service-adapter/internal/fault"
	"service-adapter/internal/odb"
	"service-adapter/internal/pakdoc"
)

// catalogs are the parts of the broker's properties that the tests look at.
type catalogs struct {
	EnablePlanSchemas bool `yaml:"enable_plan_schemas"`
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

	// What the template of the broker's job demands.
	DescribeTable("has what the broker requires", func(path, service string) {
		text, err := pakdoc.Catalog(openPak(path).Service(service))
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
		Entry("of redis", example("redis"), "redis"),
		Entry("of a service with everything", everything, "everything.db"),
		Entry("of a service without plans", everything, "minimal"),
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
			manifest := generated(ctx, instance)
			Expect(manifest).To(ContainSubstring("vm_type: filled"))
			Expect(strings.Contains(manifest, "tls: true")).To(Equal(plan["name"] == "durable"), "the plan's own property")
		}
	})

	It("is refused for a service that the broker cannot deploy", func() {
		_, err := pakdoc.Catalog(&brokerpak.Service{Name: "cloud"})
		var user *fault.UserError
		Expect(err).To(BeAssignableToTypeOf(user))
		Expect(err).To(MatchError(ContainSubstring(`service "cloud" has neither a provision.bosh section nor a provision template`)))
	})
})

// generated is the manifest that the adapter makes of an instance of redis.
func generated(ctx context.Context, instance *odb.Instance) string {
	GinkgoHelper()
	input, err := odb.Input("generate-manifest", instance.Generate(map[string]any{}))
	Expect(err).NotTo(HaveOccurred())
	environment := map[string]string{
		"SERVICE_ADAPTER_PAKS": "[" + example("redis") + "]", "SERVICE_ADAPTER_SECURE_MANIFESTS": "true",
		"SERVICE_ADAPTER_CACHE_DIR": GinkgoT().TempDir(),
	}
	var stdout, stderr bytes.Buffer
	exit := adapter.Run(ctx, adapter.Invocation{
		Args: []string{"service-adapter", "generate-manifest"}, Stdin: strings.NewReader(input), Stdout: &stdout, Stderr: &stderr,
		Getenv: func(name string) (string, bool) { text, ok := environment[name]; return text, ok },
	})
	Expect(exit).To(Equal(0), stdout.String()+stderr.String())
	Expect(instance.Deploy(stdout.String())).To(Succeed())
	return instance.Manifest
}
