package adapter_test

import (
	"context"
	"encoding/json"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"gopkg.in/yaml.v3"

	"service-adapter/adapter"
	"service-adapter/internal/odb"
)

// manifestTemplate has what every rule of the manifest is about. A test changes what is deployed, so what it takes away comes, and the
// other way round.
const manifestTemplate = `    manifest:
      stemcells: [{alias: default}]
      instance_groups:
      - name: server
        env: {bosh: {swap_size: 1}}
        jobs: [{name: server, properties: {list: [a, b]}}, {name: agent}]
      - {name: proxy, jobs: [{name: server}]}
      - {name: smoke, lifecycle: errand, jobs: [{name: server}]}
      variables: [{name: key, type: password}, {name: other, type: password}]
      tags: {product: one}
      features: {use_dns_addresses: true}
`

var _ = Describe("The effect of a change", func() {
	var deployed object
	var config *odb.BrokerConfig
	var invocation adapter.Invocation

	// group is one of the groups of the deployed manifest.
	group := func(name string) object {
		for _, item := range deployed["instance_groups"].([]any) {
			if item.(object)["name"] == name {
				return item.(object)
			}
		}
		return nil
	}
	without := func(key, name string) {
		var rest []any
		for _, item := range deployed[key].([]any) {
			if item.(object)["name"] != name {
				rest = append(rest, item)
			}
		}
		deployed[key] = rest
	}
	also := func(name string, change object) {
		added := object{}
		for key, item := range group("proxy") {
			added[key] = item
		}
		added["name"] = name
		for key, item := range change {
			added[key] = item
		}
		deployed["instance_groups"] = append(deployed["instance_groups"].([]any), added)
	}

	BeforeEach(func() {
		s := newSite(GinkgoT().TempDir())
		text := definition{}.String()
		from, to := strings.Index(text, "    manifest:\n"), strings.Index(text, "    labels:")
		s.serve(s.pak("one", text[:from]+manifestTemplate+text[to:]))
		broker := instance()
		broker.Deployment.Releases[0].Jobs = []string{"server", "agent"}
		group := func(name string, others object) object {
			made := object{"name": name, "vm_type": "small", "instances": 2, "networks": []any{"default"}, "azs": []any{"z1", "z2"}}
			for key, item := range others {
				made[key] = item
			}
			return made
		}
		broker.Plan["instance_groups"] = []any{
			group("server", object{"persistent_disk_type": "10GB"}), group("smoke", object{"lifecycle": "errand"}),
			group("proxy", object{"vm_extensions": []any{"lb"}, "migrated_from": []any{object{"name": "old-proxy"}, object{"name": "older-proxy"}}}),
		}
		result := s.call("generate-manifest", broker.Generate(body(nil)))
		Expect(result.Code).To(Equal(0), result.Stderr)
		var product struct{ Manifest string }
		Expect(json.Unmarshal([]byte(result.Stdout), &product)).To(Succeed())
		deployed = object{}
		Expect(yaml.Unmarshal([]byte(product.Manifest), &deployed)).To(Succeed())
		config = &odb.BrokerConfig{}
		config.Catalog.ID, config.Catalog.Plans = serviceID, []*odb.BrokerPlan{{ID: planID, Name: "small", JSON: jsonText(broker.Plan)}}
		config.Deployment.Releases, config.Deployment.Stemcells = broker.Deployment.Releases, broker.Deployment.Stemcells
		invocation = adapter.Invocation{Getenv: s.getenv, Stderr: GinkgoWriter}
	})

	pending := func() []adapter.Change {
		GinkgoHelper()
		text, err := yaml.Marshal(deployed)
		Expect(err).NotTo(HaveOccurred())
		check, err := adapter.OpenPendingCheck(invocation)
		Expect(err).NotTo(HaveOccurred())
		defer check.Close()
		plan, changes, err := check.Instance(context.Background(), string(text), config)
		Expect(err).NotTo(HaveOccurred())
		Expect(plan).To(Equal("small"))
		return changes
	}

	It("is none where nothing changes", func() { Expect(pending()).To(BeEmpty()) })

	DescribeTable("is that of the first rule that fits", func(change func(), path string, effect adapter.Effect, consequence string) {
		change()
		changes := pending()
		Expect(changes).To(HaveLen(1), "%v", changes)
		Expect(changes[0]).To(And(HaveField("Path", path), HaveField("Effect", effect), HaveField("Consequence", ContainSubstring(consequence))))
	},
		Entry("an errand's VM", func() { group("smoke")["vm_type"] = "large" }, "/instance_groups/name=smoke/vm_type", adapter.Metadata, "until it runs"),
		Entry("a new errand", func() { without("instance_groups", "smoke") }, "/instance_groups/name=smoke", adapter.Metadata, "until it runs"),
		Entry("an errand that goes", func() { also("load", object{"lifecycle": "errand"}) }, "/instance_groups/name=load", adapter.Metadata, "until it runs"),
		Entry("a group that goes", func() { also("cache", nil) }, "/instance_groups/name=cache", adapter.DataAtRisk, "its VMs are deleted"),
		Entry("a group that becomes an errand", func() { delete(group("smoke"), "lifecycle") }, "/instance_groups/name=smoke/lifecycle", adapter.DataAtRisk, "its VMs"),
		Entry("an errand that becomes a group", func() { group("server")["lifecycle"] = "errand" }, "/instance_groups/name=server/lifecycle", adapter.Restart, "jobs restart"),
		Entry("a group that another one takes in", func() { also("older-proxy", nil) }, "/instance_groups/name=older-proxy", adapter.Recreate, "go on in the other"),
		Entry("a group with a new name", func() { group("proxy")["name"] = "old-proxy" }, "/instance_groups/name=old-proxy/name", adapter.Recreate, "made anew"),
		Entry("fewer instances", func() { group("server")["instances"] = 3 }, "/instance_groups/name=server/instances", adapter.DataAtRisk, "VMs are deleted"),
		Entry("more instances", func() { group("server")["instances"] = 1 }, "/instance_groups/name=server/instances", adapter.Restart, "VMs are added"),
		Entry("a new group", func() { without("instance_groups", "proxy") }, "/instance_groups/name=proxy", adapter.Restart, "VMs are added"),
		Entry("another disk", func() { group("server")["persistent_disk_type"] = "20GB" }, "/instance_groups/name=server/persistent_disk_type",
			adapter.DataAtRisk, "large enough"),
		Entry("a disk that goes", func() { group("proxy")["persistent_disk_type"] = "20GB" }, "/instance_groups/name=proxy/persistent_disk_type",
			adapter.DataAtRisk, "large enough"),
		Entry("a first disk", func() { delete(group("server"), "persistent_disk_type") }, "/instance_groups/name=server/persistent_disk_type",
			adapter.Recreate, "made anew"),
		Entry("another AZ of a group with a disk", func() { group("server")["azs"] = []any{"z1", "z3"} }, "/instance_groups/name=server/azs/1",
			adapter.DataAtRisk, "VMs there"),
		Entry("an AZ less of a group with a disk", func() { group("server")["azs"] = []any{"z1", "z2", "z3"} }, "/instance_groups/name=server/azs",
			adapter.DataAtRisk, "VMs there"),
		Entry("an AZ more of a group with a disk", func() { group("server")["azs"] = []any{"z1"} }, "/instance_groups/name=server/azs", adapter.Recreate, "made anew"),
		Entry("another AZ of a group without", func() { group("proxy")["azs"] = []any{"z1", "z3"} }, "/instance_groups/name=proxy/azs/1", adapter.Recreate, "made anew"),
		Entry("another network", func() { group("proxy")["networks"] = []any{object{"name": "old"}, object{"name": "default"}} },
			"/instance_groups/name=proxy/networks/name=old", adapter.Recreate, "made anew"),
		Entry("a VM extension", func() { delete(group("proxy"), "vm_extensions") }, "/instance_groups/name=proxy/vm_extensions", adapter.Recreate, "made anew"),
		Entry("an environment", func() { delete(group("server"), "env") }, "/instance_groups/name=server/env", adapter.Recreate, "made anew"),
		Entry("a stemcell", func() { deployed["stemcells"].([]any)[0].(object)["version"] = "1.0" }, "/stemcells/0/version", adapter.Recreate, "made anew"),
		Entry("only where it comes from", func() { delete(group("proxy"), "migrated_from") }, "/instance_groups/name=proxy/migrated_from",
			adapter.Metadata, "no job"),
		Entry("a tag", func() { deployed["tags"] = object{"product": "two"} }, "/tags/product", adapter.Metadata, "no job"),
		Entry("the first tags", func() { delete(deployed, "tags") }, "/tags", adapter.Metadata, "no job"),
		Entry("a new variable", func() { without("variables", "key") }, "/variables/name=key", adapter.Metadata, "no job"),
		Entry("another kind of variable", func() { deployed["variables"].([]any)[0].(object)["type"] = "user" }, "/variables/name=key/type", adapter.Restart, "jobs restart"),
		Entry("a release that goes", func() {
			deployed["releases"] = append([]any{object{"name": "old", "version": "1"}}, deployed["releases"].([]any)...)
		}, "/releases/name=old", adapter.Metadata, "no job"),
		Entry("a release's version", func() { deployed["releases"].([]any)[0].(object)["version"] = "0" }, "/releases/name=server/version", adapter.Restart, "jobs restart"),
		Entry("the order of jobs", func() {
			jobs := group("server")["jobs"].([]any)
			jobs[0], jobs[1] = jobs[1], jobs[0]
		}, "/instance_groups/name=server/jobs", adapter.Metadata, "no job"),
		Entry("a job that goes", func() {
			group("server")["jobs"] = append(group("server")["jobs"].([]any), object{"name": "old", "release": "server"})
		}, "/instance_groups/name=server/jobs/name=old", adapter.Restart, "jobs restart"),
		Entry("a list of a property", func() {
			group("server")["jobs"].([]any)[0].(object)["properties"] = object{"list": []any{"a"}}
		}, "/instance_groups/name=server/jobs/name=server/properties/list", adapter.Restart, "jobs restart"),
		Entry("a feature", func() { delete(deployed, "features") }, "/features", adapter.Restart, "jobs restart"),
		Entry("an empty list where none is", func() { group("server")["vm_extensions"] = []any{} }, "/", adapter.Restart, "jobs restart"),
	)

	It("masks secrets, by what they are called and by what is known", func() {
		group("server")["jobs"].([]any)[0].(object)["properties"] = object{
			"list": []any{"a", "b"}, "password": "planted", "port": 123456, "admin_token": 123456, "reference": "((admin_password))",
		}
		shown := map[string]any{}
		for _, change := range pending() {
			shown[change.Path[strings.LastIndex(change.Path, "/")+1:]] = change.Deployed
		}
		Expect(shown).To(Equal(object{
			"password": "[redacted]", "admin_token": "[redacted]", "port": "[redacted]", "reference": "((admin_password))",
		}), "the port is the same number as the token")
	})

	It("has a rule for every consequence, all of them in docs/operations.md", func() {
		var table strings.Builder
		table.WriteString("| change | effect | what happens |\n|---|---|---|\n")
		for _, rule := range adapter.EffectRules() {
			table.WriteString("| " + rule.Changes + " | `" + rule.Effect.String() + "` | " + rule.Consequence + " |\n")
		}
		Expect(readFile("../docs/operations.md")).To(ContainSubstring(table.String()), table.String())
	})
})
