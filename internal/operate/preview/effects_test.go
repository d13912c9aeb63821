package preview_test

import (
	"context"
	"encoding/json"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"gopkg.in/yaml.v3"

	"service-adapter/adapter/session"
	"service-adapter/internal/odb"
	"service-adapter/internal/operate/manifestdiff"
	"service-adapter/internal/operate/preview"
	"service-adapter/spec/kit/site"
)

// manifestTemplate contains a part of a manifest for every rule. A test changes the deployed manifest, not the
// generated one: a part that it removes there is added by the change, and the other way round.
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
	var invocation session.Process

	// group returns an instance group of the deployed manifest.
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
		s := site.New(GinkgoT().TempDir())
		text := site.Definition{}.String()
		from, to := strings.Index(text, "    manifest:\n"), strings.Index(text, "    labels:")
		s.Serve(s.Pak("one", text[:from]+manifestTemplate+text[to:]))
		broker := site.Instance()
		broker.Deployment.Releases[0].Jobs = []string{"server", "agent"}
		group := func(name string, others object) object {
			made := object{
				"name": name, "vm_type": "small", "instances": 2, "networks": []any{"default"},
				"azs": []any{"z1", "z2"},
			}
			for key, item := range others {
				made[key] = item
			}
			return made
		}
		broker.Plan["instance_groups"] = []any{
			group("server", object{"persistent_disk_type": "10GB"}), group("smoke", object{"lifecycle": "errand"}),
			group("proxy", object{
				"vm_extensions": []any{"lb"},
				"migrated_from": []any{object{"name": "old-proxy"}, object{"name": "older-proxy"}},
			}),
		}
		result := s.Call("generate-manifest", broker.Generate(site.Body(nil)))
		Expect(result.Code).To(Equal(0), result.Stderr)
		var product struct{ Manifest string }
		Expect(json.Unmarshal([]byte(result.Stdout), &product)).To(Succeed())
		deployed = object{}
		Expect(yaml.Unmarshal([]byte(product.Manifest), &deployed)).To(Succeed())
		config = &odb.BrokerConfig{}
		config.Catalog.ID = site.ServiceID
		config.Catalog.Plans = []*odb.BrokerPlan{{ID: site.PlanID, Name: "small", JSON: site.JSONText(broker.Plan)}}
		config.Deployment.Releases = broker.Deployment.Releases
		config.Deployment.Stemcells = broker.Deployment.Stemcells
		invocation = session.Process{Getenv: s.Getenv, Stderr: GinkgoWriter}
	})

	pending := func() []manifestdiff.Change {
		GinkgoHelper()
		text, err := yaml.Marshal(deployed)
		Expect(err).NotTo(HaveOccurred())
		check, err := preview.Open(invocation)
		Expect(err).NotTo(HaveOccurred())
		defer check.Close()
		checked, err := check.Instance(context.Background(), string(text), config)
		Expect(err).NotTo(HaveOccurred())
		Expect(checked.Plan).To(Equal("small"))
		Expect(checked.PlanGuessed).To(BeFalse())
		return checked.Changes
	}

	It("does not exist if nothing changes", func() { Expect(pending()).To(BeEmpty()) })

	DescribeTable("is that of the first rule that matches", func(
		change func(), path string, effect manifestdiff.Effect, consequence string,
	) {
		change()
		changes := pending()
		Expect(changes).To(HaveLen(1), "%v", changes)
		Expect(changes[0]).To(And(HaveField("Path", path), HaveField("Effect", effect),
			HaveField("Consequence", ContainSubstring(consequence))))
	},
		Entry("an errand's VM", func() { group("smoke")["vm_type"] = "large" }, "/instance_groups/name=smoke/vm_type",
			manifestdiff.Metadata, "until it runs"),
		Entry("a new errand", func() { without("instance_groups", "smoke") }, "/instance_groups/name=smoke",
			manifestdiff.Metadata, "until it runs"),
		Entry("an errand that is removed", func() { also("load", object{"lifecycle": "errand"}) },
			"/instance_groups/name=load", manifestdiff.Metadata, "until it runs"),
		Entry("a group that is removed", func() { also("cache", nil) }, "/instance_groups/name=cache",
			manifestdiff.DataAtRisk, "its VMs are deleted"),
		Entry("a group that becomes an errand", func() { delete(group("smoke"), "lifecycle") },
			"/instance_groups/name=smoke/lifecycle", manifestdiff.DataAtRisk, "its VMs"),
		Entry("an errand that becomes a group", func() { group("server")["lifecycle"] = "errand" },
			"/instance_groups/name=server/lifecycle", manifestdiff.Restart, "jobs restart"),
		Entry("a group that is migrated into another one", func() { also("older-proxy", nil) },
			"/instance_groups/name=older-proxy", manifestdiff.Recreate, "continue in the other"),
		Entry("a group with a new name", func() { group("proxy")["name"] = "old-proxy" },
			"/instance_groups/name=old-proxy/name", manifestdiff.Recreate, "recreated"),
		Entry("fewer instances", func() { group("server")["instances"] = 3 }, "/instance_groups/name=server/instances",
			manifestdiff.DataAtRisk, "VMs are deleted"),
		Entry("more instances", func() { group("server")["instances"] = 1 }, "/instance_groups/name=server/instances",
			manifestdiff.Restart, "VMs are added"),
		Entry("a new group", func() { without("instance_groups", "proxy") }, "/instance_groups/name=proxy",
			manifestdiff.Restart, "VMs are added"),
		Entry("another disk", func() { group("server")["persistent_disk_type"] = "20GB" },
			"/instance_groups/name=server/persistent_disk_type",
			manifestdiff.DataAtRisk, "large enough"),
		Entry("a disk that is removed", func() { group("proxy")["persistent_disk_type"] = "20GB" },
			"/instance_groups/name=proxy/persistent_disk_type",
			manifestdiff.DataAtRisk, "large enough"),
		Entry("a first disk", func() { delete(group("server"), "persistent_disk_type") },
			"/instance_groups/name=server/persistent_disk_type",
			manifestdiff.Recreate, "recreated"),
		Entry("another AZ of a group with a disk", func() { group("server")["azs"] = []any{"z1", "z3"} },
			"/instance_groups/name=server/azs/1",
			manifestdiff.DataAtRisk, "VMs there"),
		Entry("a group with a disk that loses an AZ", func() { group("server")["azs"] = []any{"z1", "z2", "z3"} },
			"/instance_groups/name=server/azs",
			manifestdiff.DataAtRisk, "VMs there"),
		Entry("a group with a disk that gets another AZ", func() { group("server")["azs"] = []any{"z1"} },
			"/instance_groups/name=server/azs", manifestdiff.Recreate, "recreated"),
		Entry("the order of AZs of a group with a disk", func() { group("server")["azs"] = []any{"z2", "z1"} },
			"/instance_groups/name=server/azs", manifestdiff.Metadata, "no job"),
		Entry("the order of AZs of a group without a disk", func() { group("proxy")["azs"] = []any{"z2", "z1"} },
			"/instance_groups/name=proxy/azs", manifestdiff.Metadata, "no job"),
		Entry("an AZ that is repeated instead of another one", func() { group("proxy")["azs"] = []any{"z1", "z1"} },
			"/instance_groups/name=proxy/azs/1", manifestdiff.Recreate, "recreated"),
		Entry("another AZ of a group without a disk", func() { group("proxy")["azs"] = []any{"z1", "z3"} },
			"/instance_groups/name=proxy/azs/1", manifestdiff.Recreate, "recreated"),
		Entry("another network", func() {
			group("proxy")["networks"] = []any{object{"name": "old"}, object{"name": "default"}}
		},
			"/instance_groups/name=proxy/networks/name=old", manifestdiff.Recreate, "recreated"),
		Entry("a VM extension", func() { delete(group("proxy"), "vm_extensions") },
			"/instance_groups/name=proxy/vm_extensions", manifestdiff.Recreate, "recreated"),
		Entry("an environment", func() { delete(group("server"), "env") }, "/instance_groups/name=server/env",
			manifestdiff.Recreate, "recreated"),
		Entry("a stemcell", func() { deployed["stemcells"].([]any)[0].(object)["version"] = "1.0" },
			"/stemcells/0/version", manifestdiff.Recreate, "recreated"),
		Entry("only migrated_from", func() { delete(group("proxy"), "migrated_from") },
			"/instance_groups/name=proxy/migrated_from",
			manifestdiff.Metadata, "no job"),
		Entry("a tag", func() { deployed["tags"] = object{"product": "two"} }, "/tags/product", manifestdiff.Metadata,
			"no job"),
		Entry("the first tags", func() { delete(deployed, "tags") }, "/tags", manifestdiff.Metadata, "no job"),
		Entry("a new variable", func() { without("variables", "key") }, "/variables/name=key", manifestdiff.Metadata,
			"no job"),
		Entry("another kind of variable", func() { deployed["variables"].([]any)[0].(object)["type"] = "user" },
			"/variables/name=key/type", manifestdiff.Restart, "jobs restart"),
		Entry("a release that is removed", func() {
			deployed["releases"] = append([]any{object{"name": "old", "version": "1"}}, deployed["releases"].([]any)...)
		}, "/releases/name=old", manifestdiff.Metadata, "no job"),
		Entry("a release's version", func() { deployed["releases"].([]any)[0].(object)["version"] = "0" },
			"/releases/name=server/version", manifestdiff.Restart, "jobs restart"),
		Entry("the order of jobs", func() {
			jobs := group("server")["jobs"].([]any)
			jobs[0], jobs[1] = jobs[1], jobs[0]
		}, "/instance_groups/name=server/jobs", manifestdiff.Metadata, "no job"),
		Entry("a job that is removed", func() {
			group("server")["jobs"] = append(group("server")["jobs"].([]any),
				object{"name": "old", "release": "server"})
		}, "/instance_groups/name=server/jobs/name=old", manifestdiff.Restart, "jobs restart"),
		Entry("a list of a property", func() {
			group("server")["jobs"].([]any)[0].(object)["properties"] = object{"list": []any{"a"}}
		}, "/instance_groups/name=server/jobs/name=server/properties/list", manifestdiff.Restart, "jobs restart"),
		Entry("an entry of a list of a property", func() {
			group("server")["jobs"].([]any)[0].(object)["properties"] = object{"list": []any{"a", "a"}}
		}, "/instance_groups/name=server/jobs/name=server/properties/list/1", manifestdiff.Restart, "jobs restart"),
		Entry("a feature", func() { delete(deployed, "features") }, "/features", manifestdiff.Restart, "jobs restart"),
		Entry("an empty list instead of none", func() { group("server")["vm_extensions"] = []any{} }, "/",
			manifestdiff.Restart, "jobs restart"),
	)

	DescribeTable("is that on credentials of bindings if the manifest loses a credential",
		func(properties object, key string, effect manifestdiff.Effect) {
			properties["list"] = []any{"a", "b"}
			group("server")["jobs"].([]any)[0].(object)["properties"] = properties
			changes := pending()
			Expect(changes).To(HaveLen(1))
			Expect(changes[0]).To(And(HaveField("Path", HaveSuffix("/properties/"+key)), HaveField("Effect", effect)))
		},
		Entry("a BOSH variable", object{"admin": "((admin))"}, "admin", manifestdiff.Credentials),
		Entry("a part of one in a text", object{"uri": "db://((admin.user))@host"}, "uri", manifestdiff.Credentials),
		Entry("a credential in CredHub", object{"all": object{"a": []any{"((/odb/x/y/z))"}}}, "all",
			manifestdiff.Credentials),
		Entry("a value that its key names", object{"password": "planted"}, "password", manifestdiff.Credentials),
		Entry("a setting", object{"size": "large"}, "size", manifestdiff.Restart),
	)

	It("masks values that are secrets by their key, and the same values at other keys", func() {
		group("server")["jobs"].([]any)[0].(object)["properties"] = object{
			"list": []any{"a", "b"}, "password": "planted", "port": 123456, "admin_token": 123456,
			"reference": "((admin_password))",
		}
		shown := map[string]any{}
		for _, change := range pending() {
			shown[change.Path[strings.LastIndex(change.Path, "/")+1:]] = change.Deployed
		}
		Expect(shown).To(Equal(object{
			"password": "[redacted]", "admin_token": "[redacted]", "port": "[redacted]",
			"reference": "((admin_password))",
		}), "the port is the same number as the token")
	})

	It("has the rules of the table in docs/operations/preview-an-upgrade.md", func() {
		var table strings.Builder
		table.WriteString("| change | effect | what happens |\n|---|---|---|\n")
		for _, rule := range manifestdiff.EffectRules() {
			table.WriteString("| " + rule.Changes + " | `" + rule.Effect.String() + "` | " + rule.Consequence + " |\n")
		}
		page := site.ReadFile("../../../docs/operations/preview-an-upgrade.md")
		Expect(page).To(ContainSubstring(table.String()), table.String())
	})
})
