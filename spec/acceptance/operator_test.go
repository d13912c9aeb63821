package acceptance_test

import (
	"archive/zip"
	"context"
	"io/fs"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/spec/kit"
)

// zipPak writes a zip of the site's pak next to the pak and returns the path of the zip.
func (s *site) zipPak() string {
	GinkgoHelper()
	s.ownBinaries()
	file, err := os.Create(s.pak + ".brokerpak")
	Expect(err).NotTo(HaveOccurred())
	archive := zip.NewWriter(file)
	Expect(filepath.WalkDir(s.pak, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(s.pak, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		header := &zip.FileHeader{Name: filepath.ToSlash(name), Method: zip.Store} // compressing binaries takes long
		header.SetMode(0o755)
		member, err := archive.CreateHeader(header)
		if err != nil {
			return err
		}
		_, err = member.Write(content)
		return err
	})).To(Succeed())
	Expect(archive.Close()).To(Succeed())
	Expect(file.Close()).To(Succeed())
	return file.Name()
}

var _ = Describe("a pak", func() {
	It("works as a zip in the same way as a directory", func(ctx context.Context) {
		b := newBroker(newSite("entries"))
		b.site.controlled() // a wrapper of OpenTofu, because copying a hundred megabytes takes long
		zipped := b.site.zipPak()
		b.deploy(ctx, object{"text": "mine"})
		directory := credentials(b.bind(ctx, "bind-1", object{"content": "mine"}))
		Expect(b.unbind(ctx, "bind-1").Exit).To(Equal(0))

		b.site.set(map[string]any{"paks": []string{zipped}})
		Expect(os.RemoveAll(b.site.pak)).To(Succeed())
		expectSame(b.Manifest, b.call(ctx, generateManifest, b.Generate(object{})))
		fromZip := credentials(b.bind(ctx, "bind-1", object{"content": "mine"}))
		directory["secret"] = fromZip["secret"]
		Expect(fromZip).To(Equal(directory))
		Expect(b.unbind(ctx, "bind-1").Exit).To(Equal(0))
		b.site.expectNothingLeft()
		Expect(modes(b.site.cache())).To(BeEmpty())
	})
})

var _ = Describe("a mistake of the operator", func() {
	var b *broker

	BeforeEach(func(ctx context.Context) {
		b = newBroker(newSite("entries"))
		b.deploy(ctx, nil)
	})

	DescribeTable("is reported on one line:", func(ctx context.Context, mistake func(s *site), message string) {
		mistake(b.site)
		expectBroken(b.bind(ctx, "bind-1", nil), message)
		Expect(b.site.resources()).To(BeEmpty())
	},
		Entry("the state directory cannot be created", func(s *site) {
			file := filepath.Join(s.dir, "file")
			Expect(os.WriteFile(file, nil, 0o600)).To(Succeed())
			s.set(object{"state": object{"config": object{"dir": filepath.Join(file, "state")}}})
		}, "state.config.dir must be a writable, durable directory"),
		Entry("the state directory is relative", func(s *site) {
			s.set(object{"state": object{"config": object{"dir": "state"}}})
		}, "dir, the absolute path of a durable directory"),
		Entry("OpenTofu cannot be executed", func(s *site) { s.unexecutable(kit.Newest, "tofu") },
			"must be an executable file on a file system that is not mounted noexec"),
		Entry("a provider cannot be executed", func(s *site) { s.unexecutable("terraform-provider-directory_v1.0.0") },
			"must be an executable file on a file system that is not mounted noexec"),
		Entry("OpenTofu is missing", func(s *site) {
			Expect(os.Remove(s.bin(kit.Newest, "tofu"))).To(Succeed())
		}, "lacks binaries for linux/"),
		Entry("the cache directory is open to others", func(s *site) {
			Expect(os.Mkdir(s.cache(), 0o700)).To(Succeed())
			Expect(os.Chmod(s.cache(), 0o777)).To(Succeed())
		}, "it must be a private directory"),
		Entry("the pak is missing", func(s *site) {
			s.set(object{"paks": []string{filepath.Join(s.dir, "nowhere")}})
		}, "nowhere: no such file or directory"),
		Entry("the pak is not a pak", func(s *site) {
			s.set(object{"paks": []string{s.configFile()}})
		}, "it is neither a directory nor a brokerpak zip"),
		Entry("a pak has a mistake", func(s *site) {
			s.write("entries.yml", "version: 1\nname: entries\nplan: []\n")
		}, "entries.yml:1:1"),
		Entry("the configuration has an unknown key", func(s *site) {
			s.set(object{"budgte": "45s"})
		}, `unknown key \"budgte\"; did you mean \"budget\"?`),
		Entry("the configuration has a wrong type", func(s *site) {
			s.set(object{"budget": "long"})
		}, "a duration such as 45s"),
		Entry("the configuration is missing", func(s *site) {
			Expect(os.Remove(s.configFile())).To(Succeed())
		}, "reading the configuration that SERVICE_ADAPTER_CONFIG names"),
		Entry("the configuration is not YAML", func(s *site) {
			Expect(os.WriteFile(s.configFile(), []byte("paks: ["), 0o600)).To(Succeed())
		}, "reading the configuration"),
		Entry("the configuration contains no pak", func(s *site) {
			s.set(object{"paks": []string{}})
		}, "paks must name at least one brokerpak"),
	)

	It("is reported on one line if a pak has secrets and the configuration does not state who stores them",
		func(ctx context.Context) {
			delete(b.site.config, "secure_manifests")
			b.site.save()
			expectBroken(b.call(ctx, generateManifest, b.Generate(object{})),
				"set secure_manifests in the adapter's configuration")
		})

	It("is reported on one line if the state directory is read-only", func(ctx context.Context) {
		b.withoutPrivileges()
		b.site.set(object{"state": object{"config": object{"dir": filepath.Join(b.site.dir, "state")}}})
		expectBroken(b.bind(ctx, "bind-1", nil), "state.config.dir must be a writable, durable directory")
	})
})
