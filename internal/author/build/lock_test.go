package build_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/brokerpak"
	"service-adapter/internal/author/build"
)

// writeLock writes the lock of a pak and returns its text.
func writeLock(dir string, changes ...func(*build.Options)) (text, progress string) {
	GinkgoHelper()
	var out strings.Builder
	options := build.Options{
		Dir: dir, Progress: &out, Pause: func(context.Context, time.Duration) error { return nil },
	}
	for _, change := range changes {
		change(&options)
	}
	name, err := build.Lock(context.Background(), options)
	Expect(err).NotTo(HaveOccurred())
	Expect(name).To(Equal(filepath.Join(dir, "brokerpak.lock.yml")))
	return read(name), out.String()
}

// forPlatform builds for one platform.
func forPlatform(name string) func(*build.Options) {
	return func(options *build.Options) {
		GinkgoHelper()
		platform, err := build.ParsePlatform(name)
		Expect(err).NotTo(HaveOccurred())
		options.Platform = &platform
	}
}

var _ = Describe("the lock of a pak", func() {
	var (
		archive string
		content map[string]string
		files   *server
		dir     string
	)
	BeforeEach(func() {
		archive = zipOf(entry{"tofu", script, 0o755}, entry{"LICENSE", "MPL", 0o644})
		content = map[string]string{"/amd64.zip": archive, "/arm64.zip": archive, "/source.zip": zipOf()}
		files = serve(func(path string, _ int, response http.ResponseWriter) {
			_, _ = response.Write([]byte(content[path]))
		})
		dir = newPak("name: tofu, version: '1.6', source: "+files.URL+"/source.zip, "+
			"url_template: '"+files.URL+"/${arch}.zip?token=secret'",
			"name: psql, version: 16, url_template: tools/psql")
		write(filepath.Join(dir, "tools/psql"), "#!/bin/sh\n")
		manifest := filepath.Join(dir, "manifest.yml")
		write(manifest, strings.Replace(read(manifest), "platforms:\n", "platforms:\n- {os: linux, arch: arm64}\n", 1))
	})

	It("has the digests of all fetched files and of the files of the pak, without credentials", func() {
		text, _ := writeLock(dir)
		_, text, _ = strings.Cut(text, "\nlock_version: 1\n")
		Expect(text).To(HavePrefix("fetched:\n  - name: psql\n    version: \"16\"\n    platform: linux/amd64\n" +
			"    from: tools/psql\n    sha256: " + sha256Hex("#!/bin/sh\n") + "\n"))
		Expect(text).To(ContainSubstring("  - name: tofu\n    version: \"1.6\"\n    platform: linux/arm64\n    from: " +
			files.URL + "/arm64.zip\n    sha256: " + sha256Hex(archive) + "\n"))
		Expect(text).To(ContainSubstring("- path: bin/linux/arm64/1.6.0/tofu\n    sha256: " + sha256Hex(script) + "\n"))
		Expect(text).NotTo(Or(ContainSubstring("secret"), ContainSubstring("source")))

		again, progress := writeLock(dir, func(o *build.Options) { o.IncludeSource = true })
		Expect(again).To(ContainSubstring("    platform: source\n    from: " + files.URL + "/source.zip\n"))
		Expect(progress).To(ContainSubstring("\nchanged: src/tofu.zip (sha256:"))
		plain, _ := writeLock(dir)
		Expect(plain).To(HaveSuffix(text), "the same files have the same lock")
	})

	It("is in the built pak, which is accepted when it is unpacked", func() {
		text, _ := writeLock(dir)
		built, _ := mustBuild(dir)
		Expect(contents(built)["0644 brokerpak.lock.yml"]).To(Equal(text))
		unpacked := filepath.Join(GinkgoT().TempDir(), "pak")
		Expect(build.Unpack(context.Background(), built, unpacked, nil)).To(Succeed())
		Expect(read(filepath.Join(unpacked, "brokerpak.lock.yml"))).To(Equal(text))

		oneOnly, _ := mustBuild(dir, forPlatform("linux/arm64"))
		Expect(contents(oneOnly)["0644 brokerpak.lock.yml"]).NotTo(ContainSubstring("amd64"))
	})

	It("is in a built pak whose source has none", func() {
		built, _ := mustBuild(dir)
		text, _ := writeLock(dir)
		Expect(contents(built)["0644 brokerpak.lock.yml"]).To(Equal(text))
	})

	It("rejects a download with another digest, and names the file, both digests and what to do", func() {
		writeLock(dir)
		other := zipOf(entry{"tofu", script + "# other\n", 0o755})
		content["/arm64.zip"] = other
		_, _, err := buildPak(dir)
		Expect(err).To(MatchError(HaveSuffix("manifest.yml:9:3: tofu 1.6 for linux/arm64: " + files.URL +
			"/arm64.zip has the digest sha256:" + sha256Hex(other) + ", not sha256:" + sha256Hex(archive) +
			"; if brokerpak.lock.yml is out of date and the file is the right one, " +
			"run: service-adapter pak lock " + dir + " [lock]")))
		writeLock(dir)
		mustBuild(dir)
	})

	It("rejects a local file with another digest, and downloads a cached file again", func() {
		cached := func(o *build.Options) { o.CacheDir = filepath.Join(dir, "cache") }
		writeLock(dir, cached)
		entries, err := os.ReadDir(filepath.Join(dir, "cache"))
		Expect(err).NotTo(HaveOccurred())
		for _, cache := range entries {
			write(filepath.Join(dir, "cache", cache.Name()), "damaged")
		}
		mustBuild(dir, cached)
		write(filepath.Join(dir, "tools/psql"), "#!/bin/sh\nexit\n")
		_, _, err = buildPak(dir, cached)
		Expect(err).To(MatchError(ContainSubstring(dir + "/tools/psql has the digest sha256:")))
	})

	It("rejects entries, platforms and source code that it does not list, and checksums that differ from it", func() {
		writeLock(dir)
		_, _, err := buildPak(dir, func(o *build.Options) { o.IncludeSource = true })
		Expect(err).To(MatchError(HaveSuffix("tofu 1.6 for src: brokerpak.lock.yml does not list it; " +
			"run: service-adapter pak lock " + dir + " [lock]")))
		_, _, err = buildPak(dir, forPlatform("darwin/arm64"))
		Expect(err).To(MatchError(ContainSubstring("psql 16 for darwin/arm64: brokerpak.lock.yml does not list it")))
		manifest := filepath.Join(dir, "manifest.yml")
		write(manifest, strings.Replace(read(manifest), "token=secret", "checksum=sha256:"+sha256Hex("x"), 1))
		_, _, err = buildPak(dir)
		Expect(err).To(MatchError(ContainSubstring("the manifest has the checksum sha256:" + sha256Hex("x") +
			", and brokerpak.lock.yml:20 has sha256:" + sha256Hex(archive))))
	})

	It("accepts the same executable from another file, and rejects another one", func() {
		writeLock(dir)
		same := write(filepath.Join(GinkgoT().TempDir(), "tofu"), script)
		files.Close() // without a network
		built, _ := mustBuild(dir, from("tofu", same))
		Expect(contents(built)["0644 brokerpak.lock.yml"]).NotTo(ContainSubstring("LICENSE"))
		other := write(filepath.Join(GinkgoT().TempDir(), "tofu"), script+"# other\n")
		_, _, err := buildPak(dir, from("tofu", other))
		Expect(err).To(MatchError(MatchRegexp(`brokerpak\.lock\.yml:\d+:5: bin/linux/amd64/1\.6\.0/tofu has ` +
			"the digest sha256:" + sha256Hex(script+"# other\n") + ", not sha256:" + sha256Hex(script) + "; if ")))
		mustBuild(dir, from("tofu", other), func(o *build.Options) { o.Unpacked = true }) // tests may run another one
	})

	It("that is invalid fails the build, and can be written again", func() {
		write(filepath.Join(dir, "brokerpak.lock.yml"), "lock_version: 1\nfiles: [a]\n")
		_, _, err := buildPak(dir)
		Expect(err).To(MatchError(ContainSubstring("brokerpak.lock.yml:2:9: an entry of files must be a mapping")))
		writeLock(dir)
		mustBuild(dir)
	})

	It("is not replaced if a file cannot be fetched", func() {
		text, _ := writeLock(dir)
		Expect(os.Remove(filepath.Join(dir, "tools/psql"))).To(Succeed())
		_, err := build.Lock(context.Background(), build.Options{Dir: dir, Progress: GinkgoWriter})
		Expect(err).To(MatchError(ContainSubstring("there is no file")))
		Expect(read(filepath.Join(dir, "brokerpak.lock.yml"))).To(Equal(text))
	})

	It("rejects a built pak whose files were changed, when it is unpacked", func() {
		built, _ := mustBuild(dir)
		var entries []entry
		for name, text := range contents(built) {
			if strings.HasSuffix(name, "arm64/1.6.0/tofu") {
				text += "# other\n"
			}
			_, path, _ := strings.Cut(name, " ")
			entries = append(entries, entry{path, text, 0o644})
		}
		changed := write(filepath.Join(GinkgoT().TempDir(), "changed.brokerpak"), zipOf(entries...))
		unpacked := filepath.Join(GinkgoT().TempDir(), "pak")
		err := build.Unpack(context.Background(), changed, unpacked, nil)
		Expect(err).To(MatchError(ContainSubstring("differs from its lock, brokerpak.lock.yml: " +
			"bin/linux/arm64/1.6.0/tofu has the digest sha256:" + sha256Hex(script+"# other\n"))))
		Expect(unpacked).NotTo(BeADirectory())
		unchanged := &brokerpak.Platform{OS: "linux", Arch: "amd64"}
		Expect(build.Unpack(context.Background(), changed, unpacked, unchanged)).To(Succeed())
	})
})
