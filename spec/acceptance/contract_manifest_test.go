package acceptance_test

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"gopkg.in/yaml.v3"

	"service-adapter/internal/odb"
)

// upgradeBody is the body of a request for an upgrade.
const upgradeBody = `{"context":null}`

// expectSame asserts that a generated manifest equals the deployed one in the broker's comparison, and that no secrets
// are returned.
func expectSame(deployed string, got answer) {
	GinkgoHelper()
	Expect(got.Exit).To(Equal(0), got.Stderr)
	product := decode(got.Stdout)
	same, err := odb.SameManifests(deployed, product["manifest"].(string))
	Expect(err).NotTo(HaveOccurred())
	Expect(same).To(BeTrue(), "deployed:\n%s\ngenerated:\n%s", deployed, product["manifest"])
	Expect(product["secrets"]).To(BeEmpty(), "an unchanged update has no secrets to store")
}

// job returns the properties of the only job of a manifest.
func job(manifest string) object {
	GinkgoHelper()
	var decoded struct {
		Groups []struct {
			Jobs []struct{ Properties object }
		} `yaml:"instance_groups"`
	}
	Expect(yaml.Unmarshal([]byte(manifest), &decoded)).To(Succeed())
	Expect(decoded.Groups).NotTo(BeEmpty())
	return decoded.Groups[0].Jobs[0].Properties
}

var _ = Describe("the contract of generate-manifest", func() {
	var b *broker

	BeforeEach(func() { b = newBroker(newSite("entries")) })

	It("row 1: accepts all five objects, also if four of them have empty leaves", func(ctx context.Context) {
		empty := map[string]object{
			"dashboard_url": {"instance_id": "", "plan": "", "manifest": ""},
			"create_binding": {
				"binding_id": "", "bosh_vms": "", "manifest": "", "request_parameters": "",
				"secrets": "", "dns_addresses": "",
			},
			"delete_binding": {
				"binding_id": "", "bosh_vms": "", "manifest": "", "request_parameters": "",
				"secrets": "", "dns_addresses": "",
			},
			"generate_plan_schemas": {"plan": ""},
		}
		input := decode(stdin(generateManifest, b.Generate(b.body(nil))))
		for name, leaves := range empty {
			input[name] = leaves
		}
		Expect(b.run(ctx, encode(input)+"\n", generateManifest).Exit).To(Equal(0))
	})

	It("row 2: distinguishes the first deployment from an update", func(ctx context.Context) {
		got := b.deploy(ctx, nil)
		Expect(decode(got.Stdout)["secrets"]).To(HaveKey("admin_password"))
		Expect(b.Manifest).To(ContainSubstring("canaries: 1\n"))
		b.deploy(ctx, nil)
		Expect(b.Manifest).To(ContainSubstring("canaries: 2\n"))
	})

	It("row 3: generates new values for each creation, and keeps the values of the deployed manifest",
		func(ctx context.Context) {
			body := b.body(object{"text": "mine"})
			first, second := b.call(ctx, generateManifest, b.Generate(body)), b.call(ctx, generateManifest,
				b.Generate(body))
			Expect(first.Stdout).NotTo(Equal(second.Stdout))
			Expect(b.Deploy(first.Stdout)).To(Succeed())
			expectSame(b.Manifest, b.call(ctx, generateManifest, b.Generate(body)))
		})

	It("row 4: reproduces the deployed manifest in the check for pending changes", func(ctx context.Context) {
		b.deploy(ctx, object{"text": "mine", "number": 2.5, "tree": object{"a": []any{1, nil, "x"}}})
		for range 2 {
			expectSame(b.Manifest, b.call(ctx, generateManifest, b.Generate(object{})))
			b.deploy(ctx, nil) // and after an update without changes
		}
		b.deploy(ctx, object{"number": 3})
		expectSame(b.Manifest, b.call(ctx, generateManifest, b.Generate(object{})))
	})

	It("row 5: changes only versions in an upgrade, and needs no value of a secret", func(ctx context.Context) {
		b.deploy(ctx, object{"text": "mine"})
		b.Deployment.Releases[0].Version, b.Deployment.Stemcells[0].Version = "1.3.0", "1.7"
		parameters := b.Generate(nil)
		parameters["request_parameters"], parameters["previous_secrets"] = upgradeBody, "null"
		expected := strings.NewReplacer(`1.2.3`, `1.3.0`, `"1.1"`, `"1.7"`).Replace(b.Manifest)
		Expect(expected).NotTo(Equal(b.Manifest))
		expectSame(expected, b.call(ctx, generateManifest, parameters))
	})

	It("row 6: accepts request parameters that are null", func(ctx context.Context) {
		parameters := b.Generate(nil)
		parameters["request_parameters"] = "null"
		Expect(b.call(ctx, generateManifest, parameters).Exit).To(Equal(0))
	})

	DescribeTable("row 7: rejects parameters with a message for the user if they",
		func(ctx context.Context, parameters any, message string) {
			body := b.body(nil)
			body["parameters"] = parameters
			expectRefused(b.call(ctx, generateManifest, b.Generate(body)), message)
			b.deploy(ctx, nil)
			bind := b.body(nil)
			bind["parameters"] = parameters
			expectRefused(b.call(ctx, createBinding, b.Bind("bind-1", bind)), message)
		},
		Entry("are not an object", []any{"text"}, "parameters must be a JSON object, not an array"),
		Entry("are a text", "text", "parameters must be a JSON object, not a string"),
		Entry("are not declared", object{"nmber": 1}, `parameter "nmber" is not supported (did you mean "number"?)`),
		Entry("have the wrong type", object{"number": "many"}, `"number" must be a number, not a string`),
	)

	It("row 8: accepts a deployed manifest with keys that the broker's struct does not have",
		func(ctx context.Context) {
			b.deploy(ctx, object{"text": "mine"})
			before := b.Manifest
			b.Manifest = strings.Replace(before, "instance_groups:\n  - name: server\n",
				"instance_groups:\n  - name: server\n    update: {serial: true}\n", 1)
			Expect(b.Manifest).NotTo(Equal(before))
			_, err := odb.SameManifests(before, b.Manifest)
			Expect(err).To(HaveOccurred())
			expectSame(before, b.call(ctx, generateManifest, b.Generate(object{})))
			Expect(b.bind(ctx, "bind-1", nil).Exit).To(Equal(0))
		})

	It("keeps a reference that is no longer allowed while the broker compares manifests, and rejects the update "+
		"until the reference is removed", func(ctx context.Context) {
		const path = "/shared/redis_secret"
		redis := newRedisBroker(newSite("redis"))
		redis.site.set(object{"allowed_references": []string{path}})
		redis.deploy(ctx, object{"credhub_secret_path": path})
		Expect(redis.Manifest).To(ContainSubstring("((" + path + "))"))

		redis.site.set(object{"allowed_references": []string{path + "2"}})
		expectSame(redis.Manifest, redis.call(ctx, generateManifest, redis.Generate(object{})))
		for _, body := range []object{redis.body(object{"maxclients": 7}), {"context": object{}}} {
			refused := redis.call(ctx, generateManifest, redis.Generate(body))
			expectRefused(refused,
				`parameter "credhub_secret_path" is the path of a credential that the operator no longer allows`)
			Expect(refused.Stderr).To(ContainSubstring("with allowed_references again"))
		}
		expectRefused(redis.call(ctx, generateManifest,
			redis.Generate(redis.body(object{"credhub_secret_path": "/another"}))),
			"must be the path of a credential that the operator allows")
		redis.deploy(ctx, object{"credhub_secret_path": nil})
		Expect(redis.Manifest).NotTo(ContainSubstring(path))
		expectSame(redis.Manifest, redis.call(ctx, generateManifest, redis.Generate(object{})))
	})

	DescribeTable("row 10: accepts a UAA client", func(ctx context.Context, client any) {
		parameters := b.Generate(b.body(nil))
		input := decode(stdin(generateManifest, parameters))
		leaves := input["generate_manifest"].(object)
		if leaves["uaa_client"] = client; client == "absent" {
			delete(leaves, "uaa_client")
		}
		Expect(b.run(ctx, encode(input), generateManifest).Exit).To(Equal(0))
	},
		Entry("that is a string", `{"client_id":"inst-1","client_secret":"a-client-secret","name":"n","scopes":"s"}`),
		Entry("that is an object", object{"client_id": "inst-1", "client_secret": "a-client-secret"}),
		Entry(`that is "null"`, "null"), Entry("that is null", nil), Entry("that is an empty string", ""),
		Entry("that is absent", "absent"),
	)

	It("row 15: returns the value of each new secret as a string, and of no existing secret",
		func(ctx context.Context) {
			product := decode(b.call(ctx, generateManifest, b.Generate(b.body(nil))).Stdout)
			secrets := product["secrets"].(object)
			Expect(secrets).NotTo(BeEmpty())
			for name, secret := range secrets {
				Expect(product["manifest"]).To(ContainSubstring("((odb_secret:" + name + "))"))
				Expect(secret).To(BeAssignableToTypeOf(""))
				Expect(product["manifest"]).NotTo(ContainSubstring(secret.(string)))
			}
			b.deploy(ctx, nil)
			Expect(decode(b.deploy(ctx, object{"text": "other"}).Stdout)["secrets"]).To(BeEmpty())
		})

	It("row 16: writes one document to standard output, and no secret to standard error", func(ctx context.Context) {
		got := b.deploy(ctx, nil)
		Expect(got.Stdout).To(HaveSuffix("}\n"))
		for _, secret := range b.Secrets {
			Expect(got.Stderr).NotTo(ContainSubstring(secret))
		}
	})

	DescribeTable("row 21: rejects a request that the broker would reject without a reason, for",
		func(ctx context.Context, change func(), message string) {
			change()
			got := b.call(ctx, generateManifest, b.Generate(b.body(nil)))
			Expect(got.Exit).To(Equal(1))
			Expect(got.Stdout).To(BeEmpty())
			Expect(got.Stderr).To(ContainSubstring(message))
		},
		Entry("a release version latest", func() { b.Deployment.Releases[0].Version = "latest" }, `version \"latest\"`),
		Entry("a stemcell version latest", func() {
			b.Deployment.Stemcells[0].Version = "621.latest"
		}, `version \"621.latest\"`),
	)

	It("row 21: names the manifest as the broker requires, regardless of the name in the template",
		func(ctx context.Context) {
			b.site.write("manifest-template.yml",
				"name: another\nstemcells: []\ninstance_groups:\n- name: server\n  jobs:\n  - name: server\n"+
					"    properties: {admin_password: ((admin_password))}\n")
			b.deploy(ctx, nil)
			Expect(b.Manifest).To(HavePrefix("name: service-instance_inst-1\n"))
		})

	It("row 22: generates a complete update block, and uses the one of the plan if the plan has one",
		func(ctx context.Context) {
			update := func() object {
				var decoded struct{ Update object }
				Expect(yaml.Unmarshal([]byte(b.Manifest), &decoded)).To(Succeed())
				return decoded.Update
			}
			b.deploy(ctx, nil)
			Expect(update()).To(And(HaveKey("canaries"), HaveKey("max_in_flight"), HaveKey("canary_watch_time"),
				HaveKey("update_watch_time")))
			b.Plan["update"] = object{
				"canaries": 3, "max_in_flight": "50%", "canary_watch_time": "1-2", "update_watch_time": "3-4",
				"serial": false,
			}
			b.deploy(ctx, nil)
			Expect(update()).To(Equal(object{
				"canaries": 3, "max_in_flight": "50%", "canary_watch_time": "1-2", "update_watch_time": "3-4",
				"serial": false,
			}))
		})
})

// expectRefused asserts that a command failed with this message for the user, on one line and without a stack trace.
func expectRefused(got answer, message string) {
	GinkgoHelper()
	Expect(got.Exit).To(Equal(1))
	Expect(got.Stdout).To(ContainSubstring(message))
	Expect(strings.Count(strings.TrimSuffix(got.Stdout, "\n"), "\n")).To(BeZero(), got.Stdout)
	Expect(len(got.Stdout)).To(BeNumerically("<", 1000))
	Expect(got.Stderr).NotTo(ContainSubstring("goroutine"))
}

// expectBroken asserts that a command failed with this message for the operator, on one line, and without a message for
// the user.
func expectBroken(got answer, message string) {
	GinkgoHelper()
	Expect(got.Exit).To(Equal(1))
	Expect(got.Stdout).To(BeEmpty())
	Expect(got.Stderr).To(ContainSubstring(message))
	Expect(got.Stderr).NotTo(ContainSubstring("goroutine"))
	lines := 0
	for line := range strings.Lines(got.Stderr) {
		if !strings.HasPrefix(line, "[odb-sdk]") && !strings.Contains(line, "level=INFO") {
			lines++
		}
	}
	Expect(lines).To(Equal(1), got.Stderr)
}
