package workspace_test

import (
	"context"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/statestore"
	"service-adapter/internal/engine/templates"
	"service-adapter/internal/engine/workspace"
	"service-adapter/spec/kit"
)

// The OpenTofu versions of an upgrade. The first one is the oldest that is supported.
const (
	oldestVersion = kit.Oldest
	middleVersion = kit.Older
)

// withVersion returns an installation with another OpenTofu.
func withVersion(version string) opentofu.Installation {
	GinkgoHelper()
	i := installation()
	i.Binary, i.Version = kit.OpenTofu(GinkgoT(), version), version
	return i
}

// prepareWith prepares a template for an installation, which must succeed.
func prepareWith(
	ctx context.Context, engine *workspace.Engine, i opentofu.Installation, text string,
) *templates.Prepared {
	GinkgoHelper()
	prepared, err := engine.Prepare(ctx, i,
		templates.Template{Files: map[string]string{"main.tf": text}, Inputs: []string{"extra"}})
	Expect(err).NotTo(HaveOccurred())
	return prepared
}

// stateOf reads the state of a workspace, which must succeed.
func stateOf(ctx context.Context, space *workspace.Workspace, i opentofu.Installation) *statestore.State {
	GinkgoHelper()
	state, err := space.State(ctx, i)
	Expect(err).NotTo(HaveOccurred())
	return state
}

// storedText returns the stored state of i-1.
func (s site) storedText() string {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(s.state, "workspaces", "i-1", "terraform.tfstate"))
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}

// versions is a template that uses the generated files in every version: it has an undeclared input, an output that is
// not marked sensitive and a protected resource.
const versions = oneEntry + `
resource "directory_entry" "protected" {
  path = var.path
  name = "protected"
  content = var.extra
  lifecycle { prevent_destroy = true }
}
`

var _ = Describe("an upgrade of OpenTofu", func() {
	var (
		s      site
		engine *workspace.Engine
		space  *workspace.Workspace
	)

	BeforeEach(func(ctx context.Context) {
		s = newSite()
		engine = s.engine()
		space = open(ctx, engine, "i-1")
		DeferCleanup(func() { Expect(space.Close()).To(Succeed()) })
	})

	It("proceeds from version to version, keeps the resources and ends with a destroy", func(ctx context.Context) {
		first := withVersion(oldestVersion)
		vars := s.vars()
		vars["extra"] = "more"
		Expect(space.Reserve(ctx, first, []byte("record"))).To(Succeed())
		Expect(space.Apply(ctx, prepareWith(ctx, engine, first, versions), vars)).To(Succeed())
		before := stateOf(ctx, space, first)
		Expect(before.TofuVersion).To(Equal(oldestVersion))
		Expect(before.Complete).To(BeTrue())
		Expect(opentofu.Older(before.TofuVersion, middleVersion)).To(BeTrue())
		Expect(opentofu.Older(before.TofuVersion, oldestVersion)).To(BeFalse())

		begin := time.Now()
		for _, version := range []string{oldestVersion, middleVersion, tofuVersion} {
			i := withVersion(version)
			Expect(space.Apply(ctx, prepareWith(ctx, engine, i, versions), vars)).To(Succeed())
			state := stateOf(ctx, space, i)
			Expect(state.TofuVersion).To(Equal(version))
			Expect(state.Complete).To(BeTrue())
			Expect(state.Outputs).To(Equal(before.Outputs), "the secret is the identity of the resource")
			Expect(state.Record).To(BeEquivalentTo("record"))
		}
		GinkgoWriter.Println("the walk took", time.Since(begin))

		newest := prepareWith(ctx, engine, installation(), versions)
		Expect(space.Destroy(ctx, newest, vars)).To(Succeed())
		Expect(space.Remove(ctx, installation())).To(Succeed())
		Expect(os.ReadDir(s.entries)).To(BeEmpty())
		Expect(s.workspaces()).To(BeEmpty())
	})

	DescribeTable("is not necessary for destroying",
		func(ctx context.Context, version string) {
			old := withVersion(version)
			vars := s.vars()
			vars["extra"] = "more"
			Expect(space.Reserve(ctx, old, []byte("record"))).To(Succeed())
			Expect(space.Apply(ctx, prepareWith(ctx, engine, old, versions), vars)).To(Succeed())
			Expect(space.Destroy(ctx, prepare(ctx, engine, versions, "extra"), vars)).To(Succeed())
			Expect(space.Remove(ctx, installation())).To(Succeed())
			Expect(os.ReadDir(s.entries)).To(BeEmpty())
		},
		Entry(oldestVersion, kit.Slow(), oldestVersion), Entry(middleVersion, kit.Slow(), middleVersion),
	)

	DescribeTable("is visible in the state, also when another OpenTofu reads it",
		func(ctx context.Context, version string) {
			Expect(space.Reserve(ctx, withVersion(version), []byte("record"))).To(Succeed())
			Expect(stateOf(ctx, space, installation()).TofuVersion).To(Equal(version))
		},
		Entry(oldestVersion, kit.Slow(), oldestVersion), Entry(middleVersion, kit.Slow(), middleVersion),
	)

	DescribeTable("cannot be reverted",
		func(ctx context.Context, version string) {
			old := withVersion(version)
			prepared := prepareWith(ctx, engine, old, oneEntry)
			Expect(space.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
			Expect(space.Apply(ctx, prepare(ctx, engine, oneEntry), s.vars())).To(Succeed())
			Expect(space.Close()).To(Succeed())
			before := s.storedText()

			refused := func(err error) {
				GinkgoHelper()
				Expect(err).To(MatchError(workspace.ErrNewerState))
				Expect(err).To(MatchError(And(ContainSubstring(tofuVersion), ContainSubstring(version))))
				Expect(s.storedText()).To(Equal(before))
			}
			for _, stateRead := range []bool{false, true} {
				for name, work := range map[string]func() error{
					"destroy": func() error { return space.Destroy(ctx, prepared, s.vars()) },
					"remove":  func() error { return space.Remove(ctx, old) },
					"forget":  func() error { return space.Forget(ctx, old, "directory_entry.account") },
					"replace": func() error {
						return space.ReplaceProviders(ctx, old, map[string]string{"a/b/c": "d/e/f"})
					},
					"show": func() error { _, err := space.Show(ctx, prepared); return err },
				} {
					By(name)
					space = open(ctx, engine, "i-1")
					if stateRead {
						Expect(stateOf(ctx, space, old).TofuVersion).To(Equal(tofuVersion))
					}
					refused(work())
					Expect(space.Close()).To(Succeed())
				}
			}
			space = open(ctx, engine, "i-1")
			Expect(space.Reserve(ctx, old, []byte("other"))).To(MatchError(workspace.ErrExists))
			stateOf(ctx, space, old)
			space.SetRecord([]byte("other"))
			refused(space.Apply(ctx, prepared, s.vars()))
			refused(space.Import(ctx, prepared, s.vars(), "directory_entry.account", "x"))
			refused(space.Reserve(ctx, old, []byte("other")))
			_, err := space.Plan(ctx, prepared, s.vars(), false)
			refused(err)
		},
		Entry("to "+oldestVersion, kit.Slow(), oldestVersion), Entry("to "+middleVersion, middleVersion),
	)
})

var _ = Describe("the record of a workspace", func() {
	const other = oneEntry + `
resource "directory_entry" "other" {
  path = var.path
  name = "other"
}
`
	var (
		s      site
		engine *workspace.Engine
		space  *workspace.Workspace
	)

	BeforeEach(func(ctx context.Context) {
		s = newSite()
		engine = s.engine()
		space = open(ctx, engine, "i-1")
		DeferCleanup(func() { Expect(space.Close()).To(Succeed()) })
	})

	marks := func(ctx context.Context, i opentofu.Installation) []any {
		GinkgoHelper()
		state := stateOf(ctx, space, i)
		Expect(state.Outputs).NotTo(HaveKey(HavePrefix("_")))
		return []any{string(state.Record), string(state.Applied), state.Complete, state.Destroying}
	}

	DescribeTable("is replaced by SetRecord",
		func(ctx context.Context, version string) {
			i := withVersion(version)
			prepared, more := prepareWith(ctx, engine, i, oneEntry), prepareWith(ctx, engine, i, other)
			failing := s.vars()
			failing["fail"] = "no"
			Expect(space.Reserve(ctx, i, []byte("first"))).To(Succeed())
			Expect(marks(ctx, i)).To(Equal([]any{"first", "", false, false}))
			Expect(space.Apply(ctx, prepared, failing)).NotTo(Succeed())
			Expect(marks(ctx, i)).To(Equal([]any{"first", "", false, false}))
			Expect(space.Apply(ctx, prepared, s.vars())).To(Succeed())
			Expect(marks(ctx, i)).To(Equal([]any{"first", "first", true, false}))
			nonce := stateOf(ctx, space, i).Nonce

			space.SetRecord([]byte("second"))
			Expect(space.Apply(ctx, more, failing)).NotTo(Succeed())
			Expect(marks(ctx, i)).To(Equal([]any{"second", "first", false, false}))
			Expect(space.Apply(ctx, more, s.vars())).To(Succeed())
			Expect(marks(ctx, i)).To(Equal([]any{"second", "second", true, false}))

			space.SetRecord([]byte("third"))
			Expect(space.Apply(ctx, prepared, s.vars())).To(Succeed())
			Expect(marks(ctx, i)).To(Equal([]any{"third", "third", true, false}))
			Expect(stateOf(ctx, space, i).Nonce).To(Equal(nonce))
			Expect(filepath.Join(s.entries, "other")).NotTo(BeAnExistingFile())
		},
		Entry(oldestVersion, kit.Slow(), oldestVersion), Entry(middleVersion, kit.Slow(), middleVersion),
		Entry(tofuVersion, tofuVersion),
	)

	It("is the new one before the new template changes anything", func(ctx context.Context) {
		Expect(space.Reserve(ctx, installation(), []byte("first"))).To(Succeed())
		Expect(space.Apply(ctx, prepare(ctx, engine, oneEntry), s.vars())).To(Succeed())
		s.blockProvider("before-create")
		space.SetRecord([]byte("second"))
		applied := make(chan error)
		go func() { applied <- space.Apply(ctx, prepare(ctx, engine, other), s.vars()) }()
		s.waitForProvider("before-create")
		Expect(s.storedText()).To(ContainSubstring("second"))
		s.releaseProvider("before-create")
		Eventually(applied).Should(Receive(BeNil()))
	})

	DescribeTable("distinguishes an interrupted destroy from an interrupted create",
		func(ctx context.Context, version string) {
			i := withVersion(version)
			prepared := prepareWith(ctx, engine, i, other)
			Expect(space.Reserve(ctx, i, []byte("record"))).To(Succeed())
			Expect(space.Apply(ctx, prepared, s.vars())).To(Succeed())
			// A directory that is not empty cannot be removed as a file.
			account := filepath.Join(s.entries, "account")
			content, err := os.ReadFile(account)
			Expect(err).NotTo(HaveOccurred())
			s.blockProvider("before-destroy")
			destroyed := make(chan error)
			go func() { destroyed <- space.Destroy(ctx, prepared, s.vars()) }()
			s.waitForProvider("before-destroy")
			Expect(os.Remove(account)).To(Succeed())
			Expect(os.MkdirAll(filepath.Join(account, "x"), 0o700)).To(Succeed())
			s.releaseProvider("before-destroy")
			Eventually(destroyed).Should(Receive(HaveOccurred()))
			Expect(os.Remove(filepath.Join(s.entries, ".hold-before-destroy"))).To(Succeed())
			Expect(marks(ctx, i)).To(Equal([]any{"record", "record", false, true}))
			Expect(stateOf(ctx, space, i).Resources).To(ContainElement("directory_entry.account"))

			Expect(os.RemoveAll(account)).To(Succeed())
			Expect(os.WriteFile(account, content, 0o600)).To(Succeed())
			Expect(space.Apply(ctx, prepared, s.vars())).To(Succeed())
			Expect(marks(ctx, i)).To(Equal([]any{"record", "record", true, false}))
			Expect(space.Destroy(ctx, prepared, s.vars())).To(Succeed())
			Expect(marks(ctx, i)).To(Equal([]any{"record", "record", false, true}))
			Expect(space.Remove(ctx, i)).To(Succeed())
			Expect(space.Reserve(ctx, i, []byte("record"))).To(Succeed())
			Expect(marks(ctx, i)).To(Equal([]any{"record", "", false, false}))
		},
		Entry(oldestVersion, kit.Slow(), oldestVersion), Entry(middleVersion, kit.Slow(), middleVersion),
		Entry(tofuVersion, tofuVersion),
	)

	DescribeTable("is considered applied if a template creates no resource",
		func(ctx context.Context, version string) {
			i := withVersion(version)
			prepared := prepareWith(ctx, engine, i, `output "x" { value = "y" }`)
			Expect(space.Reserve(ctx, i, []byte("record"))).To(Succeed())
			Expect(space.Apply(ctx, prepared, nil)).To(Succeed())
			Expect(marks(ctx, i)).To(Equal([]any{"record", "record", true, false}))
			Expect(space.Destroy(ctx, prepared, nil)).To(Succeed())
			Expect(marks(ctx, i)).To(Equal([]any{"record", "record", false, true}))
			Expect(space.Remove(ctx, i)).To(Succeed())
		},
		Entry(oldestVersion, kit.Slow(), oldestVersion), Entry(middleVersion, kit.Slow(), middleVersion),
		Entry(tofuVersion, tofuVersion),
	)
})
