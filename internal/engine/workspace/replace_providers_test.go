package workspace_test

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/workspace"
	"service-adapter/spec/kit"
)

var _ = Describe("ReplaceProviders", func() {
	const renamed = "example.com/new/directory"
	var (
		s      site
		engine *workspace.Engine
	)

	BeforeEach(func() {
		s = newSite()
		engine = s.engine()
	})

	// after returns an installation that has the provider only under its new name.
	after := func(i opentofu.Installation) opentofu.Installation {
		i.Providers[0].FQN = renamed
		return i
	}

	DescribeTable("lets another provider manage the resources",
		func(ctx context.Context, version string, replacements map[string]string) {
			i := withVersion(version)
			space := open(ctx, engine, "i-1")
			Expect(space.Reserve(ctx, i, []byte("record"))).To(Succeed())
			Expect(space.Apply(ctx, prepareWith(ctx, engine, i, oneEntry), s.vars())).To(Succeed())
			outputs := stateOf(ctx, space, i).Outputs
			Expect(space.Close()).To(Succeed())

			i = after(withVersion(version))
			text := strings.Replace(oneEntry, "registry.terraform.io/service-adapter/directory", renamed, 1)
			space = open(ctx, engine, "i-1")
			DeferCleanup(space.Close)
			Expect(space.ReplaceProviders(ctx, i, replacements)).To(Succeed())
			state := stateOf(ctx, space, i)
			Expect(state.Providers).To(Equal([]string{renamed}))
			Expect(state.Complete).To(BeTrue())
			Expect(space.Apply(ctx, prepareWith(ctx, engine, i, text), s.vars())).To(Succeed())
			Expect(stateOf(ctx, space, i).Outputs).To(Equal(outputs))
		},
		Entry("under its name", tofuVersion,
			map[string]string{"registry.terraform.io/service-adapter/directory": renamed}),
		Entry("under its name in the other registry", tofuVersion,
			map[string]string{
				"registry.opentofu.org/service-adapter/directory": renamed,
				"registry.terraform.io/hashicorp/random":          "a/b/c",
			}),
		Entry("in two steps", kit.Slow(), tofuVersion, map[string]string{
			"registry.terraform.io/service-adapter/directory": "registry.terraform.io/middle/directory",
			"registry.opentofu.org/middle/directory":          renamed,
		}),
		Entry("with "+middleVersion, kit.Slow(), middleVersion,
			map[string]string{"registry.terraform.io/service-adapter/directory": renamed}),
		Entry("with "+oldestVersion, kit.Slow(), oldestVersion,
			map[string]string{"registry.terraform.io/service-adapter/directory": renamed}),
	)

	It("replaces only some of the providers, without changing the others", func(ctx context.Context) {
		const random = "registry.terraform.io/hashicorp/random"
		const directory = "registry.terraform.io/service-adapter/directory"
		space := open(ctx, engine, "i-1")
		DeferCleanup(space.Close)
		Expect(space.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
		text := strings.Replace(oneEntry, "required_providers {", `required_providers {
    random = { source = "`+random+`" }`, 1) + `resource "random_password" "p" { length = 12 }`
		Expect(space.Apply(ctx, prepareWith(ctx, engine, installation(), text), s.vars())).To(Succeed())
		Expect(stateOf(ctx, space, installation()).Providers).To(Equal([]string{random, directory}))
		Expect(space.ReplaceProviders(ctx, installation(), map[string]string{directory: renamed})).To(Succeed())
		Expect(stateOf(ctx, space, installation()).Providers).To(ConsistOf(random, renamed))
	})

	DescribeTable("starts no process",
		func(ctx context.Context, replacements map[string]string) {
			space := open(ctx, engine, "i-1")
			DeferCleanup(space.Close)
			Expect(space.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
			Expect(space.Apply(ctx, prepare(ctx, engine, oneEntry), s.vars())).To(Succeed())
			stateOf(ctx, space, installation())
			nothing := installation()
			nothing.Binary = "/nowhere"
			Expect(space.ReplaceProviders(ctx, nothing, replacements)).To(Succeed())
		},
		Entry("without replacements", nil),
		Entry("for providers that the state does not name",
			map[string]string{"registry.terraform.io/hashicorp/random": "a/b/c"}),
		Entry("for the same provider", map[string]string{
			"registry.opentofu.org/service-adapter/directory": "registry.terraform.io/service-adapter/directory",
		}),
	)

	It("does nothing if the workspace does not exist", func(ctx context.Context) {
		space := open(ctx, engine, "i-1")
		DeferCleanup(space.Close)
		Expect(space.ReplaceProviders(ctx, installation(), map[string]string{"a/b/c": "d/e/f"})).To(Succeed())
		Expect(s.workspaces()).To(BeEmpty())
	})
})
