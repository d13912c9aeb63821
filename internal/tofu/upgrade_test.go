package tofu_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"service-adapter/spec/kit"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/opentofu"
	"service-adapter/internal/statestore"
	"service-adapter/internal/tofu"
)

// The OpenTofu versions of an upgrade. The first is the oldest that the specification knows; only who wants it builds it.
const (
	oldestVersion = kit.Oldest
	middleVersion = kit.Older
)

// versioned is an installation with another OpenTofu.
func versioned(version string) opentofu.Installation {
	GinkgoHelper()
	i := installation()
	i.Binary, i.Version = kit.OpenTofu(GinkgoT(), version), version
	return i
}

func prepareWith(ctx context.Context, engine *tofu.Engine, i opentofu.Installation, text string) *tofu.Prepared {
	GinkgoHelper()
	prepared, err := engine.Prepare(ctx, i, tofu.Template{Files: map[string]string{"main.tf": text}, Inputs: []string{"extra"}})
	Expect(err).NotTo(HaveOccurred())
	return prepared
}

func stateOf(ctx context.Context, workspace *tofu.Workspace, i opentofu.Installation) *statestore.State {
	GinkgoHelper()
	state, err := workspace.State(ctx, i)
	Expect(err).NotTo(HaveOccurred())
	return state
}

// content is the state of i-1 as it is stored.
func (s site) content() string {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(s.state, "workspaces", "i-1", "terraform.tfstate"))
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}

// versions is a template that uses what the generated files do in every version: an undeclared input, an output that is not
// marked sensitive and a protected resource.
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
		s         site
		engine    *tofu.Engine
		workspace *tofu.Workspace
	)

	BeforeEach(func(ctx context.Context) {
		s = newSite()
		engine = s.engine()
		workspace = open(ctx, engine, "i-1")
		DeferCleanup(func() { Expect(workspace.Close()).To(Succeed()) })
	})

	It("walks from version to version, keeps the resources and ends with a destroy", func(ctx context.Context) {
		first := versioned(oldestVersion)
		vars := s.vars()
		vars["extra"] = "more"
		Expect(workspace.Reserve(ctx, first, []byte("record"))).To(Succeed())
		Expect(workspace.Apply(ctx, prepareWith(ctx, engine, first, versions), vars)).To(Succeed())
		before := stateOf(ctx, workspace, first)
		Expect(before.TofuVersion).To(Equal(oldestVersion))
		Expect(before.Complete).To(BeTrue())
		Expect(opentofu.Older(before.TofuVersion, middleVersion)).To(BeTrue())
		Expect(opentofu.Older(before.TofuVersion, oldestVersion)).To(BeFalse())

		begin := time.Now()
		for _, version := range []string{oldestVersion, middleVersion, tofuVersion} {
			i := versioned(version)
			Expect(workspace.Apply(ctx, prepareWith(ctx, engine, i, versions), vars)).To(Succeed())
			state := stateOf(ctx, workspace, i)
			Expect(state.TofuVersion).To(Equal(version))
			Expect(state.Complete).To(BeTrue())
			Expect(state.Outputs).To(Equal(before.Outputs), "the secret is the identity of the resource")
			Expect(state.Record).To(BeEquivalentTo("record"))
		}
		GinkgoWriter.Println("the walk took", time.Since(begin))

		newest := prepareWith(ctx, engine, installation(), versions)
		Expect(workspace.Destroy(ctx, newest, vars)).To(Succeed())
		Expect(workspace.Remove(ctx, installation())).To(Succeed())
		Expect(os.ReadDir(s.entries)).To(BeEmpty())
		Expect(s.workspaces()).To(BeEmpty())
	})

	DescribeTable("is not needed to destroy",
		func(ctx context.Context, version string) {
			old := versioned(version)
			vars := s.vars()
			vars["extra"] = "more"
			Expect(workspace.Reserve(ctx, old, []byte("record"))).To(Succeed())
			Expect(workspace.Apply(ctx, prepareWith(ctx, engine, old, versions), vars)).To(Succeed())
			Expect(workspace.Destroy(ctx, prepare(ctx, engine, versions, "extra"), vars)).To(Succeed())
			Expect(workspace.Remove(ctx, installation())).To(Succeed())
			Expect(os.ReadDir(s.entries)).To(BeEmpty())
		},
		Entry(oldestVersion, kit.Slow(), oldestVersion), Entry(middleVersion, kit.Slow(), middleVersion),
	)

	DescribeTable("is told by the state, also when another OpenTofu reads it",
		func(ctx context.Context, version string) {
			Expect(workspace.Reserve(ctx, versioned(version), []byte("record"))).To(Succeed())
			Expect(stateOf(ctx, workspace, installation()).TofuVersion).To(Equal(version))
		},
		Entry(oldestVersion, kit.Slow(), oldestVersion), Entry(middleVersion, kit.Slow(), middleVersion),
	)

	DescribeTable("cannot go back",
		func(ctx context.Context, version string) {
			old := versioned(version)
			prepared := prepareWith(ctx, engine, old, oneEntry)
			Expect(workspace.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
			Expect(workspace.Apply(ctx, prepare(ctx, engine, oneEntry), s.vars())).To(Succeed())
			Expect(workspace.Close()).To(Succeed())
			before := s.content()

			refused := func(err error) {
				GinkgoHelper()
				Expect(err).To(MatchError(tofu.ErrNewerState))
				Expect(err).To(MatchError(And(ContainSubstring(tofuVersion), ContainSubstring(version))))
				Expect(s.content()).To(Equal(before))
			}
			for _, known := range []bool{false, true} {
				for name, work := range map[string]func() error{
					"destroy": func() error { return workspace.Destroy(ctx, prepared, s.vars()) },
					"remove":  func() error { return workspace.Remove(ctx, old) },
					"forget":  func() error { return workspace.Forget(ctx, old, "directory_entry.account") },
					"replace": func() error { return workspace.ReplaceProviders(ctx, old, map[string]string{"a/b/c": "d/e/f"}) },
					"show":    func() error { _, err := workspace.Show(ctx, prepared); return err },
				} {
					By(name)
					workspace = open(ctx, engine, "i-1")
					if known {
						Expect(stateOf(ctx, workspace, old).TofuVersion).To(Equal(tofuVersion))
					}
					refused(work())
					Expect(workspace.Close()).To(Succeed())
				}
			}
			workspace = open(ctx, engine, "i-1")
			Expect(workspace.Reserve(ctx, old, []byte("other"))).To(MatchError(tofu.ErrExists))
			stateOf(ctx, workspace, old)
			workspace.SetRecord([]byte("other"))
			refused(workspace.Apply(ctx, prepared, s.vars()))
			refused(workspace.Import(ctx, prepared, s.vars(), "directory_entry.account", "x"))
			refused(workspace.Reserve(ctx, old, []byte("other")))
			_, err := workspace.Plan(ctx, prepared, s.vars(), false)
			refused(err)
		},
		Entry("to "+oldestVersion, kit.Slow(), oldestVersion), Entry("to "+middleVersion, middleVersion),
	)
})

var _ = Describe("ReplaceProviders", func() {
	const renamed = "example.com/new/directory"
	var (
		s      site
		engine *tofu.Engine
	)

	BeforeEach(func() {
		s = newSite()
		engine = s.engine()
	})

	// after is an installation that has the provider under its new name only.
	after := func(i opentofu.Installation) opentofu.Installation {
		i.Providers[0].FQN = renamed
		return i
	}

	DescribeTable("lets another provider go on",
		func(ctx context.Context, version string, replacements map[string]string) {
			i := versioned(version)
			workspace := open(ctx, engine, "i-1")
			Expect(workspace.Reserve(ctx, i, []byte("record"))).To(Succeed())
			Expect(workspace.Apply(ctx, prepareWith(ctx, engine, i, oneEntry), s.vars())).To(Succeed())
			outputs := stateOf(ctx, workspace, i).Outputs
			Expect(workspace.Close()).To(Succeed())

			i = after(versioned(version))
			text := strings.Replace(oneEntry, "registry.terraform.io/service-adapter/directory", renamed, 1)
			workspace = open(ctx, engine, "i-1")
			DeferCleanup(workspace.Close)
			Expect(workspace.ReplaceProviders(ctx, i, replacements)).To(Succeed())
			state := stateOf(ctx, workspace, i)
			Expect(state.Providers).To(Equal([]string{renamed}))
			Expect(state.Complete).To(BeTrue())
			Expect(workspace.Apply(ctx, prepareWith(ctx, engine, i, text), s.vars())).To(Succeed())
			Expect(stateOf(ctx, workspace, i).Outputs).To(Equal(outputs))
		},
		Entry("under its name", tofuVersion, map[string]string{"registry.terraform.io/service-adapter/directory": renamed}),
		Entry("under its name in the other registry", tofuVersion,
			map[string]string{"registry.opentofu.org/service-adapter/directory": renamed, "registry.terraform.io/hashicorp/random": "a/b/c"}),
		Entry("in two steps", kit.Slow(), tofuVersion, map[string]string{
			"registry.terraform.io/service-adapter/directory": "registry.terraform.io/middle/directory",
			"registry.opentofu.org/middle/directory":          renamed,
		}),
		Entry("with "+middleVersion, kit.Slow(), middleVersion, map[string]string{"registry.terraform.io/service-adapter/directory": renamed}),
		Entry("with "+oldestVersion, kit.Slow(), oldestVersion, map[string]string{"registry.terraform.io/service-adapter/directory": renamed}),
	)

	DescribeTable("starts nothing",
		func(ctx context.Context, replacements map[string]string) {
			workspace := open(ctx, engine, "i-1")
			DeferCleanup(workspace.Close)
			Expect(workspace.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
			Expect(workspace.Apply(ctx, prepare(ctx, engine, oneEntry), s.vars())).To(Succeed())
			stateOf(ctx, workspace, installation())
			nothing := installation()
			nothing.Binary = "/nowhere"
			Expect(workspace.ReplaceProviders(ctx, nothing, replacements)).To(Succeed())
		},
		Entry("without replacements", nil),
		Entry("for providers that the state does not name", map[string]string{"registry.terraform.io/hashicorp/random": "a/b/c"}),
		Entry("for the same provider", map[string]string{
			"registry.opentofu.org/service-adapter/directory": "registry.terraform.io/service-adapter/directory",
		}),
	)

	It("does nothing to a workspace that does not exist", func(ctx context.Context) {
		workspace := open(ctx, engine, "i-1")
		DeferCleanup(workspace.Close)
		Expect(workspace.ReplaceProviders(ctx, installation(), map[string]string{"a/b/c": "d/e/f"})).To(Succeed())
		Expect(s.workspaces()).To(BeEmpty())
	})
})

var _ = Describe("the record of a workspace", func() {
	const other = oneEntry + `
resource "directory_entry" "other" {
  path = var.path
  name = "other"
}
`
	var (
		s         site
		engine    *tofu.Engine
		workspace *tofu.Workspace
	)

	BeforeEach(func(ctx context.Context) {
		s = newSite()
		engine = s.engine()
		workspace = open(ctx, engine, "i-1")
		DeferCleanup(func() { Expect(workspace.Close()).To(Succeed()) })
	})

	marks := func(ctx context.Context, i opentofu.Installation) []any {
		GinkgoHelper()
		state := stateOf(ctx, workspace, i)
		Expect(state.Outputs).NotTo(HaveKey(HavePrefix("_")))
		return []any{string(state.Record), string(state.Applied), state.Complete, state.Destroying}
	}

	DescribeTable("changes with SetRecord",
		func(ctx context.Context, version string) {
			i := versioned(version)
			prepared, more := prepareWith(ctx, engine, i, oneEntry), prepareWith(ctx, engine, i, other)
			failing := s.vars()
			failing["fail"] = "no"
			Expect(workspace.Reserve(ctx, i, []byte("first"))).To(Succeed())
			Expect(marks(ctx, i)).To(Equal([]any{"first", "", false, false}))
			Expect(workspace.Apply(ctx, prepared, failing)).NotTo(Succeed())
			Expect(marks(ctx, i)).To(Equal([]any{"first", "", false, false}))
			Expect(workspace.Apply(ctx, prepared, s.vars())).To(Succeed())
			Expect(marks(ctx, i)).To(Equal([]any{"first", "first", true, false}))
			nonce := stateOf(ctx, workspace, i).Nonce

			workspace.SetRecord([]byte("second"))
			Expect(workspace.Apply(ctx, more, failing)).NotTo(Succeed())
			Expect(marks(ctx, i)).To(Equal([]any{"second", "first", false, false}))
			Expect(workspace.Apply(ctx, more, s.vars())).To(Succeed())
			Expect(marks(ctx, i)).To(Equal([]any{"second", "second", true, false}))

			workspace.SetRecord([]byte("third"))
			Expect(workspace.Apply(ctx, prepared, s.vars())).To(Succeed())
			Expect(marks(ctx, i)).To(Equal([]any{"third", "third", true, false}))
			Expect(stateOf(ctx, workspace, i).Nonce).To(Equal(nonce))
			Expect(filepath.Join(s.entries, "other")).NotTo(BeAnExistingFile())
		},
		Entry(oldestVersion, kit.Slow(), oldestVersion), Entry(middleVersion, kit.Slow(), middleVersion), Entry(tofuVersion, tofuVersion),
	)

	It("is the new one before the new template changes anything", func(ctx context.Context) {
		Expect(workspace.Reserve(ctx, installation(), []byte("first"))).To(Succeed())
		Expect(workspace.Apply(ctx, prepare(ctx, engine, oneEntry), s.vars())).To(Succeed())
		s.hold("before-create")
		workspace.SetRecord([]byte("second"))
		applied := make(chan error)
		go func() { applied <- workspace.Apply(ctx, prepare(ctx, engine, other), s.vars()) }()
		s.at("before-create")
		Expect(s.content()).To(ContainSubstring("second"))
		s.release("before-create")
		Eventually(applied).Should(Receive(BeNil()))
	})

	DescribeTable("tells an interrupted destroy from an interrupted create",
		func(ctx context.Context, version string) {
			i := versioned(version)
			prepared := prepareWith(ctx, engine, i, other)
			Expect(workspace.Reserve(ctx, i, []byte("record"))).To(Succeed())
			Expect(workspace.Apply(ctx, prepared, s.vars())).To(Succeed())
			// A directory with something in it cannot be removed as a file.
			account := filepath.Join(s.entries, "account")
			content, err := os.ReadFile(account)
			Expect(err).NotTo(HaveOccurred())
			s.hold("before-destroy")
			destroyed := make(chan error)
			go func() { destroyed <- workspace.Destroy(ctx, prepared, s.vars()) }()
			s.at("before-destroy")
			Expect(os.Remove(account)).To(Succeed())
			Expect(os.MkdirAll(filepath.Join(account, "x"), 0o700)).To(Succeed())
			s.release("before-destroy")
			Eventually(destroyed).Should(Receive(HaveOccurred()))
			Expect(os.Remove(filepath.Join(s.entries, ".hold-before-destroy"))).To(Succeed())
			Expect(marks(ctx, i)).To(Equal([]any{"record", "record", false, true}))
			Expect(stateOf(ctx, workspace, i).Resources).To(ContainElement("directory_entry.account"))

			Expect(os.RemoveAll(account)).To(Succeed())
			Expect(os.WriteFile(account, content, 0o600)).To(Succeed())
			Expect(workspace.Apply(ctx, prepared, s.vars())).To(Succeed())
			Expect(marks(ctx, i)).To(Equal([]any{"record", "record", true, false}))
			Expect(workspace.Destroy(ctx, prepared, s.vars())).To(Succeed())
			Expect(marks(ctx, i)).To(Equal([]any{"record", "record", false, true}))
			Expect(workspace.Remove(ctx, i)).To(Succeed())
			Expect(workspace.Reserve(ctx, i, []byte("record"))).To(Succeed())
			Expect(marks(ctx, i)).To(Equal([]any{"record", "", false, false}))
		},
		Entry(oldestVersion, kit.Slow(), oldestVersion), Entry(middleVersion, kit.Slow(), middleVersion), Entry(tofuVersion, tofuVersion),
	)

	DescribeTable("counts as applied when a template makes nothing",
		func(ctx context.Context, version string) {
			i := versioned(version)
			prepared := prepareWith(ctx, engine, i, `output "x" { value = "y" }`)
			Expect(workspace.Reserve(ctx, i, []byte("record"))).To(Succeed())
			Expect(workspace.Apply(ctx, prepared, nil)).To(Succeed())
			Expect(marks(ctx, i)).To(Equal([]any{"record", "record", true, false}))
			Expect(workspace.Destroy(ctx, prepared, nil)).To(Succeed())
			Expect(marks(ctx, i)).To(Equal([]any{"record", "record", false, true}))
			Expect(workspace.Remove(ctx, i)).To(Succeed())
		},
		Entry(oldestVersion, kit.Slow(), oldestVersion), Entry(middleVersion, kit.Slow(), middleVersion), Entry(tofuVersion, tofuVersion),
	)
})
