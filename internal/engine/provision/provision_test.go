package provision_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/engine/provision"
	"service-adapter/internal/fault"
	"service-adapter/spec/kit"
)

// simple is a template with one entry, and a second one if the input "second" is not empty.
const simple = `
variable "content" {}
variable "second" { default = "" }
variable "fail" { default = "" }
resource "directory_entry" "data" {
  path    = var.path
  name    = "data"
  content = var.content
}
resource "directory_entry" "second" {
  count = var.second == "" ? 0 : 1
  path  = directory_entry.data.path
  name  = var.second
  fail  = var.fail
}
output "content" { value = directory_entry.data.content }
output "secret" {
  value     = directory_entry.data.secret
  sensitive = true
}
output "nothing" { value = null }
output "status" { value = "data is there" }
`

const inputs = `  user_inputs:
  - {field_name: content, type: string, details: x}
  - {field_name: second, type: string, details: x}
  - {field_name: fail, type: string, details: x}
  - {field_name: unused, type: string, details: x}
`

var _ = Describe("provisioning an instance", func() {
	var s *site

	BeforeEach(func() { s = newSite(pak{template: simple, provision: inputs}) })

	It("applies the template and returns its outputs", func(ctx context.Context) {
		result := s.must(ctx, object{"content": "first"})
		secret := s.entry("data")["secret"]
		Expect(s.entry("data")).To(HaveKeyWithValue("content", "first"))
		Expect(result.Outputs).To(Equal(object{"content": "first", "secret": secret, "status": "data is there"}))
		Expect(result.Sensitive).To(Equal([]string{"secret"}))
		Expect(s.logs.String()).To(ContainSubstring("data is there"))
		Expect(result.Changed).To(BeTrue())
		Expect(changes()).NotTo(BeEmpty())
	})

	It("does not run OpenTofu if the inputs are unchanged", func(ctx context.Context) {
		first := s.must(ctx, object{"content": "first", "unused": "a"})
		changes()
		Expect(s.pending(ctx, object{"content": "first"})).To(BeFalse())
		second := s.must(ctx, object{"content": "first", "unused": "b"})
		Expect(changes()).To(BeEmpty())
		Expect(second.Changed).To(BeFalse())
		Expect(second.Outputs).To(Equal(first.Outputs))
		Expect(second.Sensitive).To(Equal(first.Sensitive))
	})

	It("does not change an instance that another version of the adapter wrote", func(ctx context.Context) {
		s.must(ctx, object{"content": "first"})
		Expect(s.record(ctx).Adapter).To(Equal("1.0.0"))
		changes()
		s.AdapterVersion = "1.1.0"
		Expect(s.pending(ctx, object{"content": "first"})).To(BeFalse())
		Expect(s.must(ctx, object{"content": "first"}).Changed).To(BeFalse())
		Expect(changes()).To(BeEmpty())
		Expect(s.record(ctx).Adapter).To(Equal("1.0.0"), "the version that wrote the record")
		s.must(ctx, object{"content": "second"})
		Expect(s.record(ctx).Adapter).To(Equal("1.1.0"))
	})

	It("keeps inputs that the template does not use out of the state", func(ctx context.Context) {
		s.must(ctx, object{"content": "first", "unused": "of no concern"})
		Expect(s.stored()).NotTo(ContainSubstring("of no concern"))
	})

	It("changes an existing instance", func(ctx context.Context) {
		before := s.must(ctx, object{"content": "first"})
		Expect(s.pending(ctx, object{"content": "second"})).To(BeTrue())
		Expect(s.entry("data")).To(HaveKeyWithValue("content", "first"), "a check changes nothing")
		after := s.must(ctx, object{"content": "second"})
		Expect(after.Changed).To(BeTrue())
		Expect(after.Outputs).To(Equal(object{
			"content": "second", "status": "data is there", "secret": before.Outputs["secret"],
		}))
	})

	It("may take longer than the budget of a request only if an errand applies it", func(ctx context.Context) {
		s.Budget, s.InstanceLimit = time.Millisecond, time.Minute
		_, err := s.apply(ctx, object{"content": "x"})
		Expect(err).To(MatchError(context.DeadlineExceeded))
		s.Errand = true
		s.must(ctx, object{"content": "x"})
	})

	It("leaves no resource after a failed creation, which can be tried again", func(ctx context.Context) {
		_, err := s.apply(ctx, object{"content": "x", "second": "second", "fail": "no space"})
		Expect(err).To(MatchError(ContainSubstring("Entry refused")))
		Expect(s.entry("data")).To(BeNil())
		Expect(s.stored()).To(BeEmpty())
		s.must(ctx, object{"content": "x", "second": "second"})
	})

	It("reports the message of provision.errors to the user, also for an update", func(ctx context.Context) {
		rule := func(rule string) {
			s.install(pak{template: simple, provision: inputs + "  errors:\n  - " + rule + "\n"})
		}
		rule(`{match: 'directory_entry.*Entry refused', exit: user, message: The disk is full}`)
		full := object{"content": "x", "second": "second", "fail": "no space"}
		_, err := s.apply(ctx, full)
		Expect(fault.UserMessage(err)).To(Equal("The disk is full"), "%s", err)
		Expect(err).To(MatchError(ContainSubstring("Entry refused")))
		Expect(s.stored()).To(BeEmpty())
		s.must(ctx, object{"content": "x"})
		_, err = s.apply(ctx, full)
		Expect(fault.UserMessage(err)).To(Equal("The disk is full"), "%s", err)
		rule("{match: Entry refused, exit: user}")
		_, err = s.apply(ctx, full)
		Expect(fault.UserMessage(err)).To(HavePrefix("Entry refused: "))
		rule("{match: another error, exit: user}")
		_, err = s.apply(ctx, full)
		Expect(fault.UserMessage(err)).To(BeEmpty())
	})

	It("succeeds if OpenTofu fails after it stored everything", func(ctx context.Context) {
		s.install(pak{template: strings.Replace(simple, "value = null", `value = "here"`, 1), provision: inputs})
		fail(atEnd)
		result := s.must(ctx, object{"content": "x"})
		Expect(result.Outputs).To(Equal(object{
			"content": "x", "status": "data is there", "secret": s.entry("data")["secret"], "nothing": "here",
		}))
		Expect(s.logs.String()).To(ContainSubstring("OpenTofu failed after it had created and stored everything"))
	})

	It("leaves no resource of an incomplete creation that OpenTofu reports as successful", func(ctx context.Context) {
		mend := fail(halfway)
		_, err := s.apply(ctx, object{"content": "x"})
		Expect(err).To(MatchError(ContainSubstring("not stored as complete")))
		Expect(s.entry("data")).To(BeNil())
		Expect(s.stored()).To(BeEmpty())
		mend()
		s.must(ctx, object{"content": "x"})
	})

	It("keeps the resources when an update fails, and continues with the next request", func(ctx context.Context) {
		before := s.must(ctx, object{"content": "first"})
		_, err := s.apply(ctx, object{"content": "second", "second": "second", "fail": "no space"})
		Expect(err).To(MatchError(ContainSubstring("Entry refused")))
		Expect(s.entry("data")).To(HaveKeyWithValue("secret", before.Outputs["secret"]))
		Expect(s.pending(ctx, object{"content": "second"})).To(BeTrue())
		s.must(ctx, object{"content": "second", "second": "second"})
		Expect(s.entry("data")).To(Equal(object{"content": "second", "secret": before.Outputs["secret"]}))
		Expect(s.entry("second")).NotTo(BeNil())
	})

	It("reverts a failed update, even after an interruption", func(ctx context.Context) {
		old := object{"content": "first", "second": "second"}
		s.must(ctx, old)
		_, err := s.apply(ctx, object{"content": "second", "second": "second", "fail": "no space"})
		Expect(err).To(HaveOccurred())
		Expect(s.entry("data")).To(HaveKeyWithValue("content", "second"))
		Expect(s.pending(ctx, old)).To(BeTrue())

		Expect(os.Remove(filepath.Join(s.entries, "second"))).To(Succeed()) // so that there is something to create
		s.hold(beforeCreate)
		stopped, stop := context.WithCancel(ctx)
		ended := make(chan error)
		go func() {
			_, err := s.apply(stopped, old)
			ended <- err
		}()
		s.kill(beforeCreate)
		stop()
		Eventually(ended).Should(Receive(HaveOccurred()))
		Expect(s.pending(ctx, old)).To(BeTrue(), "the record is the old one, the resources are not")
		s.must(ctx, old)
		Expect(s.entry("data")).To(HaveKeyWithValue("content", "first"))
		Expect(s.entry("second")).NotTo(BeNil())
	})

	DescribeTable("continues after OpenTofu was killed during a creation", func(ctx context.Context, point string) {
		_ = s.killed(ctx, point, object{"content": "x"})
		Expect(s.logs.String()).To(ContainSubstring("OpenTofu was killed"))
		result := s.must(ctx, object{"content": "x"})
		Expect(result.Outputs).To(HaveKeyWithValue("content", "x"))
		s.destroy(ctx)
		Expect(s.entry("data")).To(BeNil())
	}, Entry(nil, kit.Slow(), beforeCreate), Entry(nil, afterCreate))

	DescribeTable("continues after OpenTofu was killed during a change", func(ctx context.Context, point string) {
		before := s.must(ctx, object{"content": "x"})
		_ = s.killed(ctx, point, object{"content": "x", "second": "second"})
		Expect(s.entry("data")).To(HaveKeyWithValue("secret", before.Outputs["secret"]))
		s.must(ctx, object{"content": "x", "second": "second"})
		s.destroy(ctx)
		Expect(s.entry("second")).To(BeNil())
	}, Entry(nil, kit.Slow(), beforeCreate), Entry(nil, afterCreate))

	It("executes two simultaneous requests one after the other", func(ctx context.Context) {
		var group sync.WaitGroup
		for range 2 {
			group.Go(func() {
				defer GinkgoRecover()
				result, err := s.apply(ctx, object{"content": "x"})
				Expect(err).NotTo(HaveOccurred())
				Expect(result.Outputs).To(HaveKeyWithValue("content", "x"))
			})
		}
		group.Wait()
		Expect(strings.Count(s.logs.String(), "msg=provisioned")).To(Equal(2))
	})

	It("continues a creation whose manifest was never deployed", func(ctx context.Context) {
		first := s.must(ctx, object{"content": "x"})
		s.known = false
		Expect(s.must(ctx, object{"content": "y"}).Outputs).To(Equal(object{
			"content": "y", "status": "data is there", "secret": first.Outputs["secret"],
		}))
	})

	It("does not create an instance again that its manifest contains and that has no state", func(ctx context.Context) {
		s.known = true
		_, err := s.apply(ctx, object{"content": "x"})
		Expect(err).To(MatchError(provision.ErrStateMissing))
		Expect(err).To(MatchError(ContainSubstring("delete the service instance")))
		_, err = s.Plan(ctx, s.request(object{"content": "x"}), false)
		Expect(err).To(MatchError(provision.ErrStateMissing))
		Expect(s.stored()).To(BeEmpty())
	})

	It("needs an instance id", func(ctx context.Context) {
		s.id = ""
		_, err := s.apply(ctx, nil)
		Expect(err).To(MatchError(ContainSubstring("no instance id")))
	})

	It("does not create an instance again that an operator is destroying", func(ctx context.Context) {
		s.must(ctx, object{"content": "x", "second": "second"})
		s.hold("before-destroy")
		ended := make(chan error)
		go func() { ended <- s.DestroyStored(ctx, lifecycle.Instance, s.id) }()
		s.kill("before-destroy")
		Eventually(ended).Should(Receive(HaveOccurred()))
		const begun = "is not finished: delete the service instance again"
		_, err := s.Plan(ctx, s.request(object{"content": "x"}), false)
		Expect(err).To(MatchError(ContainSubstring(begun)))
		_, err = s.apply(ctx, object{"content": "x", "second": "second"})
		Expect(err).To(MatchError(ContainSubstring(begun)))
		s.destroy(ctx)
	})
})

var _ = Describe("a protected resource", func() {
	It("is destroyed only by an operator, and stays protected in the record", func(ctx context.Context) {
		s := newSite(pak{provision: inputs, template: `
resource "directory_entry" "data" {
  path = var.path
  name = var.content
  lifecycle {
    prevent_destroy = true
  }
}
variable "content" {}
`})
		s.must(ctx, object{"content": "one"})
		_, err := s.apply(ctx, object{"content": "two"})
		Expect(err).To(MatchError(ContainSubstring("directory_entry.data")))
		Expect(s.entry("one")).NotTo(BeNil())

		s.hold("before-destroy")
		ended := make(chan error)
		go func() { ended <- s.DestroyStored(ctx, lifecycle.Instance, s.id) }()
		s.kill("before-destroy")
		Eventually(ended).Should(Receive(HaveOccurred()))
		Expect(s.record(ctx).Templates["main.tf"]).To(ContainSubstring("prevent_destroy = true"))
		s.destroy(ctx)
		Expect(s.entry("one")).To(BeNil())
	})
})
