package acceptance_test

import (
	"archive/zip"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/spec/kit"
	"service-adapter/spec/kit/hold"
)

// tree returns the relative paths of the regular files below a directory, and of the directories including the
// directory itself as ".".
func tree(root string) (files, dirs []string) {
	GinkgoHelper()
	Expect(filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		switch {
		case entry.IsDir():
			dirs = append(dirs, name)
		case entry.Type().IsRegular():
			files = append(files, name)
		}
		return err
	})).To(Succeed())
	return files, dirs
}

// expectDurable asserts that the calls sync all files and directories below dir before the rename that gives dir its
// name, and sync the parent directory after the rename.
func expectDurable(calls []hold.Call, dir string) {
	GinkgoHelper()
	renamed := slices.IndexFunc(calls, func(c hold.Call) bool {
		return strings.HasPrefix(c.Name, "rename") && strings.HasSuffix(c.Text, `"`+dir+`")`)
	})
	Expect(renamed).To(BeNumerically(">", 0), "the rename of %s in %v", dir, calls)
	temporary := strings.Split(calls[renamed].Text, `"`)[1]
	files, dirs := tree(dir)
	Expect(files).NotTo(BeEmpty())
	synced := func(calls []hold.Call, path string) bool {
		return slices.ContainsFunc(calls, func(c hold.Call) bool {
			return c.Name == "fsync" && strings.Contains(c.Text, "<"+path+">")
		})
	}
	for _, name := range append(files, dirs...) {
		Expect(synced(calls[:renamed], filepath.Join(temporary, name))).To(BeTrue(), "%s is synced before the rename",
			name)
	}
	Expect(synced(calls[renamed:], filepath.Dir(dir))).To(BeTrue(), "the parent directory is synced after the rename")
}

// preparedDir returns the prepared directory for bindings of the pak "entries" in a cache.
func preparedDir(cache string) string {
	GinkgoHelper()
	found, err := filepath.Glob(filepath.Join(cache, "prepared", "[^.]*", "destroy", "main.tf"))
	Expect(err).NotTo(HaveOccurred())
	Expect(found).To(HaveLen(1))
	return filepath.Dir(filepath.Dir(found[0]))
}

var _ = Describe("the binaries of a zip", func() {
	// zipped returns the path of a zip of a pak whose binaries are small scripts that fail.
	zipped := func(s *site) string {
		GinkgoHelper()
		for _, name := range []string{s.bin(kit.Newest, "tofu"), s.bin("terraform-provider-directory_v1.0.0")} {
			Expect(os.Remove(name)).To(Succeed())
			Expect(os.WriteFile(name, []byte("#!/bin/sh\nexit 1\n"), 0o600)).To(Succeed())
		}
		name := filepath.Join(s.dir, "entries.brokerpak")
		file, err := os.Create(name)
		Expect(err).NotTo(HaveOccurred())
		writer := zip.NewWriter(file)
		Expect(writer.AddFS(os.DirFS(s.pak))).To(Succeed())
		Expect(errors.Join(writer.Close(), file.Close())).To(Succeed())
		return name
	}

	It("are synced to the disk before their directory gets its name", func(ctx context.Context) {
		hold.Strace()
		b := newBroker(newSite("entries"))
		b.deploy(ctx, nil)
		pak := zipped(b.site)
		b.site.set(map[string]any{"paks": []string{pak}})
		calls := b.traced(createBinding, b.bindParameters("bind-1", nil)).Changes(ctx, b.site.cache())
		unpacked := list(filepath.Join(b.site.cache(), "paks"))
		Expect(unpacked).To(HaveLen(1))
		expectDurable(calls, filepath.Join(b.site.cache(), "paks", unpacked[0]))

		dir := filepath.Join(b.site.dir, "unpacked")
		unpack := hold.Traced{Args: []string{adapterBinary, "pak", "unpack", pak, dir}, Dir: b.site.working}
		expectDurable(unpack.Changes(ctx, b.site.dir), dir)
	})
})

var _ = Describe("a prepared directory", func() {
	var b *broker

	BeforeEach(func(ctx context.Context) {
		hold.Strace()
		b = newBroker(newSite("entries"))
		b.deploy(ctx, nil)
	})

	// damage truncates files of the prepared directory as a power loss can.
	damage := func() {
		GinkgoHelper()
		Expect(os.Truncate(filepath.Join(preparedDir(b.site.cache()), "destroy/main.tf"), 0)).To(Succeed())
	}

	It("is synced to the disk before it gets its name", func(ctx context.Context) {
		site := newSite("provisioned")
		dir := filepath.Join(site.dir, "prepared")
		prepare := hold.Traced{
			Args: []string{adapterBinary, "prepare", "--dir", dir}, Env: site.environment(),
			Dir: site.working,
		}
		calls := prepare.Changes(ctx, dir)
		found, err := filepath.Glob(filepath.Join(dir, "prepared", "[^.]*"))
		Expect(err).NotTo(HaveOccurred())
		Expect(found).NotTo(BeEmpty())
		for _, dir := range found {
			expectDurable(calls, dir)
		}
	})

	It("is rebuilt on a file system that cannot exchange directories", func(ctx context.Context) {
		Expect(b.bind(ctx, "bind-1", nil).Exit).To(Equal(0))
		damage()
		calls := b.traced(deleteBinding, b.unbindParameters("bind-1")).Failing(ctx, "renameat2", "EINVAL",
			b.site.cache())
		Expect(calls).To(ContainElement(HaveField("Name", "renameat2")))
		b.site.expectNothingLeft()
		Expect(b.bind(ctx, "bind-2", nil).Stderr).NotTo(ContainSubstring("damaged"))
		Expect(list(filepath.Join(b.site.cache(), "prepared"))).NotTo(ContainElement(HavePrefix(".new-")))
	})

	DescribeTable("can be rebuilt by a command that is killed", func(ctx context.Context, step int) {
		Expect(b.bind(ctx, "bind-0", nil).Exit).To(Equal(0))
		within := filepath.Join(b.site.cache(), "prepared")
		command := b.traced(createBinding, b.bindParameters("bind-1", nil))
		damage()
		calls := command.Changes(ctx, within)
		Expect(len(calls)).To(BeNumerically(">", 40))
		Expect(b.unbind(ctx, "bind-1").Exit).To(Equal(0))
		killed := 0
		for n := 0; n < len(calls); n += step {
			damage()
			if command.KillAt(ctx, calls[n].Name, calls[n].NthOfAll, within) != nil {
				killed++
			}
			got := b.bind(ctx, "bind-1", nil)
			Expect(got.Exit).To(BeElementOf(0, 49), "killed at %v: %s", calls[n], got.Stderr)
			Expect(b.unbind(ctx, "bind-1").Exit).To(Equal(0), "killed at %v", calls[n])
			Expect(list(within)).NotTo(ContainElement(HavePrefix(".new-")), "killed at %v", calls[n])
			Expect(b.unbind(ctx, "bind-1").Stderr).NotTo(ContainSubstring("damaged"), "killed at %v", calls[n])
		}
		Expect(killed).To(BeNumerically(">", len(calls)/step/2))
		Expect(b.unbind(ctx, "bind-0").Exit).To(Equal(0))
		b.site.expectNothingLeft()
	},
		Entry("at each eighth system call", kit.Slow(), 8),
		Entry("at a few system calls", 40),
	)
})
