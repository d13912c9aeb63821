package acceptance_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"gopkg.in/yaml.v3"

	"service-adapter/internal/odb"
	"service-adapter/spec/kit"
)

// olderTofu is the version that precedes kit.Newest on the upgrade path of a spec's pak.
const olderTofu = "1.10.10"

// newProvisionedBroker returns a broker for the pak whose provision template creates an entry.
func newProvisionedBroker() *broker {
	GinkgoHelper()
	s := newSite("provisioned")
	s.set(object{"services": object{"entries": object{
		"provision_defaults": object{"path": s.entries}, "bind_defaults": object{"path": s.entries},
	}}})
	return newBroker(s)
}

// properties returns the properties of the only job of the deployed manifest.
func (b *broker) properties() object {
	GinkgoHelper()
	var manifest struct {
		Groups []struct {
			Jobs []struct {
				Properties object `yaml:"properties"`
			} `yaml:"jobs"`
		} `yaml:"instance_groups"`
	}
	Expect(yaml.Unmarshal([]byte(b.Manifest), &manifest)).To(Succeed())
	return manifest.Groups[0].Jobs[0].Properties
}

// check generates the manifest as the broker does before an update, asserts that it equals the deployed one and that no
// resource changed, and returns the standard error.
func (b *broker) check(ctx context.Context) string {
	GinkgoHelper()
	before := b.site.resources()
	got := b.call(ctx, generateManifest, b.Generate(object{}))
	Expect(got.Exit).To(Equal(0), got.Stderr)
	manifest, _ := decode(got.Stdout)["manifest"].(string)
	same, err := odb.SameManifests(b.Manifest, manifest)
	Expect(err).NotTo(HaveOccurred())
	Expect(same).To(BeTrue(), "the broker would reject the update")
	Expect(b.site.resources()).To(Equal(before))
	return got.Stderr
}

// pendingChanges runs the command pending-changes and returns its exit code and the changes in its JSON.
func (b *broker) pendingChanges(ctx context.Context) (exit int, changes []any) {
	GinkgoHelper()
	manifest, plan := filepath.Join(b.site.dir, "deployed.yml"), filepath.Join(b.site.dir, "plan.json")
	Expect(os.WriteFile(manifest, []byte(b.Manifest), 0o600)).To(Succeed())
	Expect(os.WriteFile(plan, []byte(encode(b.Plan)), 0o600)).To(Succeed())
	got := b.run(ctx, "", "pending-changes", "--manifest", manifest, "--plan", plan, "--json")
	if got.Stdout != "" {
		Expect(yaml.Unmarshal([]byte(got.Stdout), &changes)).To(Succeed())
	}
	return got.Exit, changes
}

// applying returns the process id of the OpenTofu that is running an apply. It fails the spec if none is running.
func (s *site) applying() int {
	GinkgoHelper()
	for _, p := range s.processes() {
		if strings.Contains(p.Command, "tofu apply ") {
			return p.PID
		}
	}
	Fail("no OpenTofu is running")
	return 0
}

var _ = Describe("an instance with a provision template", func() {
	var b *broker

	BeforeEach(func() { b = newProvisionedBroker() })

	It("is created, checked, changed, bound and unbound", func(ctx context.Context) {
		b.deploy(ctx, object{"content": "first"})
		Expect(b.site.resources()).To(Equal([]string{"inst-1-data", "inst-1-data-grant"}))
		Expect(b.properties()).To(HaveKeyWithValue("host", "inst-1-data.example.com"))
		Expect(b.properties()["key"]).To(HavePrefix("((/odb/"))
		Expect(b.check(ctx)).NotTo(ContainSubstring("level=WARN"))

		dashboard := b.call(ctx, dashboardURL, object{"instance_id": b.ID, "plan": b.Plan, "manifest": b.Manifest})
		Expect(decode(dashboard.Stdout)).To(HaveKeyWithValue("dashboard_url", "https://inst-1-data.example.com/"))

		got := credentials(b.bind(ctx, "bind-1", nil))
		key := got["key"]
		Expect(key).NotTo(BeEmpty())
		Expect(got).To(Equal(object{
			"account": "bind-1-account", "host": "inst-1-data.example.com", "content": "first", "key": key,
			"url":    "http://inst-1-data.example.com:80",
			"status": "the file is there", "told": "the file is there!",
		}))
		Expect(b.Manifest).NotTo(ContainSubstring(key.(string)))

		b.deploy(ctx, object{"content": "second"})
		Expect(credentials(b.bind(ctx, "bind-2", nil))).To(And(HaveKeyWithValue("content", "second"),
			HaveKeyWithValue("key", key)))
		Expect(b.check(ctx)).NotTo(ContainSubstring("level=WARN"))
		for _, id := range []string{"bind-1", "bind-2"} {
			Expect(b.unbind(ctx, id).Exit).To(Equal(0))
		}
		Expect(b.site.resources()).To(Equal([]string{"inst-1-data", "inst-1-data-grant"}))
	})

	It("lists the changes of its resources by the next update among its pending changes", func(ctx context.Context) {
		plan := object{"service": "entries", "plan": "standard"}
		b.Plan["properties"] = object{"brokerpak": plan}
		b.deploy(ctx, object{"content": "first"})
		exit, changes := b.pendingChanges(ctx)
		Expect(exit).To(BeZero())
		Expect(changes).To(BeEmpty())

		before := b.site.resources()
		definition, err := os.ReadFile(filepath.Join(b.site.pak, "provisioned.yml"))
		Expect(err).NotTo(HaveOccurred())
		b.site.write("provisioned.yml",
			strings.Replace(string(definition), "-data', overwrite", "-other', overwrite", 1))
		Expect(b.check(ctx)).To(ContainSubstring("the next update will change"), "the broker's check passes")
		exit, changes = b.pendingChanges(ctx)
		Expect(exit).To(Equal(1))
		reason := "OpenTofu runs with the next update: changed values of name"
		Expect(changes).To(Equal([]any{
			object{
				"path": "directory_entry.data", "opentofu": "replace", "reason": reason, "deployed": nil,
				"generated": nil,
				"effect":    "data-at-risk", "consequence": "the content of the resource is lost",
			},
			object{
				"path": "directory_entry.grant", "opentofu": "replace", "reason": reason, "deployed": nil,
				"generated": nil,
				"effect":    "data-at-risk", "consequence": "the content of the resource is lost",
			},
		}))
		Expect(b.site.resources()).To(Equal(before), "the command changes no resource")

		By("with another template, if instances get new templates")
		b.site.write("provisioned.yml", string(definition))
		template, err := os.ReadFile(filepath.Join(b.site.pak, "main.tf"))
		Expect(err).NotTo(HaveOccurred())
		b.site.write("main.tf", strings.Replace(string(template), "= var.content", `= "${var.content}!"`, 1)+
			"resource \"terraform_data\" \"new\" {}\n")
		exit, changes = b.pendingChanges(ctx)
		Expect(exit).To(BeZero(), "the instance keeps its template")
		Expect(changes).To(BeEmpty())
		b.site.set(object{"brokerpak_updates_enabled": true})
		exit, changes = b.pendingChanges(ctx)
		Expect(exit).To(Equal(1))
		reason = "OpenTofu runs with the next update: the provision template changed"
		Expect(changes).To(Equal([]any{
			object{
				"path": "directory_entry.data", "opentofu": "change", "reason": reason, "deployed": nil,
				"generated": nil,
				"effect":    "opentofu", "consequence": "OpenTofu applies the change with the next update",
			},
			object{
				"path": "terraform_data.new", "opentofu": "create", "reason": reason, "deployed": nil, "generated": nil,
				"effect": "opentofu", "consequence": "OpenTofu applies the change with the next update",
			},
		}))
		b.site.write("main.tf", string(template))

		By("with a change of the manifest, and a resource that a failed update did not create")
		b.site.write("provisioned.yml", string(definition))
		Expect(b.call(ctx, generateManifest,
			b.Generate(b.body(object{"content": "second", "failure": "no space"}))).Exit).To(Equal(1))
		b.group()["vm_type"] = "large"
		exit, changes = b.pendingChanges(ctx)
		Expect(exit).To(Equal(1))
		Expect(changes).To(HaveLen(2))
		Expect(changes[0]).To(And(HaveKeyWithValue("path", "/instance_groups/name=server/vm_type"),
			Not(HaveKey("opentofu"))))
		Expect(changes[1]).To(And(HaveKeyWithValue("path", "directory_entry.data"),
			HaveKeyWithValue("opentofu", "change"),
			HaveKeyWithValue("reason", ContainSubstring("the last run of OpenTofu was not finished"))))

		By("with a backend that cannot be read")
		Expect(os.RemoveAll(filepath.Join(b.site.state(), "workspaces", "i-inst-1"))).To(Succeed())
		exit, _ = b.pendingChanges(ctx)
		Expect(exit).To(Equal(3))
	})

	It("starts no OpenTofu for changes that concern only BOSH", func(ctx context.Context) {
		b.deploy(ctx, nil)
		state := filepath.Join(b.site.state(), "workspaces", "i-inst-1", "terraform.tfstate")
		before, err := os.ReadFile(state)
		Expect(err).NotTo(HaveOccurred())
		b.deploy(ctx, object{"text": "new"})
		Expect(b.properties()).To(HaveKeyWithValue("text", "new"))
		after, err := os.ReadFile(state)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(after)).To(Equal(string(before)))
	})

	It("keeps sensitive outputs in the manifest if the broker stores no secrets", func(ctx context.Context) {
		b.site.set(object{"secure_manifests": false})
		b.deploy(ctx, nil)
		key, _ := b.properties()["key"].(string)
		Expect(key).NotTo(BeEmpty())
		Expect(key).NotTo(ContainSubstring("(("))
		Expect(credentials(b.bind(ctx, "bind-1", nil))).To(HaveKeyWithValue("key", key))
		Expect(b.check(ctx)).NotTo(ContainSubstring("level=WARN"))
	})

	It("has no resources left after its creation failed", func(ctx context.Context) {
		got := b.call(ctx, generateManifest, b.Generate(b.body(object{"failure": "no space"})))
		Expect(got.Exit).To(Equal(1))
		Expect(got.Stdout).To(BeEmpty())
		Expect(got.Stderr).To(ContainSubstring("Entry refused"))
		b.site.expectNothingLeft()
		b.deploy(ctx, nil)
	})

	It("can be updated again after an update that failed", func(ctx context.Context) {
		b.deploy(ctx, object{"content": "first"})
		got := b.call(ctx, generateManifest, b.Generate(b.body(object{"content": "second", "failure": "no space"})))
		Expect(got.Exit).To(Equal(1))
		Expect(b.check(ctx)).To(ContainSubstring("the next update will change resources of the provision template"))
		b.deploy(ctx, nil)
		Expect(credentials(b.bind(ctx, "bind-1", nil))).To(HaveKeyWithValue("content", "first"))
		Expect(b.check(ctx)).NotTo(ContainSubstring("level=WARN"))
	})

	DescribeTable("completes its creation after a kill", func(ctx context.Context, victim victim, point string) {
		at := b.site.point(point)
		at.Hold()
		creation := b.start(generateManifest, b.Generate(b.body(nil)))
		at.Reached()
		tofu := b.site.applying()
		if victim != theTofu {
			kill(creation.Process.Pid)
		}
		if victim != theAdapter {
			kill(tofu)
		}
		at.Release()
		got := creation.Wait()
		Expect(got.Stdout).To(BeEmpty())
		Expect(got.Exit).NotTo(Equal(0))
		b.deploy(ctx, nil)
		Expect(b.site.resources()).To(Equal([]string{"inst-1-data", "inst-1-data-grant"}))
		Expect(b.check(ctx)).NotTo(ContainSubstring("level=WARN"))
		b.site.expectNoProcesses()
	},
		Entry("of the adapter", theAdapter, beforeCreate), Entry("of OpenTofu", theTofu, afterCreate),
		Entry("of both", both, afterCreate),
	)

	It("is checked with its record while the state backend is unavailable", func(ctx context.Context) {
		b.deploy(ctx, nil)
		b.site.set(object{"state": object{
			"type":   "pg",
			"config": object{"conn_str": "postgres://nobody:x@127.0.0.1:1/none?sslmode=disable"},
		}})
		Expect(b.check(ctx)).To(ContainSubstring("the state of the instance could not be compared"))
		got := b.call(ctx, generateManifest, b.Generate(b.body(object{"content": "x"})))
		Expect(got.Exit).To(Equal(1))
		Expect(got.Stdout).To(BeEmpty())
	})

	It("is not created again if its state is missing", func(ctx context.Context) {
		b.deploy(ctx, nil)
		Expect(os.RemoveAll(filepath.Join(b.site.state(), "workspaces", "i-inst-1"))).To(Succeed())
		Expect(b.check(ctx)).To(ContainSubstring("the state backend has no state of the instance"))
		expectBroken(b.call(ctx, generateManifest, b.Generate(b.body(nil))),
			"the state backend has no state of the instance")
	})

	It("is imported with all attributes of the resource", func(ctx context.Context) {
		file := filepath.Join(b.site.entries, "inst-1-data")
		Expect(os.WriteFile(file, []byte(`{"content":"by hand","secret":"made by hand"}`), 0o600)).To(Succeed())
		b.deploy(ctx, object{"data_id": file})
		Expect(b.check(ctx)).NotTo(ContainSubstring("level=WARN"))
		Expect(credentials(b.bind(ctx, "bind-1", nil))).To(And(HaveKeyWithValue("content", "by hand"),
			HaveKeyWithValue("key", "made by hand")))
		b.deploy(ctx, object{"text": "something else"})
		text, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(text)).To(MatchJSON(`{"content":"by hand","secret":"made by hand"}`))
		b.deploy(ctx, object{"content": "changed"})
		Expect(credentials(b.bind(ctx, "bind-2", nil))).To(And(HaveKeyWithValue("content", "changed"),
			HaveKeyWithValue("key", "made by hand")))
	})

	It("receives the environment variables that the pak requires, and no others", func(ctx context.Context) {
		manifest, err := os.ReadFile(filepath.Join(b.site.pak, "manifest.yml"))
		Expect(err).NotTo(HaveOccurred())
		b.site.write("manifest.yml", string(manifest)+"required_env_variables: [CLOUD_TOKEN]\n")
		expectBroken(b.call(ctx, generateManifest, b.Generate(b.body(nil))), "pak provisioned requires CLOUD_TOKEN")
		b.site.expectNothingLeft()

		b.site.env = append(b.site.env, "CLOUD_TOKEN=the-token-of-the-cloud", "BROKER_PASSWORD=of-no-concern",
			"TF_VAR_content=of-no-concern")
		at := b.site.point(beforeCreate)
		at.Hold()
		creation := b.start(generateManifest, b.Generate(b.body(nil)))
		environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", at.Reached()))
		Expect(err).NotTo(HaveOccurred())
		at.Release()
		got := creation.Wait()
		Expect(got.Exit).To(Equal(0), got.Stderr)
		Expect(string(environment)).To(ContainSubstring("CLOUD_TOKEN=the-token-of-the-cloud\x00"))
		Expect(string(environment)).NotTo(ContainSubstring("of-no-concern"))
		Expect(b.Deploy(got.Stdout)).To(Succeed())
		Expect(b.bind(ctx, "bind-1", nil).Stdout).To(ContainSubstring(`"content":"as made"`))
	})

	It("is upgraded if the operator enables upgrades", func(ctx context.Context) {
		manifest, err := os.ReadFile(filepath.Join(b.site.pak, "manifest.yml"))
		Expect(err).NotTo(HaveOccurred())
		b.site.link(kit.OpenTofu(GinkgoT(), kit.Older), b.site.bin(olderTofu, "tofu"))
		b.site.write("manifest.yml", strings.Replace(string(manifest), kit.Newest, olderTofu, 1))
		b.deploy(ctx, nil)
		key := credentials(b.bind(ctx, "bind-1", nil))["key"]

		b.site.write("manifest.yml", strings.Replace(string(manifest), "- name: tofu",
			"- {name: tofu, version: "+olderTofu+"}\n- name: tofu", 1)+
			"terraform_upgrade_path: [{version: "+olderTofu+"}, {version: "+kit.Newest+"}]\n")
		Expect(b.check(ctx)).NotTo(ContainSubstring("level=WARN"))
		b.deploy(ctx, object{"text": "BOSH alone"})
		expectBroken(b.call(ctx, generateManifest, b.Generate(b.body(object{"content": "new"}))),
			"the instance must be upgraded")
		b.site.set(object{"terraform_upgrades_enabled": true})
		exit, changes := b.pendingChanges(ctx)
		Expect(exit).To(Equal(1))
		Expect(changes).To(ConsistOf(HaveKeyWithValue("reason",
			ContainSubstring("the state is upgraded from OpenTofu "+olderTofu+" to "+kit.Newest))))
		Expect(b.check(ctx)).To(ContainSubstring("the next update will change"))
		b.deploy(ctx, object{"content": "new"})
		Expect(credentials(b.bind(ctx, "bind-2", nil))).To(And(HaveKeyWithValue("content", "new"),
			HaveKeyWithValue("key", key)))
		Expect(b.check(ctx)).NotTo(ContainSubstring("level=WARN"))
	})

	It("of the specification's example is created, bound and unbound", func(ctx context.Context) {
		s := b.site
		Expect(os.RemoveAll(s.pak)).To(Succeed())
		Expect(os.CopyFS(s.pak, os.DirFS(kit.Path("examples", "example-email")))).To(Succeed())
		s.link(kit.OpenTofuPath(kit.Newest), s.bin(kit.Newest, "tofu"))
		s.link(kit.Provider(GinkgoT(), "random"), s.bin("terraform-provider-random_v3.7.2"))
		s.set(object{"services": object{}})
		b.ServiceID, b.PlanID = "00000000-0000-0000-0000-000000000000", "00000000-0000-0000-0000-000000000001"
		b.Plan = maps.Clone(b.Plan)
		b.Plan["instance_groups"] = []any{}
		b.Plan["properties"] = object{"brokerpak": object{"plan": "example-email-plan"}}
		b.deploy(ctx, object{"username": "me"})
		Expect(b.check(ctx)).NotTo(ContainSubstring("level=WARN"))
		got := credentials(b.bind(ctx, "bind-1", nil))
		Expect(got).To(HaveKeyWithValue("email", "me@example.com"))
		Expect(got["uri"]).To(MatchRegexp(`^smtp://me@example\.com:.{16}@smtp\.mycompany\.com$`))
		b.deploy(ctx, object{"username": "you"})
		Expect(credentials(b.bind(ctx, "bind-2", nil))).To(HaveKeyWithValue("email", "you@example.com"))
		By("moving the app from its binding to a new binding")
		current := credentials(b.bind(ctx, "bind-3", nil))
		Expect(strings.Replace(current["uri"].(string), "you@", "me@", 1)).NotTo(Equal(got["uri"]),
			"the password is the binding's own")
		Expect(b.unbind(ctx, "bind-1").Exit).To(Equal(0))
		Expect(list(filepath.Join(s.state(), "workspaces"))).To(Equal([]string{"b-bind-2", "b-bind-3", "i-inst-1"}))
		for _, id := range []string{"bind-2", "bind-3"} {
			Expect(b.unbind(ctx, id).Exit).To(Equal(0))
		}
		Expect(list(filepath.Join(s.state(), "workspaces"))).To(Equal([]string{"i-inst-1"}))
	})
})
