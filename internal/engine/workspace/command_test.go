package workspace_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/templates"
	"service-adapter/internal/engine/workspace"
	"service-adapter/internal/hclfile"
	"service-adapter/spec/kit"
)

// loggingCommand is an executable that writes its action and its inputs to the file log beside it, and copies the
// directory of its inputs to the directory "copy" there.
const loggingCommand = `#!/bin/sh
set -eu
dir=$(dirname "$0")
printf '%s %s\n' "$1" "$(cat)" >>"$dir/log"
rm -rf "$dir/copy"
cp -rp "$BIND_INPUTS" "$dir/copy"
test ! -e "$dir/fails" || { echo "the service is away"; exit 1; }
`

var _ = Describe("a template that runs a command", func() {
	var (
		s        site
		engine   *workspace.Engine
		dir      string // of the command
		space    *workspace.Workspace
		prepared *templates.Prepared
		inputs   map[string]any
	)

	// logged returns the lines of the log since the last call.
	logged := func() []string {
		GinkgoHelper()
		text, err := os.ReadFile(filepath.Join(dir, "log"))
		if !os.IsNotExist(err) {
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(os.RemoveAll(filepath.Join(dir, "log"))).To(Succeed())
		return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	}

	// prepareWith prepares the template for an OpenTofu that finds the command.
	prepareWith := func(ctx context.Context, i opentofu.Installation) *templates.Prepared {
		GinkgoHelper()
		template := hclfile.CommandTemplate{
			Command: "account",
			Inputs: []hclfile.CommandInput{
				{Name: "_output_uri", Sensitive: true}, {Name: "password", Sensitive: true}, {Name: "value"},
			},
			Outputs: []hclfile.CommandOutput{{Name: "uri"}},
		}
		i.Path = []string{dir}
		prepared, err := engine.Prepare(ctx, i,
			templates.Template{Files: map[string]string{hclfile.CommandFile: template.Text()}})
		Expect(err).NotTo(HaveOccurred())
		return prepared
	}

	BeforeEach(func(ctx context.Context) {
		s = newSite()
		engine = s.engine()
		dir = GinkgoT().TempDir()
		Expect(os.WriteFile(filepath.Join(dir, "account"), []byte(loggingCommand), 0o700)).To(Succeed())
		inputs = map[string]any{"password": "s3cret", "value": "old", "_output_uri": "db://s3cret"}
		prepared = prepareWith(ctx, installation())
		space = open(ctx, engine, "b-1")
		DeferCleanup(func() { Expect(space.Close()).To(Succeed()) })
	})

	for _, version := range []string{kit.Older, kit.Oldest} {
		slow := kit.SlowIf(version != kit.Oldest)
		It("is not run by an upgrade of OpenTofu "+version, slow, func(ctx context.Context) {
			old := opentofu.Installation{Binary: kit.OpenTofu(GinkgoT(), version), Version: version}
			Expect(space.Reserve(ctx, old, []byte("the-record"))).To(Succeed())
			Expect(space.Apply(ctx, prepareWith(ctx, old), inputs)).To(Succeed())
			Expect(logged()).To(ConsistOf(HavePrefix("create ")))
			Expect(space.Apply(ctx, prepared, inputs)).To(Succeed())
			Expect(logged()).To(Equal([]string{""}))
			Expect(space.Destroy(ctx, prepared, inputs)).To(Succeed())
			Expect(logged()).To(ConsistOf(HavePrefix("delete ")))
		})
	}

	It("creates again if an input changes, without a deletion", func(ctx context.Context) {
		Expect(space.Reserve(ctx, installation(), []byte("the-record"))).To(Succeed())
		Expect(space.Apply(ctx, prepared, inputs)).To(Succeed())
		Expect(logged()).To(Equal([]string{`create {"password":"s3cret","value":"old"}`}))
		Expect(space.Outputs(ctx, prepared)).To(Equal(map[string]any{"uri": "db://s3cret"}))

		inputs["_output_uri"] = "db://other"
		Expect(space.Apply(ctx, prepared, inputs)).To(Succeed())
		Expect(logged()).To(Equal([]string{""}), "an output is not an input of the command")
		Expect(space.Outputs(ctx, prepared)).To(Equal(map[string]any{"uri": "db://other"}))

		inputs["value"] = "new"
		Expect(space.Apply(ctx, prepared, inputs)).To(Succeed())
		Expect(logged()).To(Equal([]string{`create {"password":"s3cret","value":"new"}`}))

		inputs["value"] = "newest"
		Expect(space.Destroy(ctx, prepared, inputs)).To(Succeed())
		Expect(logged()).To(Equal([]string{`delete {"password":"s3cret","value":"newest"}`}))
		state, err := space.State(ctx, installation())
		Expect(err).NotTo(HaveOccurred())
		Expect(state.Resources).To(BeEmpty())
	})

	It("deletes although the creation failed, and repeats a deletion that failed", func(ctx context.Context) {
		Expect(space.Reserve(ctx, installation(), []byte("the-record"))).To(Succeed())
		fails := filepath.Join(dir, "fails")
		Expect(os.WriteFile(fails, nil, 0o600)).To(Succeed())
		Expect(space.Apply(ctx, prepared, inputs)).To(MatchError(ContainSubstring("the service is away")))
		Expect(logged()).To(ConsistOf(HavePrefix("create ")))
		Expect(space.Destroy(ctx, prepared, inputs)).To(MatchError(ContainSubstring("the service is away")))
		Expect(logged()).To(ConsistOf(HavePrefix("delete ")))
		Expect(os.Remove(fails)).To(Succeed())
		Expect(space.Destroy(ctx, prepared, inputs)).To(Succeed())
		Expect(logged()).To(ConsistOf(HavePrefix("delete ")))
	})

	It("stores no input in the resources of the state", func(ctx context.Context) {
		Expect(space.Reserve(ctx, installation(), []byte("the-record"))).To(Succeed())
		delete(inputs, "_output_uri")
		Expect(space.Apply(ctx, prepared, inputs)).To(Succeed())
		text, err := os.ReadFile(filepath.Join(s.state, "workspaces", "b-1", "terraform.tfstate"))
		Expect(err).NotTo(HaveOccurred())
		Expect(string(text)).To(ContainSubstring("triggers_replace"))
		Expect(string(text)).NotTo(ContainSubstring("s3cret"))
	})

	DescribeTable("has an input as files", func(ctx context.Context, input any, files map[string]string) {
		Expect(space.Reserve(ctx, installation(), []byte("the-record"))).To(Succeed())
		inputs["value"] = input
		Expect(space.Apply(ctx, prepared, inputs)).To(Succeed())
		Expect(kit.Names(GinkgoT(), filepath.Join(dir, "copy"))).To(Equal([]string{"password", "value"}))
		found := map[string]string{}
		root := filepath.Join(dir, "copy", "value")
		Expect(filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
			Expect(err).NotTo(HaveOccurred())
			info, err := entry.Info()
			Expect(err).NotTo(HaveOccurred())
			if entry.IsDir() {
				Expect(info.Mode().Perm()).To(Equal(os.FileMode(0o700)))
				return nil
			}
			Expect(info.Mode().Perm()).To(Equal(os.FileMode(0o600)))
			text, err := os.ReadFile(path)
			name, _ := filepath.Rel(root, path)
			found[name] = string(text)
			return err
		})).To(Succeed())
		Expect(found).To(Equal(files))
		Expect(logged()).To(HaveLen(1))
	},
		Entry("a text", "a \"b\"\n'c' <ä>", map[string]string{".": "a \"b\"\n'c' <ä>"}),
		Entry("a number", int64(9007199254740993), map[string]string{".": "9007199254740993"}),
		Entry("a fraction", 1.5, map[string]string{".": "1.5"}),
		Entry("a boolean", true, map[string]string{".": "true"}),
		Entry("null", nil, map[string]string{".": ""}),
		Entry("a list", []any{"a b", int64(1), nil, "c\nd", []any{"<"}, map[string]any{"e": "f"}},
			map[string]string{".": "a b\n1\n\n\"c\\nd\"\n[\"<\"]\n{\"e\":\"f\"}\n"}),
		Entry("an empty list", []any{}, map[string]string{".": ""}),
		Entry("an object", map[string]any{
			"a": "b\nc", "..": int64(1), "d/e": map[string]any{"f": true}, ".g": nil, "": "left out",
			strings.Repeat("h", 256): "left out", "ä": []any{"i"},
		}, map[string]string{
			"a": "b\nc", "%2E.": "1", "d%2Fe": `{"f":true}`, "%2Eg": "", "%C3%A4": `["i"]`,
		}),
		Entry("an empty object", map[string]any{}, map[string]string{}),
	)
})
