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

// binaries are the files of the platform, of which the first is missing in some tests.
var binaries = []string{
	"1.12.6/tofu", "1.6.0/tofu", "terraform-provider-random_v3.6.0_x5", "terraform-provider-csb_v1.0.1", "terraform-provider-csb_v1.0.10",
	"jq-linux", "LICENSE",
}

// pakWithBinaries returns a directory with these files for linux/amd64; each holds its own name.
func pakWithBinaries(names ...string) string {
	GinkgoHelper()
	dir := newPak(map[string]string{"manifest.yml": binariesManifest})
	for _, name := range names {
		write(filepath.Join(dir, "bin/linux/amd64", name), name)
	}
	return dir
}

var linux = brokerpak.Platform{OS: "linux", Arch: "amd64"}

var _ = Describe("the executables of a pak", func() {
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
			{FQN: "registry.terraform.io/hashicorp/random", Version: "3.6.0", File: "terraform-provider-random_v3.6.0_x5"},
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

	It("are used where they are in a directory", func(ctx context.Context) {
		dir, cache := pakWithBinaries(binaries...), GinkgoT().TempDir()
		found, err := open(dir).Executables(ctx, linux, cache)
		Expect(err).NotTo(HaveOccurred())
		expectAll(found)
		Expect(found.Tofu["1.12.6"]).To(HavePrefix(dir))
		Expect(os.ReadDir(cache)).To(BeEmpty())
	})

	It("are unpacked from a zip, once and for the owner alone", func(ctx context.Context) {
		cache := filepath.Join(GinkgoT().TempDir(), "cache")
		pak := open(zipped(pakWithBinaries(binaries...), link("bin/linux/amd64/link", "/etc/passwd"), entry("bin/darwin/arm64/jq", "x")))
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

		write(found.Tofu["1.12.6"], "changed")
		again, err := pak.Executables(ctx, linux, cache)
		Expect(err).NotTo(HaveOccurred())
		Expect(again).To(Equal(found))
		Expect(os.ReadFile(again.Tofu["1.12.6"])).To(BeEquivalentTo("changed"), "was not unpacked again")
	})

	It("of other content are unpacked beside", func(ctx context.Context) {
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
		for i := range processes {
			pak := open(name)
			group.Go(func() { results[i], failures[i] = pak.Executables(ctx, linux, cache) })
		}
		group.Wait()
		for i := range processes {
			Expect(failures[i]).NotTo(HaveOccurred())
			Expect(results[i]).To(Equal(results[0]))
		}
		expectAll(results[0])
		Expect(os.ReadDir(filepath.Join(cache, "paks"))).To(HaveLen(1))
	})

	It("stop being unpacked when the context ends", func() {
		cache := GinkgoT().TempDir()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, err := open(zipped(pakWithBinaries(binaries...))).Executables(ctx, linux, cache)
		Expect(err).To(MatchError(context.Canceled))
		Expect(os.ReadDir(filepath.Join(cache, "paks"))).To(BeEmpty())
	})

	It("prefer the OpenTofu of the version, and take the only one of older paks", func(ctx context.Context) {
		found, err := open(pakWithBinaries(append(binaries[1:], "tofu")...)).Executables(ctx, linux, "")
		Expect(err).NotTo(HaveOccurred())
		Expect(found.Tofu["1.12.6"]).To(HaveSuffix("amd64/tofu"))
		Expect(found.Tofu["1.6"]).To(HaveSuffix("amd64/1.6.0/tofu"))
	})

	It("are all named when they are missing", func(ctx context.Context) {
		_, err := open(pakWithBinaries("terraform-provider-random_v3.6.0/tofu", "terraform-provider-csb_v1.0.10")).Executables(ctx, linux, "")
		Expect(err).To(MatchError(And(
			ContainSubstring("lacks binaries for linux/amd64"), ContainSubstring("tofu 1.12.6: no file "), ContainSubstring("tofu 1.6: no file"),
			ContainSubstring("amd64/terraform-provider-random_v3.6.0\n"), HaveSuffix("amd64/terraform-provider-csb_v1.0.1"),
		)))
	})

	It("must not be ambiguous", func(ctx context.Context) {
		_, err := open(pakWithBinaries(append(binaries, "terraform-provider-random_v3.6.0_x4")...)).Executables(ctx, linux, "")
		Expect(err).To(MatchError(ContainSubstring("several files for terraform-provider-random_v3.6.0: ")))
	})

	DescribeTable("of a platform that the pak lacks", func(ctx context.Context, platform brokerpak.Platform, asZip bool, message string) {
		name := pakWithBinaries(binaries...)
		if asZip {
			name = zipped(name)
		}
		_, err := open(name).Executables(ctx, platform, GinkgoT().TempDir())
		Expect(err).To(MatchError("pak " + name + message))
	},
		Entry("", brokerpak.Platform{OS: "linux", Arch: "arm64"}, false, " has no binaries for linux/arm64; it is made for linux/amd64, darwin/arm64"),
		Entry("in a zip", brokerpak.Platform{OS: "linux", Arch: "arm64"}, true, " has no binaries for linux/arm64; it is made for linux/amd64, darwin/arm64"),
		Entry("but names", brokerpak.Platform{OS: "darwin", Arch: "arm64"}, true,
			" has no binaries for darwin/arm64: there is no directory bin/darwin/arm64 in it; was it built?"),
	)

	It("must be no larger than the zip says", func(ctx context.Context) {
		name := zipped(pakWithBinaries(binaries...), func(writer *zip.Writer) {
			const content = "large"
			file, err := writer.CreateRaw(&zip.FileHeader{
				Name: "bin/linux/amd64/more", Method: zip.Store, UncompressedSize64: 1, CompressedSize64: uint64(len(content)),
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

	It("are unpacked only as long as there is time", func(ctx context.Context) {
		name, cache := zipped(pakWithBinaries(binaries...)), GinkgoT().TempDir()
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		_, err := open(name).Executables(ctx, linux, cache)
		Expect(err).To(MatchError(context.Canceled))
		Expect(os.ReadDir(filepath.Join(cache, "paks"))).To(BeEmpty())
	})

	It("must have their checksum", func(ctx context.Context) {
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
	Entry("is the only one", "[{name: tofu, version: 1.12.6}]", "1.12.6"),
	Entry("is the marked one", "[{name: tofu, version: 1.9.0}, {name: tofu, version: 1.10.0, default: true}]", "1.10.0"),
	Entry("may be a pre-release", "[{name: tofu, version: 1.10.0-rc1}, {name: tofu, version: 1.10.0, default: true}]", "1.10.0"),
	Entry("may be missing", "[{name: terraform, version: 1.5.7}]", ""),
)
