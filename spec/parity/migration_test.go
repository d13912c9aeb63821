package parity_test

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"

	"github.com/cppforlife/go-patch/patch"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"
	"gopkg.in/yaml.v2"

	"service-adapter/internal/value"
)

// A migration is an instance of a hand-written adapter, in variants of the broker's current configuration and of the
// deployed manifest.
type migration struct {
	Deployment yaml.MapSlice
	Plan       yaml.MapSlice
	Manifest   yaml.MapSlice
	Variants   []struct {
		Name                       string
		Deployment, Plan, Manifest []patch.OpDefinition
		Config                     map[any]any
	}
}

// migrations returns the migrations of testdata/migrations.yml by adapter.
func migrations() map[string]migration {
	text, err := os.ReadFile(filepath.Join("testdata", "migrations.yml"))
	if err != nil {
		panic(err)
	}
	all := map[string]migration{}
	if err := yaml.UnmarshalStrict(text, &all); err != nil {
		panic(err)
	}
	return all
}

// changed applies operations to a part of a migration, and returns the result as YAML and as a value.
func changed(base yaml.MapSlice, definitions []patch.OpDefinition) (text string, tree object) {
	GinkgoHelper()
	encoded, err := yaml.Marshal(base)
	Expect(err).NotTo(HaveOccurred())
	var document any
	Expect(yaml.Unmarshal(encoded, &document)).To(Succeed())
	ops, err := patch.NewOpsFromDefinitions(definitions)
	Expect(err).NotTo(HaveOccurred())
	document, err = ops.Apply(document)
	Expect(err).NotTo(HaveOccurred())
	encoded, err = yaml.Marshal(document)
	Expect(err).NotTo(HaveOccurred())
	return string(encoded), value.Normalise(document).(object)
}

// anyReference matches a reference to a variable of the deployment or to a secret.
var anyReference = regexp.MustCompile(`\(\([^()]+\)\)`)

// unrecorded returns a broker with the instance of a variant, whose manifest has no record.
func unrecorded(adapter string, from migration, index int) *broker {
	GinkgoHelper()
	variant := from.Variants[index]
	b := newBroker(adapter)
	b.ServiceID, b.PlanID = redisService, redisPlan
	if adapter == "kafka" {
		b.ServiceID = kafkaService
	}
	config, _ := value.Normalise(variant.Config).(object)
	b.with(config)
	_, deployment := changed(from.Deployment, variant.Deployment)
	encoded, err := json.Marshal(deployment)
	Expect(err).NotTo(HaveOccurred())
	b.Deployment = serviceadapter.ServiceDeployment{}
	Expect(json.Unmarshal(encoded, &b.Deployment)).To(Succeed())
	_, b.Plan = changed(from.Plan, variant.Plan)
	b.Manifest, _ = changed(from.Manifest, variant.Manifest)
	b.Secrets = map[string]string{}
	for _, reference := range anyReference.FindAllString(b.Manifest, -1) {
		b.Secrets[reference] = "value-of-" + reference[2:len(reference)-2]
	}
	return b
}

var _ = Describe("An instance of a hand-written adapter", func() {
	for adapter, from := range migrations() {
		parameters := map[string]object{"redis": {"maxclients": 55}, "kafka": {"auto_create_topics": false}}[adapter]
		for index, variant := range from.Variants {
			It("has no pending changes and can be updated: "+adapter+", "+variant.Name, func(ctx context.Context) {
				b := unrecorded(adapter, from, index)
				deployed := b.Manifest
				b.expectNoPendingChanges(ctx)

				By("an update before the first upgrade")
				b.deploy(ctx, parameters)
				b.expectNoPendingChanges(ctx)

				By("the upgrade, and an update after it")
				b.Manifest, b.noSecrets = deployed, true
				got := b.ask(ctx, object{"context": object{"platform": "cloudfoundry"}})
				generated := productOf(got)
				if plan, ok := b.Plan["update"].(object); ok && adapter == "redis" {
					want := maps.Clone(plan)
					want["initial_deploy_az_update_strategy"] = "parallel"
					Expect(toJSON(generated.tree["update"])).To(MatchJSON(toJSON(want)))
				}
				Expect(b.Deploy(got.Stdout)).To(Succeed())
				b.noSecrets = false
				b.expectNoPendingChanges(ctx)
				b.deploy(ctx, parameters)
				b.expectNoPendingChanges(ctx)
			})
		}
	}

	It("is subject to the limits of the pak as soon as a user sends parameters", func(ctx context.Context) {
		from := migrations()["redis"]
		b := unrecorded("redis", from, variantOf(from, "maxclients above"))
		expectTold(b.ask(ctx, b.body(object{"maxclients": 100001})), `parameter "maxclients" must be at most 60000`)
		Expect(b.generate(ctx, object{"odb_managed_secret": "other"}).job()["redis"]).To(HaveKeyWithValue("maxclients",
			100000))
		b.deploy(ctx, object{"maxclients": nil})
		job := decode(b.Manifest)["instance_groups"].([]any)[0].(object)["jobs"].([]any)[0].(object)
		Expect(job["properties"].(object)["redis"]).To(HaveKeyWithValue("maxclients", 10000))
	})

	It("can be bound before its first upgrade", func(ctx context.Context) {
		from := migrations()["redis"]
		b := unrecorded("redis", from, variantOf(from, "maxclients above"))
		b.VMs = map[string][]string{"redis-server": {"10.0.0.5"}}
		Expect(credentials(b.bind(ctx, "one", nil))).To(And(
			HaveKeyWithValue("host", "10.0.0.5"), HaveKeyWithValue("scheme", "redis"),
			HaveKeyWithValue("password", "c29tZS1wYXNzd29yZC1vZi0yMC1ieXRlcw=="),
		))
		Expect(b.unbind(ctx, "one").Exit).To(Equal(0))
		got := b.call(ctx, "dashboard-url", object{"instance_id": b.ID, "plan": b.Plan, "manifest": b.Manifest})
		Expect(got.Exit).To(Equal(0), got.Stderr)
		Expect(got.Stdout).To(MatchJSON(`{"dashboard_url": "https://example.com/dashboard/some-instance-id"}`))
	})

	DescribeTable("is rejected if its record is damaged:", func(ctx context.Context, record, message string) {
		from := migrations()["redis"]
		b := unrecorded("redis", from, variantOf(from, "plain"))
		b.Manifest += "brokerpak: " + record + "\n"
		expectRefused(b.ask(ctx, object{}), message)
		expectRefused(b.ask(ctx, b.body(nil)), message)
		b.VMs = map[string][]string{"redis-server": {"10.0.0.5"}}
		expectRefused(b.bind(ctx, "one", nil), message)
	},
		Entry(nil, "null", "it must be a string, as the adapter wrote it, not null"),
		Entry(nil, "7", `not "7"`),
		Entry(nil, "''", `reading the record "brokerpak" of the manifest: unexpected end of JSON input`),
		Entry(nil, "{format: 1}", "not a mapping"),
		Entry(nil, `"{\"format\":1}"`, "it does not name a service"),
		Entry(nil, `'"{\"format\":1}"'`, `reading the record "brokerpak" of the manifest: json: `),
	)

	It("is rejected if its manifest is empty", func(ctx context.Context) {
		b := newRedis()
		for _, nothing := range []string{"{}", "~"} {
			b.Manifest = nothing
			expectRefused(b.ask(ctx, b.body(nil)), "it is not a BOSH manifest")
		}
	})
})

// variantOf returns the index of a migration's variant by its name.
func variantOf(from migration, name string) int {
	GinkgoHelper()
	for index, variant := range from.Variants {
		if variant.Name == name {
			return index
		}
	}
	Fail("no variant " + name)
	return 0
}

// toJSON returns a value as JSON.
func toJSON(item any) string {
	GinkgoHelper()
	text, err := json.Marshal(item)
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}
