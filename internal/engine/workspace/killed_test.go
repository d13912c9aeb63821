package workspace_test

import (
	"context"
	"errors"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/workspace"
)

var _ = Describe("an OpenTofu that is killed after it created a resource", func() {
	It("leaves a creation to finish, although its state lacks the resource", func(ctx context.Context) {
		s := newSite()
		engine := s.engine()
		prepared := prepare(ctx, engine, oneEntry+`
resource "terraform_data" "role" { input = "role" }`)
		space := open(ctx, engine, "b-1")
		DeferCleanup(space.Close)
		Expect(space.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
		s.blockProvider("after-create")
		applied := make(chan error)
		go func() { applied <- space.Apply(ctx, prepared, s.vars()) }()
		s.waitForProvider("after-create")
		Eventually(func() []byte { return readFile(filepath.Join(s.cache, "runs", "b-1", "apply.stdout")) }).
			Should(ContainSubstring("terraform_data.role: Creation complete"))
		kill(s.tofuPID("b-1"))
		s.releaseProvider("after-create")
		var err error
		Eventually(applied).Should(Receive(&err))
		var lost *workspace.LostError
		Expect(errors.As(err, &lost)).To(BeFalse(), "%v", err)
		Expect(space.Apply(ctx, prepared, s.vars())).To(Succeed())
		Expect(space.Destroy(ctx, prepared, s.vars())).To(Succeed())
		Expect(filepath.Join(s.entries, "account")).NotTo(BeAnExistingFile())
	})
})
