package provision_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/backend"
	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/templates"
	"service-adapter/internal/engine/workspace"
)

// chosen is a template that OpenTofu can evaluate only if the content is "reader".
const chosen = `
resource "directory_entry" "data" {
  path    = var.path
  name    = "data"
  content = { reader = "r" }[var.content]
}
variable "content" {}
`

var _ = Describe("an instance whose template cannot be evaluated", func() {
	var s *site
	BeforeEach(func() { s = newSite(pak{template: chosen, provision: inputs}) })

	It("leaves no workspace after a failed request, because OpenTofu created no resource", func(ctx context.Context) {
		_, err := s.apply(ctx, object{"content": "admin"})
		Expect(err).To(MatchError(ContainSubstring("Invalid index")))
		Expect(s.stored()).To(BeEmpty())
		Expect(changes()).To(Equal([]string{newest + " apply"}), "nothing is destroyed")
		s.must(ctx, object{"content": "reader"})
	})

	It("records why a creation by an errand failed, and can be destroyed", func(ctx context.Context) {
		s.Errand = true
		_, err := s.apply(ctx, object{"content": "admin"})
		Expect(err).To(MatchError(ContainSubstring("Invalid index")))
		_, _, err = s.AppliedOutputs(ctx, s.id)
		Expect(err).To(MatchError(ContainSubstring("Invalid index")), "the next bind says why")
		Expect(s.DestroyStored(ctx, lifecycle.Instance, s.id)).To(Succeed())
		Expect(s.stored()).To(BeEmpty())
	})

	It("is destroyed after a kill before OpenTofu evaluated the template", func(ctx context.Context) {
		s.reserve(ctx, object{"path": s.entries, "content": "admin"})
		Expect(s.DestroyStored(ctx, lifecycle.Instance, s.id)).To(Succeed())
		Expect(s.stored()).To(BeEmpty())
	})

	It("is destroyed with its resources", func(ctx context.Context) {
		s.must(ctx, object{"content": "reader"})
		_, err := s.apply(ctx, object{"content": "admin"})
		Expect(err).To(MatchError(ContainSubstring("Invalid index")))
		Expect(s.entry("data")).NotTo(BeNil())
		Expect(s.DestroyStored(ctx, lifecycle.Instance, s.id)).To(Succeed())
		Expect(s.entry("data")).To(BeNil())
		Expect(s.stored()).To(BeEmpty())
	})
})

// reserve reserves the workspace of an instance, like an adapter that was killed right afterwards.
func (s *site) reserve(ctx context.Context, inputs object) {
	GinkgoHelper()
	request := s.request(inputs)
	record := &lifecycle.StateRecord{
		Subject: lifecycle.Subject{Instance: request.Instance},
		Source: lifecycle.Source{
			Templates: s.pak.Services[0].Provision.Templates, Declared: s.pak.Services[0].Provision.InputNames(),
		},
		ResolvedInputs: lifecycle.ResolvedInputs{Inputs: inputs},
	}
	installation := s.installed(ctx)
	record.SetInstallation(s.pak, installation)
	encoded, err := record.Encode("1.2.3")
	Expect(err).NotTo(HaveOccurred())
	space, err := s.Engine.Open(ctx, "i-"+s.id)
	Expect(err).NotTo(HaveOccurred())
	Expect(space.Reserve(ctx, installation, encoded)).To(Succeed())
	Expect(space.Close()).To(Succeed())
}

// installed returns the default OpenTofu of the site's pak with its providers.
func (s *site) installed(ctx context.Context) opentofu.Installation {
	GinkgoHelper()
	installation, err := s.Installation(ctx, s.pak, "")
	Expect(err).NotTo(HaveOccurred())
	return installation
}

var _ = Describe("a creation that another machine began", func() {
	It("is taken over before it is finished, so that the other machine cannot continue", func(ctx context.Context) {
		s := newSite(pak{template: simple, provision: inputs})
		s.reserve(ctx, object{"path": s.entries, "content": "first"})
		machine, err := workspace.New(workspace.Options{
			CacheDir: filepath.Join(GinkgoT().TempDir(), "cache"),
			Backend:  backend.Local(filepath.Join(shared, "state")),
		})
		Expect(err).NotTo(HaveOccurred())
		installation := s.installed(ctx)
		prepared, err := machine.Prepare(ctx, installation, templates.Template{
			Files: s.pak.Services[0].Provision.Templates, Inputs: s.pak.Services[0].Provision.InputNames(),
		})
		Expect(err).NotTo(HaveOccurred())
		theirs, err := machine.Open(ctx, "i-"+s.id)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(theirs.Close)
		_, err = theirs.State(ctx, installation) // it is alive, between its reservation and its apply
		Expect(err).NotTo(HaveOccurred())

		s.must(ctx, object{"content": "second"})
		err = theirs.Apply(ctx, prepared, object{"path": s.entries, "content": "first"})
		Expect(err).To(MatchError(workspace.ErrTakenOver))
		Expect(s.entry("data")).To(HaveKeyWithValue("content", "second"))
	})

	It("is used as it is if the other machine finished it first", func(ctx context.Context) {
		s := newSite(pak{template: simple, provision: inputs})
		s.must(ctx, object{"content": "first"})
		s.known = false
		Expect(s.must(ctx, object{"content": "first"}).Changed).To(BeFalse())
	})
})

var _ = Describe("an instance whose destruction was interrupted", func() {
	It("is rejected with the advice to delete the service instance again", func(ctx context.Context) {
		s := newSite(pak{template: simple, provision: inputs})
		s.must(ctx, object{"content": "x"})
		s.hold("before-destroy")
		ended := make(chan error)
		go func() { ended <- s.DestroyStored(ctx, lifecycle.Instance, s.id) }()
		s.kill("before-destroy")
		Eventually(ended).Should(Receive(HaveOccurred()))

		s.Errand = true
		_, err := s.apply(ctx, object{"content": "x"})
		Expect(err).To(MatchError(ContainSubstring("delete the service instance again")))
		Expect(strings.Count(err.Error(), "service-adapter instance apply")).To(BeZero(),
			"the user of an errand cannot run it")
		stored, err := s.Lookup(ctx, lifecycle.Instance, s.id)
		Expect(err).NotTo(HaveOccurred())
		Expect(stored.Condition.CheckUsable()).To(MatchError(ContainSubstring("delete the service instance again")))
		Expect(os.RemoveAll(filepath.Join(s.entries, ".hold-before-destroy"))).To(Succeed())
		s.destroy(ctx)
	})
})
