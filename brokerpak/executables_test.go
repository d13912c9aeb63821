package brokerpak_test

import (
	"archive/zip"
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/brokerpak"
)

const binariesManifest = `
packversion: 1
name: binaries
version: 1.0.0
platforms:
- {os: linux, arch: amd64}
- {os: darwin, arch: arm64}
terraform_binaries:
- {name: tofu, version: 1.12.6, default: true}
- {name: tofu, version: 1.6}
- {name: terraform-provider-random, version: 3.6.0}
- {name: terraform-provider-csb, version: 1.0.1, provider: example.com/org/csb}
- {name: terraform-provider-csb, version: 1.0.10, provider: example.com/org/csb}
- {name: jq, version: latest}
service_definitions: [service.yml]
`

// binaries are the files in bin/linux/amd64 of the pak. Some tests omit the first one.
var binaries = []string{
	"1.12.6/tofu", "1.6.0/tofu", "terraform-provider-random_v3.6.0_x5", "terraform-provider-csb_v1.0.1",
	"terraform-provider-csb_v1.0.10", "jq-linux", "LICENSE",
}

// pakWithBinaries returns the directory of a pak with these files in bin/linux/amd64. Each file contains its own
// name.
func pakWithBinaries(names ...string) string {
	GinkgoHelper()
	dir := newPak(map[string]string{"manifest.yml": binariesManifest})
	for _, name := range names {
		write(filepath.Join(dir, "bin/linux/amd64", name), name)
	}
	return dir
}

var linux = brokerpak.Platform{OS: "linux", Arch: "amd64"}

// list returns the names in a directory, hidden ones too.
func list(dir string) []string {
	GinkgoHelper()
	entries, err := os.ReadDir(dir)
	Expect(err).NotTo(HaveOccurred())
	names := []string{}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

var _ = Describe("the executables of a pak", func() {
	// expectAll checks that the files of all binaries exist, with absolute paths and the right content.
	expectAll := func(found *brokerpak.Executables) {
		GinkgoHelper()
		content := func(file string) string {
			GinkgoHelper()
			Expect(filepath.IsAbs(file)).To(BeTrue(), file)
			text, err := os.ReadFile(file)
			Expect(err).NotTo(HaveOccurred())
			return string(text)
		}
		Expect(found.Tofu).To(HaveLen(2))
		Expect(content(found.Tofu["1.12.6"])).To(Equal("1.12.6/tofu"))
		Expect(content(found.Tofu["1.6"])).To(Equal("1.6.0/tofu"))
		Expect(found.Providers).To(HaveLen(3))
		for i, want := range []brokerpak.ProviderFile{
			{
				FQN: "registry.terraform.io/hashicorp/random", Version: "3.6.0",
				File: "terraform-provider-random_v3.6.0_x5",
			},
			{FQN: "example.com/org/csb", Version: "1.0.1", File: "terraform-provider-csb_v1.0.1"},
			{FQN: "example.com/org/csb", Version: "1.0.10", File: "terraform-provider-csb_v1.0.10"},
		} {
			got := found.Providers[i]
			Expect(content(got.File)).To(Equal(want.File))
			got.File = want.File
			Expect(got).To(Equal(want))
		}
		Expect(content(filepath.Join(found.Path, "jq-linux"))).To(Equal("jq-linux"))
	}

	It("are used in place if the pak is a directory", func(ctx context.Context) {
		dir, cache := pakWithBinaries(binaries...), GinkgoT().TempDir()
		found, err := open(dir).Executables(ctx, linux, cache)
		Expect(err).NotTo(HaveOccurred())
		expectAll(found)
		Expect(found.Tofu["1.12.6"]).To(HavePrefix(dir))
		Expect(os.ReadDir(cache)).To(BeEmpty())
	})

	It("are unpacked from a zip once, and only the owner can read them", func(ctx context.Context) {
		cache := filepath.Join(GinkgoT().TempDir(), "cache")
		pak := open(zipped(pakWithBinaries(binaries...), link("bin/linux/amd64/link", "/etc/passwd"),
			entry("bin/darwin/arm64/jq", "x")))
		found, err := pak.Executables(ctx, linux, cache)
		Expect(err).NotTo(HaveOccurred())
		expectAll(found)

		var files []string
		Expect(filepath.WalkDir(cache, func(name string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := entry.Info()
			Expect(info.Mode().Perm()).To(Equal(fs.FileMode(0o700)), name)
			if !entry.IsDir() {
				files = append(files, filepath.Base(name))
			}
			return err
		})).To(Succeed())
		Expect(files).To(HaveLen(len(binaries)), "neither links nor other platforms: %v", files)

		write(found.Tofu["1.12.6"], "1.12.6/TOFU")
		again, err := pak.Executables(ctx, linux, cache)
		Expect(err).NotTo(HaveOccurred())
		Expect(again).To(Equal(found))
		Expect(os.ReadFile(again.Tofu["1.12.6"])).To(BeEquivalentTo("1.12.6/TOFU"), "was not unpacked again")
	})

	DescribeTable("are unpacked again from a zip when they are damaged",
		func(ctx context.Context, damage func(file string) error) {
			cache := GinkgoT().TempDir()
			pak := open(zipped(pakWithBinaries(binaries...)))
			for _, file := range []func(*brokerpak.Executables) string{
				func(found *brokerpak.Executables) string { return found.Tofu["1.6"] },
				func(found *brokerpak.Executables) string { return found.Providers[2].File },
				func(found *brokerpak.Executables) string { return filepath.Join(found.Path, "jq-linux") },
			} {
				found, err := pak.Executables(ctx, linux, cache)
				Expect(err).NotTo(HaveOccurred())
				Expect(damage(file(found))).To(Succeed())
				again, err := pak.Executables(ctx, linux, cache)
				Expect(err).NotTo(HaveOccurred())
				Expect(again).To(Equal(found))
				expectAll(again)
			}
			Expect(list(filepath.Join(cache, "paks"))).To(HaveLen(1))
		},
		Entry("a file is missing", os.Remove),
		Entry("a file is empty", func(file string) error { return os.Truncate(file, 0) }),
		Entry("a file is cut off", func(file string) error { return os.Truncate(file, 4) }),
		Entry("the directory of a file is missing",
			func(file string) error { return os.RemoveAll(filepath.Dir(file)) }),
	)

	It("are repaired where only their content is damaged, and only those of a zip", func(ctx context.Context) {
		cache, dir := GinkgoT().TempDir(), pakWithBinaries(binaries...)
		pak := open(zipped(dir))
		Expect(pak.RepairExecutables(ctx, linux, cache)).To(BeFalse())
		Expect(list(cache)).To(BeEmpty(), "nothing was unpacked yet")
		found, err := pak.Executables(ctx, linux, cache)
		Expect(err).NotTo(HaveOccurred())
		Expect(pak.RepairExecutables(ctx, linux, cache)).To(BeFalse())
		for _, damage := range []string{"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", "cut"} {
			write(found.Tofu["1.12.6"], damage)
			Expect(pak.RepairExecutables(ctx, linux, cache)).To(BeTrue())
			expectAll(found)
		}
		Expect(list(filepath.Join(cache, "paks"))).To(HaveLen(1))
		Expect(open(dir).RepairExecutables(ctx, linux, cache)).To(BeFalse())

		ended, cancel := context.WithCancel(ctx)
		cancel()
		_, err = pak.RepairExecutables(ended, linux, cache)
		Expect(err).To(MatchError(context.Canceled))
	})

	It("are not repaired for another user", func(ctx context.Context) {
		if os.Geteuid() != 0 {
			Skip("only root can change the owner of a directory")
		}
		cache := GinkgoT().TempDir()
		pak := open(zipped(pakWithBinaries(binaries...)))
		found, err := pak.Executables(ctx, linux, cache)
		Expect(err).NotTo(HaveOccurred())
		unpacked := filepath.Join(cache, "paks", list(filepath.Join(cache, "paks"))[0])
		Expect(os.Chown(unpacked, 12345, 12345)).To(Succeed())
		Expect(pak.RepairExecutables(ctx, linux, cache)).To(BeFalse())
		write(found.Tofu["1.12.6"], "cut")
		_, err = pak.RepairExecutables(ctx, linux, cache)
		Expect(err).To(MatchError("the binaries in " + unpacked +
			" are damaged: remove the directory, or repeat the command as its owner, user 12345"))
	})

	It("are unpacked to another directory if their content differs", func(ctx context.Context) {
		cache := GinkgoT().TempDir()
		dir := pakWithBinaries(binaries...)
		first, err := open(zipped(dir)).Executables(ctx, linux, cache)
		Expect(err).NotTo(HaveOccurred())
		write(filepath.Join(dir, "bin/linux/amd64/1.12.6/tofu"), "1.12.6/TOFU")
		second, err := open(zipped(dir)).Executables(ctx, linux, cache)
		Expect(err).NotTo(HaveOccurred())
		Expect(second.Path).NotTo(Equal(first.Path))
		Expect(os.ReadFile(second.Tofu["1.12.6"])).To(BeEquivalentTo("1.12.6/TOFU"))
		expectAll(first)
	})

	It("may be unpacked by several processes at once", func(ctx context.Context) {
		name, cache := zipped(pakWithBinaries(binaries...)), GinkgoT().TempDir()
		const processes = 8
		var group sync.WaitGroup
		results, failures := make([]*brokerpak.Executables, processes), make([]error, processes)
		files := make([]fs.FileInfo, processes)
		for i := range processes {
			pak := open(name)
			group.Go(func() {
				if results[i], failures[i] = pak.Executables(ctx, linux, cache); failures[i] == nil {
					files[i], failures[i] = os.Stat(results[i].Tofu["1.12.6"])
				}
			})
		}
		group.Wait()
		for i := range processes {
			Expect(failures[i]).NotTo(HaveOccurred())
			Expect(results[i]).To(Equal(results[0]))
			Expect(os.SameFile(files[i], files[0])).To(BeTrue(),
				"what one process unpacked was not replaced by another")
		}
		expectAll(results[0])
		Expect(os.ReadDir(filepath.Join(cache, "paks"))).To(HaveLen(1))
	})

	It("are not unpacked if the context has been cancelled", func() {
		cache := GinkgoT().TempDir()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, err := open(zipped(pakWithBinaries(binaries...))).Executables(ctx, linux, cache)
		Expect(err).To(MatchError(context.Canceled))
		Expect(os.ReadDir(filepath.Join(cache, "paks"))).To(BeEmpty())
	})

	It("include an OpenTofu outside of a version directory, as in older paks", func(ctx context.Context) {
		found, err := open(pakWithBinaries(append(binaries[1:], "tofu")...)).Executables(ctx, linux, "")
		Expect(err).NotTo(HaveOccurred())
		Expect(found.Tofu["1.12.6"]).To(HaveSuffix("amd64/tofu"))
		Expect(found.Tofu["1.6"]).To(HaveSuffix("amd64/1.6.0/tofu"))
	})

	It("are all named in the error if they are missing", func(ctx context.Context) {
		pak := open(pakWithBinaries("terraform-provider-random_v3.6.0/tofu", "terraform-provider-csb_v1.0.10"))
		_, err := pak.Executables(ctx, linux, "")
		Expect(err).To(MatchError(And(
			ContainSubstring("lacks binaries for linux/amd64"), ContainSubstring("tofu 1.12.6: no file "),
			ContainSubstring("tofu 1.6: no file"), ContainSubstring("amd64/terraform-provider-random_v3.6.0\n"),
			HaveSuffix("amd64/terraform-provider-csb_v1.0.1"),
		)))
	})

	It("are rejected if several files match a provider", func(ctx context.Context) {
		pak := open(pakWithBinaries(append(binaries, "terraform-provider-random_v3.6.0_x4")...))
		_, err := pak.Executables(ctx, linux, "")
		Expect(err).To(MatchError(ContainSubstring("several files for terraform-provider-random_v3.6.0: ")))
	})

	DescribeTable("cause an error if the pak has none for the platform",
		func(ctx context.Context, platform brokerpak.Platform, asZip bool, message string) {
			name := pakWithBinaries(binaries...)
			if asZip {
				name = zipped(name)
			}
			_, err := open(name).Executables(ctx, platform, GinkgoT().TempDir())
			Expect(err).To(MatchError("pak " + name + message))
		},
		Entry("in a directory", brokerpak.Platform{OS: "linux", Arch: "arm64"}, false,
			" has no binaries for linux/arm64; its platforms are linux/amd64, darwin/arm64"),
		Entry("in a zip", brokerpak.Platform{OS: "linux", Arch: "arm64"}, true,
			" has no binaries for linux/arm64; its platforms are linux/amd64, darwin/arm64"),
		Entry("although the manifest lists the platform", brokerpak.Platform{OS: "darwin", Arch: "arm64"}, true,
			" has no binaries for darwin/arm64: it has no directory bin/darwin/arm64; build the pak with "+
				"service-adapter pak build"),
	)

	It("are rejected if they are larger than the zip declares", func(ctx context.Context) {
		name := zipped(pakWithBinaries(binaries...), func(writer *zip.Writer) {
			const content = "large"
			file, err := writer.CreateRaw(&zip.FileHeader{
				Name: "bin/linux/amd64/more", Method: zip.Store, UncompressedSize64: 1,
				CompressedSize64: uint64(len(content)),
			})
			Expect(err).NotTo(HaveOccurred())
			_, err = file.Write([]byte(content))
			Expect(err).NotTo(HaveOccurred())
		})
		cache := GinkgoT().TempDir()
		_, err := open(name).Executables(ctx, linux, cache)
		Expect(err).To(MatchError(ContainSubstring("unpacking bin/linux/amd64/more: ")))
		Expect(os.ReadDir(filepath.Join(cache, "paks"))).To(BeEmpty())
	})

	It("are rejected if they do not match their checksum", func(ctx context.Context) {
		cache := GinkgoT().TempDir()
		name := zipped(pakWithBinaries(binaries[1:]...), func(writer *zip.Writer) {
			file, err := writer.CreateHeader(&zip.FileHeader{Name: "bin/linux/amd64/1.12.6/tofu", Method: zip.Store})
			Expect(err).NotTo(HaveOccurred())
			_, err = file.Write([]byte("genuine"))
			Expect(err).NotTo(HaveOccurred())
		})
		data, err := os.ReadFile(name)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(name, bytes.Replace(data, []byte("genuine"), []byte("another"), 1), 0o600)).To(Succeed())
		_, err = open(name).Executables(ctx, linux, cache)
		Expect(err).To(MatchError(zip.ErrChecksum))
		Expect(os.ReadDir(filepath.Join(cache, "paks"))).To(BeEmpty())
	})
})

var _ = DescribeTable("the default OpenTofu", func(binaries, version string) {
	pak := open(newPak(map[string]string{"manifest.yml": `
packversion: 1
name: tofu
version: 1.0.0
platforms: [{os: linux, arch: amd64}]
service_definitions: [service.yml]
terraform_binaries: ` + binaries}))
	got, err := pak.Manifest.DefaultVersion()
	if version == "" {
		Expect(err).To(MatchError("pak tofu bundles no default OpenTofu: terraform_binaries needs an entry named tofu"))
		return
	}
	Expect(err).NotTo(HaveOccurred())
	Expect(got).To(Equal(version))
},
	Entry("is the only OpenTofu", "[{name: tofu, version: 1.12.6}]", "1.12.6"),
	Entry("is the OpenTofu that is marked as default",
		"[{name: tofu, version: 1.9.0}, {name: tofu, version: 1.10.0, default: true}]", "1.10.0"),
	Entry("may follow a pre-release",
		"[{name: tofu, version: 1.10.0-rc1}, {name: tofu, version: 1.10.0, default: true}]", "1.10.0"),
	Entry("is required", "[{name: terraform, version: 1.5.7}]", ""),
)
