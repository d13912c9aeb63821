package odb_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/odb"
)

func TestODB(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "internal/odb")
}

// brokerYML is a configuration as the broker's job writes it, including keys that this program does not need.
const brokerYML = `
broker: {port: 8080, username: broker, password: planted, tls: null}
bosh:
  url: https://10.0.0.6:25555
  root_ca_cert: "PEM"
  authentication:
    basic: {username: null, password: null}
    uaa: {client_credentials: {client_id: odb, client_secret: planted}}
service_deployment:
  releases: [{name: redis, version: 4, jobs: [redis-server]}]
  stemcells: [{os: ubuntu-jammy, version: "1.10"}]
  stemcell: null
service_catalog:
  id: svc-id
  service_name: redis
  global_properties: {g: 1, nested: {x: [1, {why: z}]}, p: global}
  plans:
  - name: small
    plan_id: plan-a
    metadata: {costs: [{amount: {usd: 1.5}, unit: MONTHLY}]}
    quotas: {service_instance_limit: 10}
    properties: {p: plan}
    lifecycle_errands: {post_deploy: [{name: smoke, instances: [redis-server/0], disabled: false}]}
    update: {canaries: 1, max_in_flight: 50%, canary_watch_time: 1-2, update_watch_time: 1-2}
    instance_groups:
    - {name: redis-server, vm_type: small, instances: 1, networks: [default], azs: [z1], vm_extensions: ["", lb],
       unknown: x}
  - {name: bare, plan_id: plan-b, instance_groups: []}
`

func read(text string) (*odb.BrokerConfig, error) {
	path := filepath.Join(GinkgoT().TempDir(), "broker.yml")
	Expect(os.WriteFile(path, []byte(text), 0o600)).To(Succeed())
	return odb.ReadBrokerConfig(path)
}

var _ = Describe("The broker's configuration", func() {
	It("contains the plans as the broker sends them", func() {
		config, err := read(brokerYML)
		Expect(err).NotTo(HaveOccurred())
		Expect(config.Catalog.ID).To(Equal("svc-id"))
		Expect(json.Marshal(config.Deployment)).To(MatchJSON(`{"deployment_name": "",
			"releases": [{"name": "redis", "version": "4", "jobs": ["redis-server"]}],
			"stemcells": [{"stemcell_os": "ubuntu-jammy", "stemcell_version": "1.10"}]}`))
		// Recorded from the broker. Properties of the plan take precedence over global ones.
		Expect(config.Plan("plan-a", "").JSON).To(MatchJSON(`{
			"properties": {"g": 1, "nested": {"x": [1, {"why": "z"}]}, "p": "plan"},
			"lifecycle_errands": {"post_deploy": [{"name": "smoke", "instances": ["redis-server/0"]}]},
			"instance_groups": [{"name": "redis-server", "vm_type": "small", "instances": 1, "networks": ["default"],
				"azs": ["z1"], "vm_extensions": ["lb"]}],
			"update": {"canaries": 1, "max_in_flight": "50%", "canary_watch_time": "1-2", "update_watch_time": "1-2"}
		}`))
		Expect(config.Plan("plan-b", "").JSON).To(ContainSubstring(`"lifecycle_errands":{}`))
		Expect(config.Plan("", "bare").ID).To(Equal("plan-b"))
		Expect(config.Plan("plan-c", "bare")).To(BeNil(), "a plan that is gone is not the one that has its name now")
		bosh := config.Bosh
		Expect(bosh.URL + bosh.CACert + bosh.Authentication.UAA.Client.ID +
			bosh.Authentication.UAA.Client.Secret + bosh.Authentication.Basic.Username).To(
			Equal("https://10.0.0.6:25555PEModbplanted"))
	})

	DescribeTable("is rejected with the line or key and without values", func(
		change func(string) string, wanted string,
	) {
		_, err := read(change(brokerYML))
		Expect(err).To(MatchError(MatchRegexp(`^the broker's configuration /.*/broker.yml: ` + wanted)))
		Expect(err.Error()).NotTo(ContainSubstring("planted"))
	},
		Entry("no YAML", func(text string) string { return text + "x: [" }, "not valid YAML near line"),
		Entry("an unknown anchor", func(text string) string {
			return strings.ReplaceAll(text, "password: planted", "password: *planted")
		}, "not valid YAML"),
		Entry("another type", func(text string) string {
			return strings.Replace(text, "instances: 1", "instances: planted", 1)
		}, "line 26: cannot unmarshal !!str into int$"),
		Entry("another type of a value with backticks", func(text string) string {
			return strings.Replace(text, "instances: 1", "instances: \"a`planted\"", 1)
		}, "line 26: cannot unmarshal !!str into int$"),
		Entry("nothing", func(string) string { return "" },
			"it must have releases and stemcells in service_deployment, and plans"),
		Entry("another file", func(string) string { return "paks: [/a]" }, "it must have releases"),
		Entry("a text", func(string) string { return "planted" },
			"line 1: cannot unmarshal !!str into odb.BrokerConfig"),
		Entry("a plan without id", func(text string) string {
			return strings.Replace(text, "plan_id: plan-b, ", "", 1)
		}, `plan_id of service_catalog.plans\[1\] is missing`),
		Entry("no plan", func(text string) string { return text + "  -\n" },
			`plan_id of service_catalog.plans\[2\] is missing`),
	)

	It("must exist", func() {
		_, err := odb.ReadBrokerConfig("/missing/broker.yml")
		Expect(err).To(MatchError(os.ErrNotExist))
	})
})

func FuzzReadBrokerConfig(f *testing.F) {
	f.Add(brokerYML)
	f.Add("service_catalog: {plans: [null, {plan_id: 1, update: {}}], global_properties: {1: {2: 3}, ~: .nan}}\n" +
		"service_deployment: {releases: [{}], stemcells: [{}]}")
	path := filepath.Join(f.TempDir(), "broker.yml")
	f.Fuzz(func(t *testing.T, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		config, err := odb.ReadBrokerConfig(path)
		if err != nil {
			return
		}
		for _, plan := range config.Catalog.Plans {
			if config.Plan(plan.ID, "") == nil || !json.Valid([]byte(plan.JSON)) {
				t.Errorf("plan %q: %s", plan.ID, plan.JSON)
			}
		}
	})
}
