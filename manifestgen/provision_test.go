package manifestgen_test

import (
	"context"
	"errors"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/internal/engine/provision"
	"service-adapter/internal/fault"
	"service-adapter/internal/instance"
	"service-adapter/internal/vars"
)

// provisionCall records one call of Generator.Provision.
type provisionCall struct {
	provision.Request
	check bool
}

// fakeProvisioner stands in for OpenTofu. It returns a fixed answer and records its calls.
type fakeProvisioner struct {
	answer provision.Result
	err    error
	calls  []provisionCall
	// imported holds the input values that the next call imports from an existing resource. It is nil for none.
	imported map[string]any
}

// provision implements Generator.Provision.
func (f *fakeProvisioner) provision(_ context.Context, r provision.Request, check bool) (*provision.Result, error) {
	f.calls = append(f.calls, provisionCall{r, check})
	if f.err != nil || check {
		return nil, f.err
	}
	if f.imported != nil {
		inputs, _, err := r.Resolve(f.imported)
		if err != nil {
			return nil, err
		}
		f.calls[len(f.calls)-1].Inputs, f.imported = inputs, nil
	}
	answer := f.answer
	return &answer, nil
}

const provisionDefinition = `plans:
- {name: small, id: 3f9e4a52-2a55-4d0b-8a3c-5d9a1f0c7e02, description: Small, display_name: Small, properties: {}}
provision:
  plan_inputs: []
  user_inputs:
  - {field_name: size, type: integer, default: 1, details: A size}
  computed_inputs: []
  outputs:
  - {field_name: host, type: string, details: Where it is}
  - {field_name: password, type: string, details: How to get in}
  - {field_name: nothing, type: string, details: Nothing}
  template: |
    variable "size" {}
    output "host" { value = "h" }
    output "password" {
      value     = "p"
      sensitive = true
    }
    output "nothing" { value = null }
`

const provisionBosh = `  bosh:
    manifest: |
      instance_groups:
      - name: box
        jobs:
        - name: box
          properties: {host: ((host)), password: ((password)), nothing: ((nothing))}
    labels: {host: "${instance.details[\"host\"]}"}
    dashboard_url: https://${instance.details["host"]}/
    outputs: {url: "http://${instance.details[\"host\"]}"}
    checks: [{that: "${size < 5}", message: too big, audience: user}]
`

const provisionBind = `bind:
  plan_inputs: []
  user_inputs: []
  computed_inputs: []
  outputs: []
`

var _ = Describe("a provision template", func() {
	var (
		w    *world
		tofu *fakeProvisioner
	)

	start := func(bosh string) {
		w = newWorld(packed(map[string]string{"service.yml": provisionDefinition + bosh + provisionBind}))
		tofu = &fakeProvisioner{answer: provision.Result{
			Outputs:   map[string]any{"host": "h.example.com", "password": "s3cret", "nothing": nil},
			Sensitive: []string{"password"}, Changed: true,
		}}
		w.generator.Provision = tofu.provision
	}
	properties := func() any {
		group := w.tree()["instance_groups"].([]any)[0].(map[string]any)
		return group["jobs"].([]any)[0].(map[string]any)["properties"]
	}
	details := func() map[string]any {
		GinkgoHelper()
		view := &instance.View{
			Manifest: []byte(w.instance.Manifest), Record: recordOf(w.instance.Manifest), Secrets: w.instance.Secrets,
		}
		outputs, err := view.Details(w.service, vars.Environment{})
		Expect(err).NotTo(HaveOccurred())
		return outputs
	}

	BeforeEach(func() { start(provisionBosh) })

	It("provides its outputs to the manifest, the labels, the dashboard URL and the bindings", func() {
		result := w.must(call{Parameters: map[string]any{"size": int64(2)}})
		Expect(tofu.calls).To(HaveLen(1))
		Expect(tofu.calls[0].Inputs).To(HaveKeyWithValue("size", int64(2)))
		Expect(tofu.calls[0].InstanceID).To(Equal("one"))
		Expect(tofu.calls[0].MustExist).To(BeFalse())
		Expect(result.ODBManagedSecrets).To(BeEquivalentTo(map[string]any{"password": "s3cret"}))
		Expect(result.Labels).To(Equal(map[string]any{"host": "h.example.com"}))
		Expect(result.Manifest).NotTo(ContainSubstring("s3cret"))
		stored := "((/odb/" + w.service.ID + "/service-instance_one/password))"
		Expect(properties()).To(Equal(map[string]any{"host": "h.example.com", "password": stored, "nothing": nil}))
		Expect(recordOf(w.instance.Manifest).DashboardURL).To(Equal("https://h.example.com/"))
		Expect(details()).To(Equal(map[string]any{
			"host": "h.example.com", "password": "s3cret", "url": "http://h.example.com",
		}))
	})

	It("is not applied by the check for pending changes, which uses the recorded outputs", func() {
		w.must(call{})
		tofu.answer.Outputs = map[string]any{"host": "other.example.com", "password": "other"}
		w.expectNoPendingChanges()
		Expect(tofu.calls).To(HaveLen(2))
		Expect(tofu.calls[1].check).To(BeTrue())
		Expect(tofu.calls[1].MustExist).To(BeTrue())
	})

	It("has a sensitive output stored again only if it changed", func() {
		w.must(call{})
		tofu.answer.Changed = false
		Expect(w.must(call{}).ODBManagedSecrets).To(BeEmpty())
		tofu.answer.Outputs["password"], tofu.answer.Changed = "changed", true
		Expect(w.must(call{}).ODBManagedSecrets).To(BeEquivalentTo(map[string]any{"password-2": "changed"}))
		w.expectNoPendingChanges()
		Expect(details()).To(HaveKeyWithValue("password", "changed"))
	})

	It("has a sensitive output stored again if OpenTofu ran during an upgrade, which has no previous secrets", func() {
		w.must(call{})
		Expect(w.must(call{Upgrade: true}).ODBManagedSecrets).To(HaveLen(1))
		tofu.answer.Changed = false
		Expect(w.must(call{Upgrade: true}).ODBManagedSecrets).To(BeEmpty())
		w.expectNoPendingChanges()
	})

	It("keeps sensitive outputs in the manifest if the broker stores no secrets", func() {
		w.secure(false)
		Expect(w.must(call{}).ODBManagedSecrets).To(BeEmpty())
		Expect(properties()).To(HaveKeyWithValue("password", "s3cret"))
		Expect(details()).To(HaveKeyWithValue("password", "s3cret"))
		w.expectNoPendingChanges()
	})

	It("is not applied if it has sensitive outputs and secure_manifests is not configured", func() {
		w.generator.Secure = nil
		_, err := w.generate(call{})
		Expect(err).To(MatchError(ContainSubstring("set secure_manifests")))
		Expect(tofu.calls).To(BeEmpty())
	})

	It("is not applied if a sensitive output has the name of a secret", func() {
		start("  bosh:\n    manifest: |\n" +
			"      instance_groups: [{name: box, jobs: [{name: box, properties: {key: ((password))}}]}]\n" +
			"    secrets: [{name: password, length: 16}]\n")
		_, err := w.generate(call{})
		Expect(err).To(MatchError(ContainSubstring("has the name of a secret")))
		Expect(tofu.calls).To(BeEmpty())
	})

	DescribeTable("is not applied if the deployment lacks", func(spoil func(), message string) {
		spoil()
		_, err := w.generate(call{})
		Expect(err).To(MatchError(ContainSubstring(message)))
		Expect(tofu.calls).To(BeEmpty())
	},
		Entry("an instance group", func() { w.instance.Plan["instance_groups"] = []any{} },
			`lacks the instance group "box"`),
		Entry("a job", func() { w.instance.Deployment.Releases[0].Jobs = []string{"chest"} }, "job 'box' not provided"),
		Entry("an exact version", func() { w.instance.Deployment.Releases[0].Version = "1.latest" },
			"needs an exact version"),
		Entry("a stemcell", func() { w.instance.Deployment.Stemcells = nil }, "has no stemcells"),
	)

	It("may belong to instance groups that an ops file removes", func() {
		start(strings.Replace(provisionBosh, "    labels:", "      - {name: extra, jobs: [{name: box}]}\n"+
			"    ops: [{inline: [{type: remove, path: /instance_groups/name=extra}]}]\n    labels:", 1))
		w.instance.Plan["instance_groups"] = w.instance.Plan["instance_groups"].([]serviceadapter.InstanceGroup)[:1]
		w.must(call{})
	})

	It("may provide the names of instance groups", func() {
		start(strings.Replace(provisionBosh, "- name: box\n        jobs", "- name: ((host))\n        jobs", 1))
		w.instance.Plan["instance_groups"].([]serviceadapter.InstanceGroup)[0].Name = "h.example.com"
		w.must(call{})
	})

	It("may provide the names of jobs", func() {
		start(strings.Replace(provisionBosh,
			"- name: box\n          properties", "- name: ((host))\n          properties", 1))
		w.instance.Deployment.Releases[0].Jobs = []string{"h.example.com"}
		w.must(call{})
	})

	It("is not applied if the request is rejected", func() {
		_, err := w.generate(call{Parameters: map[string]any{"size": int64(9)}})
		var user *fault.UserError
		Expect(errors.As(err, &user)).To(BeTrue(), "%v", err)
		Expect(tofu.calls).To(BeEmpty())
	})

	It("records imported values as parameters", func() {
		tofu.imported = map[string]any{"size": int64(3)}
		w.must(call{})
		Expect(tofu.calls[0].Inputs).To(HaveKeyWithValue("size", int64(3)))
		Expect(recordOf(w.instance.Manifest).Parameters).To(Equal(map[string]any{"size": int64(3)}))
		w.expectNoPendingChanges()
		w.must(call{})
		Expect(tofu.calls[2].Inputs).To(HaveKeyWithValue("size", int64(3)))
		w.must(call{Parameters: map[string]any{"size": nil}})
		Expect(tofu.calls[3].Inputs).To(HaveKeyWithValue("size", int64(1)))
	})

	It("takes the part of an imported value that a function generates, without the text around it", func() {
		const inputs = "  computed_inputs:\n" +
			"  - {name: size, type: string, default: 's-${rand.base64(8)}-e', overwrite: true}\n"
		definition := strings.Replace(provisionDefinition, "  computed_inputs: []\n", inputs, 1)
		definition = strings.Replace(definition, "field_name: size", "field_name: other", 1)
		bosh := strings.Replace(provisionBosh, "${size < 5}", "${other < 5}", 1)
		for imported, want := range map[string]OmegaMatcher{
			"s-abc-e": Equal("s-abc-e"), "abc": MatchRegexp("^s-.{12}-e$"),
		} {
			start(bosh)
			w.install(packed(map[string]string{"service.yml": definition + bosh + provisionBind}))
			tofu.imported = map[string]any{"size": imported}
			w.must(call{})
			Expect(tofu.calls[0].Inputs).To(HaveKeyWithValue("size", want))
			w.must(call{})
			Expect(tofu.calls[1].Inputs["size"]).To(Equal(tofu.calls[0].Inputs["size"]))
		}
	})

	It("sizes the instance groups by imported values", func() {
		start(strings.Replace(provisionBosh, "  bosh:\n",
			"  bosh:\n    instance_groups: [{name: box, instances: \"${size}\"}]\n", 1))
		tofu.imported = map[string]any{"size": int64(3)}
		w.must(call{})
		Expect(w.tree()["instance_groups"]).To(HaveExactElements(HaveKeyWithValue("instances", int64(3))))
	})

	It("prefers a parameter of the request to an imported value", func() {
		tofu.imported = map[string]any{"size": int64(3)}
		w.must(call{Parameters: map[string]any{"size": int64(2)}})
		Expect(tofu.calls[0].Inputs).To(HaveKeyWithValue("size", int64(2)))
	})

	It("rejects an imported value that a user could not set", func() {
		tofu.imported = map[string]any{"size": int64(9)}
		_, err := w.generate(call{})
		Expect(err).To(MatchError(ContainSubstring("too big")))
	})

	It("causes an error without a manifest if it fails", func() {
		tofu.err = errors.New("no more addresses")
		_, err := w.generate(call{})
		Expect(err).To(MatchError(tofu.err))
	})

	It("cannot insert a reference to a credential into the manifest", func() {
		tofu.answer.Outputs["host"] = "((/other/password))"
		_, err := w.generate(call{})
		Expect(err).To(HaveOccurred())
	})

	It("cannot use an input that is the value of a secret", func() {
		start("  bosh:\n    manifest: |\n" +
			"      instance_groups: [{name: box, jobs: [{name: box, properties: {key: ((key))}}]}]\n" +
			"    secrets: [{name: key, value: \"${size}\"}]\n")
		_, err := w.generate(call{})
		Expect(err).To(MatchError(ContainSubstring(
			`input "size" is the value of secret "key", so the provision template cannot use var.size`)))
	})

	It("can be the only part of a service without BOSH jobs", func() {
		start("")
		delete(w.instance.Plan, "instance_groups")
		w.instance.Plan["instance_groups"] = []any{}
		w.must(call{})
		Expect(w.tree()["instance_groups"]).To(BeEmpty())
		Expect(details()).To(Equal(map[string]any{"host": "h.example.com", "password": "s3cret"}))
		w.expectNoPendingChanges()
	})
})
