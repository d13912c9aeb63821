package manifestgen_test

import (
	"context"
	"errors"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/brokerpak/instance"
	"service-adapter/brokerpak/vars"
	"service-adapter/internal/fault"
	"service-adapter/internal/provision"
)

// asked is what OpenTofu was asked for.
type asked struct {
	provision.Request
	check bool
}

// builder stands for OpenTofu: what it would answer, and what it was asked for.
type builder struct {
	answer provision.Result
	err    error
	asked  []asked
	// found is what an import finds.
	found map[string]any
}

func (b *builder) provision(_ context.Context, r provision.Request, check bool) (*provision.Result, error) {
	b.asked = append(b.asked, asked{r, check})
	if b.err != nil || check {
		return nil, b.err
	}
	if b.found != nil {
		inputs, _, err := r.Resolve(b.found)
		if err != nil {
			return nil, err
		}
		b.asked[len(b.asked)-1].Inputs, b.found = inputs, nil
	}
	answer := b.answer
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
		tofu *builder
	)

	start := func(bosh string) {
		w = newWorld(packed(map[string]string{"service.yml": provisionDefinition + bosh + provisionBind}))
		tofu = &builder{answer: provision.Result{
			Outputs: map[string]any{"host": "h.example.com", "password": "s3cret", "nothing": nil}, Sensitive: []string{"password"}, Changed: true,
		}}
		w.generator.Provision = tofu.provision
	}
	properties := func() any {
		group := w.tree()["instance_groups"].([]any)[0].(map[string]any)
		return group["jobs"].([]any)[0].(map[string]any)["properties"]
	}
	details := func() map[string]any {
		GinkgoHelper()
		view := &instance.View{Manifest: []byte(w.instance.Manifest), Record: recordOf(w.instance.Manifest), Secrets: w.instance.Secrets}
		found, err := view.Details(w.service, vars.Environment{})
		Expect(err).NotTo(HaveOccurred())
		return found
	}

	BeforeEach(func() { start(provisionBosh) })

	It("gives its outputs to the manifest, the labels, the dashboard and the bindings", func() {
		result := w.must(call{Parameters: map[string]any{"size": int64(2)}})
		Expect(tofu.asked).To(HaveLen(1))
		Expect(tofu.asked[0].Inputs).To(HaveKeyWithValue("size", int64(2)))
		Expect(tofu.asked[0].InstanceID).To(Equal("one"))
		Expect(tofu.asked[0].Known).To(BeFalse())
		Expect(result.ODBManagedSecrets).To(BeEquivalentTo(map[string]any{"password": "s3cret"}))
		Expect(result.Labels).To(Equal(map[string]any{"host": "h.example.com"}))
		Expect(result.Manifest).NotTo(ContainSubstring("s3cret"))
		stored := "((/odb/" + w.service.ID + "/service-instance_one/password))"
		Expect(properties()).To(Equal(map[string]any{"host": "h.example.com", "password": stored, "nothing": nil}))
		Expect(recordOf(w.instance.Manifest).DashboardURL).To(Equal("https://h.example.com/"))
		Expect(details()).To(Equal(map[string]any{"host": "h.example.com", "password": "s3cret", "url": "http://h.example.com"}))
	})

	It("is not applied by the check for pending changes, whose outputs are those of the manifest", func() {
		w.must(call{})
		tofu.answer.Outputs = map[string]any{"host": "other.example.com", "password": "other"}
		w.expectNoPendingChanges()
		Expect(tofu.asked).To(HaveLen(2))
		Expect(tofu.asked[1].check).To(BeTrue())
		Expect(tofu.asked[1].Known).To(BeTrue())
	})

	It("asks the broker to store a sensitive output again only when it changed", func() {
		w.must(call{})
		tofu.answer.Changed = false
		Expect(w.must(call{}).ODBManagedSecrets).To(BeEmpty())
		tofu.answer.Outputs["password"], tofu.answer.Changed = "changed", true
		Expect(w.must(call{}).ODBManagedSecrets).To(BeEquivalentTo(map[string]any{"password-2": "changed"}))
		w.expectNoPendingChanges()
		Expect(details()).To(HaveKeyWithValue("password", "changed"))
	})

	It("stores a sensitive output again when an upgrade, which gets no secrets, ran OpenTofu", func() {
		w.must(call{})
		Expect(w.must(call{Upgrade: true}).ODBManagedSecrets).To(HaveLen(1))
		tofu.answer.Changed = false
		Expect(w.must(call{Upgrade: true}).ODBManagedSecrets).To(BeEmpty())
		w.expectNoPendingChanges()
	})

	It("keeps sensitive outputs in the manifest where the broker stores no secrets", func() {
		w.secure(false)
		Expect(w.must(call{}).ODBManagedSecrets).To(BeEmpty())
		Expect(properties()).To(HaveKeyWithValue("password", "s3cret"))
		Expect(details()).To(HaveKeyWithValue("password", "s3cret"))
		w.expectNoPendingChanges()
	})

	It("needs to know whether the broker stores secrets", func() {
		w.generator.Secure = nil
		_, err := w.generate(call{})
		Expect(err).To(MatchError(ContainSubstring("set secure_manifests")))
		Expect(tofu.asked).To(BeEmpty())
	})

	It("is not applied when a sensitive output has the name of a secret", func() {
		start("  bosh:\n    manifest: |\n      instance_groups: [{name: box, jobs: [{name: box, properties: {key: ((password))}}]}]\n" +
			"    secrets: [{name: password, length: 16}]\n")
		_, err := w.generate(call{})
		Expect(err).To(MatchError(ContainSubstring("has the name of a secret")))
		Expect(tofu.asked).To(BeEmpty())
	})

	DescribeTable("is not applied when the manifest cannot be completed", func(spoil func(), message string) {
		spoil()
		_, err := w.generate(call{})
		Expect(err).To(MatchError(ContainSubstring(message)))
		Expect(tofu.asked).To(BeEmpty())
	},
		Entry("for want of an instance group", func() { w.instance.Plan["instance_groups"] = []any{} }, `lacks the instance group "box"`),
		Entry("for want of a job", func() { w.instance.Deployment.Releases[0].Jobs = []string{"chest"} }, "job 'box' not provided"),
		Entry("for want of an exact version", func() { w.instance.Deployment.Releases[0].Version = "1.latest" }, "needs an exact version"),
		Entry("for want of a stemcell", func() { w.instance.Deployment.Stemcells = nil }, "has no stemcells"),
	)

	It("may give the names of instance groups", func() {
		start(strings.Replace(provisionBosh, "- name: box\n        jobs", "- name: ((host))\n        jobs", 1))
		w.instance.Plan["instance_groups"].([]serviceadapter.InstanceGroup)[0].Name = "h.example.com"
		w.must(call{})
	})

	It("may give the names of jobs", func() {
		start(strings.Replace(provisionBosh, "- name: box\n          properties", "- name: ((host))\n          properties", 1))
		w.instance.Deployment.Releases[0].Jobs = []string{"h.example.com"}
		w.must(call{})
	})

	It("is not applied when the request is refused", func() {
		_, err := w.generate(call{Parameters: map[string]any{"size": int64(9)}})
		var user *fault.UserError
		Expect(errors.As(err, &user)).To(BeTrue(), "%v", err)
		Expect(tofu.asked).To(BeEmpty())
	})

	It("makes parameters of what an import finds", func() {
		tofu.found = map[string]any{"size": int64(3)}
		w.must(call{})
		Expect(tofu.asked[0].Inputs).To(HaveKeyWithValue("size", int64(3)))
		Expect(recordOf(w.instance.Manifest).Parameters).To(Equal(map[string]any{"size": int64(3)}))
		w.expectNoPendingChanges()
		w.must(call{})
		Expect(tofu.asked[2].Inputs).To(HaveKeyWithValue("size", int64(3)))
		w.must(call{Parameters: map[string]any{"size": nil}})
		Expect(tofu.asked[3].Inputs).To(HaveKeyWithValue("size", int64(1)))
	})

	It("leaves a parameter of the request what it is, whatever an import finds", func() {
		tofu.found = map[string]any{"size": int64(3)}
		w.must(call{Parameters: map[string]any{"size": int64(2)}})
		Expect(tofu.asked[0].Inputs).To(HaveKeyWithValue("size", int64(2)))
	})

	It("refuses what an import finds where a user could not set it", func() {
		tofu.found = map[string]any{"size": int64(9)}
		_, err := w.generate(call{})
		Expect(err).To(MatchError(ContainSubstring("too big")))
	})

	It("that fails makes no manifest", func() {
		tofu.err = errors.New("no more addresses")
		_, err := w.generate(call{})
		Expect(err).To(MatchError(tofu.err))
	})

	It("cannot put a reference to a credential into the manifest", func() {
		tofu.answer.Outputs["host"] = "((/other/password))"
		_, err := w.generate(call{})
		Expect(err).To(HaveOccurred())
	})

	It("cannot use an input that is a secret", func() {
		start("  bosh:\n    manifest: |\n      instance_groups: [{name: box, jobs: [{name: box, properties: {key: ((key))}}]}]\n" +
			"    secrets: [{name: key, value: \"${size}\"}]\n")
		_, err := w.generate(call{})
		Expect(err).To(MatchError(ContainSubstring(`input "size" is the value of secret "key", so the provision template cannot use var.size`)))
	})

	It("serves a service without any BOSH job", func() {
		start("")
		delete(w.instance.Plan, "instance_groups")
		w.instance.Plan["instance_groups"] = []any{}
		w.must(call{})
		Expect(w.tree()["instance_groups"]).To(BeEmpty())
		Expect(details()).To(Equal(map[string]any{"host": "h.example.com", "password": "s3cret"}))
		w.expectNoPendingChanges()
	})
})
