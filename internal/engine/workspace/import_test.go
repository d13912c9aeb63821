package workspace_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/workspace"
	"service-adapter/internal/tfjson"
	"service-adapter/spec/kit"
)

// entries is a template with several instances of a resource, one of them in a module.
const entries = providers + `
variable "path" { type = string }
variable "names" {
  type    = set(string)
  default = ["x", "y"]
}
variable "content" {
  type    = string
  default = "nothing"
}
resource "directory_entry" "each" {
  for_each = var.names
  path     = var.path
  name     = each.key
  content  = var.content
}
resource "directory_entry" "each_other" {
  count = 2
  path  = var.path
  name  = "other-${count.index}"
}
`

var _ = Describe("a workspace with existing resources", func() {
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

	DescribeTable("imports them",
		func(ctx context.Context, version string) {
			i := withVersion(version)
			prepared := prepareWith(ctx, engine, i, oneEntry)
			vars := map[string]any{"path": s.entries, "content": "the content"}
			account := filepath.Join(s.entries, "account")
			Expect(os.WriteFile(account, []byte(`{"content": "the content", "secret": "the secret"}`), 0o600)).To(
				Succeed())
			Expect(space.Reserve(ctx, i, []byte("record"))).To(Succeed())
			Expect(space.Plan(ctx, prepared, vars, false)).To(
				Equal([]tfjson.Change{{Address: "directory_entry.account", Action: "create"}}))

			Expect(space.Import(ctx, prepared, vars, "directory_entry.account", account)).To(Succeed())
			state := stateOf(ctx, space, i)
			Expect(state.Resources).To(Equal([]string{"directory_entry.account"}))
			Expect(state.Complete).To(BeFalse())
			Expect(state.Destroying).To(BeFalse())
			Expect(state.Record).To(BeEquivalentTo("record"))
			Expect(space.Plan(ctx, prepared, vars, false)).To(BeEmpty())
			Expect(space.Apply(ctx, prepared, vars)).To(Succeed())
			Expect(stateOf(ctx, space, i).Outputs).To(HaveKeyWithValue("secret", "the secret"))
		},
		Entry(oldestVersion, kit.Slow(), oldestVersion), Entry(middleVersion, kit.Slow(), middleVersion),
		Entry(tofuVersion, tofuVersion),
	)

	It("names the resources that cannot be imported, without secrets", func(ctx context.Context) {
		prepared := prepare(ctx, engine, oneEntry)
		vars := map[string]any{"path": s.entries, "content": "s3cret content"}
		Expect(space.Import(ctx, prepared, vars, "directory_entry.account", "x")).To(
			MatchError(ContainSubstring("not reserved")))
		Expect(space.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
		missing := filepath.Join(s.entries, "s3cret content")
		err := space.Import(ctx, prepared, vars, "directory_entry.account", missing)
		Expect(err).To(MatchError(And(
			ContainSubstring(`importing into workspace "i-1": OpenTofu import ended with exit status 1: `+
				`Cannot import non-existent remote object`),
			Not(ContainSubstring("s3cret")))))
		Expect(space.Import(ctx, prepared, vars, "directory_entry.unknown", "x")).
			To(MatchError(ContainSubstring("directory_entry.unknown")))
		Expect(space.Import(ctx, prepared, vars, "-help", "-x")).NotTo(Succeed())
		Expect(stateOf(ctx, space, installation()).Resources).To(BeEmpty())
	})

	DescribeTable("forgets them without destroying them",
		func(ctx context.Context, version string) {
			i := withVersion(version)
			prepared := prepareWith(ctx, engine, i, entries)
			Expect(space.Reserve(ctx, i, []byte("record"))).To(Succeed())
			Expect(space.Apply(ctx, prepared, s.vars())).To(Succeed())
			Expect(space.Forget(ctx, i, "directory_entry.unknown", `directory_entry.each["z"]`,
				"directory_entry.each_other[2]",
				"directory_entry", "directory_entry.ea", "terraform_data._binding", "terraform_data._complete",
				"-help")).To(Succeed())
			Expect(stateOf(ctx, space, i).Complete).To(BeTrue(), "nothing was there")

			for range 2 {
				Expect(space.Forget(ctx, i, `directory_entry.each["x"]`, "directory_entry.unknown")).To(Succeed())
			}
			state := stateOf(ctx, space, i)
			Expect(state.Complete).To(BeFalse())
			Expect(state.Destroying).To(BeTrue())
			Expect(state.Record).To(BeEquivalentTo("record"))
			Expect(state.Resources).To(Equal([]string{"directory_entry.each", "directory_entry.each_other"}))

			Expect(space.Forget(ctx, i, "directory_entry.each")).To(Succeed())
			Expect(stateOf(ctx, space, i).Resources).To(Equal([]string{"directory_entry.each_other"}))
			Expect(filepath.Join(s.entries, "x")).To(BeARegularFile())
			Expect(space.Destroy(ctx, prepared, s.vars())).To(Succeed())
			Expect(space.Remove(ctx, i)).To(Succeed())
			Expect(filepath.Glob(filepath.Join(s.entries, "*"))).To(
				ConsistOf(filepath.Join(s.entries, "x"), filepath.Join(s.entries, "y")))
			Expect(space.Forget(ctx, i, "directory_entry.each")).To(Succeed())
			Expect(s.workspaces()).To(BeEmpty())
		},
		Entry(oldestVersion, kit.Slow(), oldestVersion), Entry(middleVersion, kit.Slow(), middleVersion),
		Entry(tofuVersion, tofuVersion),
	)

	DescribeTable("returns the changes that an apply would make",
		func(ctx context.Context, version string) {
			i := withVersion(version)
			prepared := prepareWith(ctx, engine, i, entries)
			_, err := space.Plan(ctx, prepared, s.vars(), false)
			Expect(err).To(MatchError(ContainSubstring("not reserved")))
			Expect(space.Reserve(ctx, i, []byte("record"))).To(Succeed())
			Expect(space.Apply(ctx, prepared, s.vars())).To(Succeed())
			Expect(os.Remove(filepath.Join(s.entries, "other-1"))).To(Succeed())
			before := s.storedText()

			vars := map[string]any{"path": s.entries, "names": []any{"x", "z"}, "content": "else"}
			space.SetRecord([]byte("another record"))
			const each, other = `directory_entry.each["%s"]`, "directory_entry.each_other[1]"
			change := func(action, address string, attributes ...string) tfjson.Change {
				return tfjson.Change{Address: address, Action: action, Attributes: attributes}
			}
			Expect(space.Plan(ctx, prepared, vars, false)).To(ConsistOf(
				change("create", fmt.Sprintf(each, "z")), change("create", other),
				change("change", fmt.Sprintf(each, "x"), "content"), change("destroy", fmt.Sprintf(each, "y")),
			))
			Expect(space.Plan(ctx, prepared, map[string]any{"path": filepath.Join(s.entries, "."), "names": []any{}},
				false)).To(ConsistOf(
				change("create", other), change("destroy", fmt.Sprintf(each, "x")),
				change("destroy", fmt.Sprintf(each, "y")),
			))
			Expect(space.Plan(ctx, prepared, s.vars(), true)).To(ConsistOf(change("gone", other)))
			elsewhere := map[string]any{"path": GinkgoT().TempDir(), "names": []any{"x"}}
			Expect(space.Plan(ctx, prepared, elsewhere, false)).To(
				ContainElement(change("replace", fmt.Sprintf(each, "x"), "path", "secret")))
			Expect(s.storedText()).To(Equal(before))
		},
		Entry(oldestVersion, kit.Slow(), oldestVersion), Entry(middleVersion, kit.Slow(), middleVersion),
		Entry(tofuVersion, tofuVersion),
	)

	DescribeTable("shows them and their schemas",
		func(ctx context.Context, version string) {
			i := withVersion(version)
			prepared := prepareWith(ctx, engine, i, oneEntry)
			text, err := space.Schemas(ctx, prepared)
			Expect(err).NotTo(HaveOccurred())
			Expect(s.workspaces()).To(BeEmpty(), "the state is not needed")
			var schemas struct {
				Schemas map[string]struct {
					Resources map[string]any `json:"resource_schemas"`
				} `json:"provider_schemas"`
			}
			Expect(json.Unmarshal(text, &schemas)).To(Succeed())
			Expect(schemas.Schemas["registry.terraform.io/service-adapter/directory"].Resources).To(
				HaveKey("directory_entry"))

			_, err = space.Show(ctx, prepared)
			Expect(err).To(MatchError(ContainSubstring(`showing workspace "i-1": it does not exist`)))
			Expect(s.workspaces()).To(BeEmpty())
			Expect(space.Reserve(ctx, i, []byte("record"))).To(Succeed())
			Expect(space.Apply(ctx, prepared, s.vars())).To(Succeed())
			text, err = space.Show(ctx, prepared)
			Expect(err).NotTo(HaveOccurred())
			var shown struct {
				Values struct {
					Root struct {
						Resources []struct {
							Address string
							Values  map[string]any
						}
					} `json:"root_module"`
				}
			}
			Expect(json.Unmarshal(text, &shown)).To(Succeed())
			Expect(shown.Values.Root.Resources[0].Address).To(Equal("directory_entry.account"))
			Expect(shown.Values.Root.Resources[0].Values).To(HaveKeyWithValue("content", "nothing"))
		},
		Entry(oldestVersion, kit.Slow(), oldestVersion), Entry(middleVersion, kit.Slow(), middleVersion),
		Entry(tofuVersion, tofuVersion),
	)
})
