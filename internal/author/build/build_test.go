package build_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/brokerpak"
	"service-adapter/internal/author/build"
)

// copied copies directories over each other into a new one.
func copied(dirs ...string) string {
	GinkgoHelper()
	target := filepath.Join(GinkgoT().TempDir(), "pak")
	for _, dir := range dirs {
		Expect(filepath.WalkDir(dir, func(name string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			inside, err := filepath.Rel(dir, name)
			write(filepath.Join(target, inside), read(name))
			return err
		})).To(Succeed())
	}
	return target
}

var _ = Describe("building", func() {
	var tofu string
	BeforeEach(func() { tofu = write(filepath.Join(GinkgoT().TempDir(), "opentofu"), script) })

	for _, source := range []string{"../../../spec/parity/pak", "../../../examples/example-email"} {
		It("writes the same bytes and the same services for "+source+", whatever its directory is", func() {
			overrides := from("tofu", tofu)
			if filepath.Base(source) == "example-email" {
				overrides = from("tofu", tofu, "terraform-provider-random", tofu)
			}
			first, _ := mustBuild(source, overrides)
			second, _ := mustBuild(copied(source), overrides)
			Expect(read(second) == read(first)).To(BeTrue(), "the bytes are the same")
			Expect(model(first)).To(Equal(model(source)))

			pak, err := brokerpak.Open(first)
			Expect(err).NotTo(HaveOccurred())
			defer pak.Close()
			for _, platform := range pak.Manifest.Platforms {
				_, err := pak.Executables(GinkgoT().Context(), platform, GinkgoT().TempDir())
				Expect(err).NotTo(HaveOccurred())
			}
		})
	}

	It("keeps the meaning of every definition", func() {
		cases, err := filepath.Glob("../../../brokerpak/testdata/ok/*")
		Expect(err).NotTo(HaveOccurred())
		Expect(len(cases)).To(BeNumerically(">", 10))
		for _, dir := range cases {
			name := filepath.Base(dir)
			source := copied("../../../brokerpak/testdata/base", dir)
			pak, err := brokerpak.Open(source)
			Expect(err).NotTo(HaveOccurred())
			overrides := []string{}
			for _, binary := range pak.Manifest.Binaries {
				overrides = append(overrides, binary.Name, tofu)
			}
			expected := model(source)
			if name == "image-file" {
				write(filepath.Join(source, "service-images/a b.png"), "\x89PNG\r\n\x1a\n")
				expected = strings.Replace(expected, "file://service-images/a b.png",
					"data:image/png;base64,iVBORw0KGgo=", 1)
			}
			built, _, err := buildPak(source, from(overrides...))
			Expect(err).NotTo(HaveOccurred(), name)
			Expect(model(built)).To(Equal(expected), name)
		}
	})

	It("writes the layout that other brokers read", func() {
		dir := newPak("name: tofu, version: '1.6', default: true", "name: terraform-provider-random, version: v3.7.2",
			"name: psql, version: latest")
		built, _ := mustBuild(dir, from("tofu", tofu, "terraform-provider-random", tofu, "psql", tofu),
			func(o *build.Options) {
				o.Platform = &brokerpak.Platform{OS: "darwin", Arch: "arm64"}
			})
		files := contents(built)
		Expect(files).To(HaveLen(7))
		Expect(files).To(And(HaveKey("0644 bom.cdx.json"), HaveKey("0644 brokerpak.lock.yml")))
		Expect(files).To(HaveKeyWithValue("0755 bin/darwin/arm64/1.6.0/tofu", script))
		Expect(files).To(HaveKeyWithValue("0755 bin/darwin/arm64/terraform-provider-random_v3.7.2", script))
		Expect(files).To(HaveKeyWithValue("0755 bin/darwin/arm64/psql", script))
		Expect(files).To(HaveKey("0644 definitions/service0-mail.yml"))
		Expect(files).To(HaveKeyWithValue("0644 manifest.yml", `packversion: 1
name: mail
version: 1.0.0
platforms:
  - os: darwin
    arch: arm64
service_definitions:
  - definitions/service0-mail.yml
terraform_binaries:
  - {name: tofu, version: '1.6', default: true}
  - {name: terraform-provider-random, version: v3.7.2}
  - {name: psql, version: latest}
`))
	})

	It("replaces references and images in definitions by the contents of the files, and keeps unknown keys", func() {
		dir := newPak("name: tofu, version: 1.6.0")
		write(filepath.Join(dir, "mail.yml"), strings.Replace(service,
			"https://example.com/icon.png", "file://icon.svg", 1)+`
unknown: &anchor {key: value}
provision:
  unknown: *anchor
  bosh:
    manifest_ref: bosh/mail.yml
    ops:
    - {ref: bosh/ops.yml, if: "${true}"}
    configs:
      cloud: {ref: bosh/ops.yml}
bind:
  template: "# replaced"
  template_ref: bind.tf
  templates: {kept: "# kept"}
  template_refs: {main: main.tf}
`)
		write(filepath.Join(dir, "icon.svg"), "<svg></svg>\n")
		write(filepath.Join(dir, "bosh/mail.yml"), "# comment\ninstance_groups: []\n")
		write(filepath.Join(dir, "bosh/ops.yml"), "[]\n")
		write(filepath.Join(dir, "bind.tf"), "# bind\n")
		write(filepath.Join(dir, "main.tf"), "# main\r\n\t# tab\n")
		built, _ := mustBuild(dir, from("tofu", tofu))
		definition := contents(built)["0644 definitions/service0-mail.yml"]
		Expect(definition).To(HaveSuffix(`image_url: data:image/svg+xml;base64,PHN2Zz48L3N2Zz4K
documentation_url: https://example.com
support_url: https://example.com/support
unknown: {key: value}
provision:
  unknown: {key: value}
  bosh:
    ops:
      - if: "${true}"
        inline: |
          []
    configs:
      cloud:
        inline: |
          []
    manifest: |
      # comment
      instance_groups: []
bind:
  template: |
    # bind
  templates:
    kept: "# kept"
    main: "# main\r\n\t# tab\n"
`))
	})

	It("rejects a text that YAML cannot represent", func() {
		_, err := build.FlatYAML([]byte("a: !!set {x}"))
		Expect(err).To(MatchError("the file contains a text that cannot be written as YAML"))
	})

	It("keeps an empty template", func() {
		dir := newPak("name: tofu, version: 1.6.0")
		write(filepath.Join(dir, "mail.yml"), service+"bind: {template_ref: bind.tf, template_refs: {main: bind.tf}}\n")
		write(filepath.Join(dir, "bind.tf"), "")
		built, _ := mustBuild(dir, from("tofu", tofu))
		pak, err := brokerpak.Open(built)
		Expect(err).NotTo(HaveOccurred())
		defer pak.Close()
		Expect(pak.Services[0].Bind.Templates).To(Equal(map[string]string{"template.tf": "\n", "main.tf": ""}))
	})

	It("includes sources", func() {
		code := zipOf(entry{"main.go", "package main", 0o644})
		files := serveFiles(map[string]string{"/a.zip": code, "/b.zip": code + "b"})
		dir := newPak("name: tofu, version: 1.6.0, source: "+files.URL+"/a.zip",
			"name: tofu, version: 1.7.0, default: true, source: "+files.URL+"/b.zip",
			"name: psql, version: 1")
		built, progress := mustBuild(dir, from("tofu", tofu, "psql", tofu), func(o *build.Options) {
			o.IncludeSource = true
		})
		Expect(contents(built)).To(And(HaveKeyWithValue("0644 src/tofu-1.6.0.zip", code),
			HaveKeyWithValue("0644 src/tofu-1.7.0.zip", code+"b")))
		Expect(progress).To(ContainSubstring("psql 1: its entry has no source"))

		dir = newPak("name: tofu, version: 1.6.0, source: mail.yml")
		_, _, err := buildPak(dir, from("tofu", tofu), func(o *build.Options) { o.IncludeSource = true })
		Expect(err).To(MatchError(ContainSubstring("mail.yml must be a zip")))

		dir = newPak("name: tofu, version: 1.6.0, source: /proc/self/mem") // reading it from the start fails
		_, _, err = buildPak(dir, from("tofu", tofu), func(o *build.Options) {
			o.IncludeSource, o.Unpacked = true, true
		})
		Expect(err).To(MatchError(syscall.EIO))
		Expect(err).NotTo(MatchError(ContainSubstring("must be a zip")))

		dir = newPak("name: tofu, version: 1.6.0", "name: ../../outside, version: 1, source: "+files.URL+"/a.zip")
		_, _, err = buildPak(dir, from("tofu", tofu, "../../outside", tofu), func(o *build.Options) {
			o.IncludeSource = true
		})
		Expect(err).To(MatchError(ContainSubstring(`file "src/../../outside.zip", which leads outside`)))
	})

	It("names the file by name and version, or by the variable that the version names", func() {
		dir := newPak("name: tofu, version: 1.6.0")
		GinkgoT().Chdir(GinkgoT().TempDir())
		unnamed := func(o *build.Options) { o.Output = "" }
		name, _ := mustBuild(dir, from("tofu", tofu), unnamed)
		Expect(name).To(Equal("mail-1.0.0.brokerpak"))
		withVariable := func(value string) func(*build.Options) {
			return func(o *build.Options) {
				o.Getenv = func(name string) (string, bool) { return value, name == "1.0.0" }
			}
		}
		name, _ = mustBuild(dir, from("tofu", tofu), unnamed, withVariable("2.3.4"))
		Expect(name).To(Equal("mail-2.3.4.brokerpak"))
		Expect(read("mail-2.3.4.brokerpak")).To(Equal(read("mail-1.0.0.brokerpak")), "only the name differs")
		_, _, err := buildPak(dir, from("tofu", tofu), unnamed, withVariable("../2"))
		Expect(err).To(MatchError(ContainSubstring(`"mail-../2.brokerpak" cannot be a file name`)))
	})

	It("replaces a file only with a complete one", func() {
		dir := newPak("name: tofu, version: 1.6.0", "name: psql, version: 1")
		output := filepath.Join(GinkgoT().TempDir(), "mail.brokerpak")
		write(output, "before")
		_, _, err := buildPak(dir, from("tofu", tofu, "psql", "nowhere"), func(o *build.Options) { o.Output = output })
		Expect(err).To(HaveOccurred())
		Expect(read(output)).To(Equal("before"))
		mustBuild(dir, from("tofu", tofu, "psql", tofu), func(o *build.Options) { o.Output = output })
		Expect(model(output)).To(Equal(model(dir)))
		info, err := os.Stat(output)
		Expect(err).NotTo(HaveOccurred())
		Expect(info.Mode().Perm()).To(Equal(os.FileMode(0o644)), "it is made to be given to others")
		Expect(filepath.Glob(filepath.Join(filepath.Dir(output), "*"))).To(HaveLen(1))
		Expect(filepath.Glob(filepath.Join(filepath.Dir(output), ".*"))).To(BeEmpty())
	})

	DescribeTable("rejects", func(prepare func(dir string), message string) {
		dir := newPak("name: tofu, version: 1.6.0")
		prepare(dir)
		_, _, err := buildPak(dir, from("tofu", tofu))
		Expect(err).To(MatchError(ContainSubstring(message)))
	},
		Entry("a definition with faults", func(dir string) { write(filepath.Join(dir, "mail.yml"), "version: 2") },
			"mail.yml:1:10: version of a service definition must be 1 [version]"),
		Entry("an image that is not there", func(dir string) {
			write(filepath.Join(dir, "mail.yml"),
				strings.Replace(service, "https://example.com/icon.png", "file://icon.png", 1))
		},
			`mail.yml:6:12: "icon.png" cannot be read: no such file or directory; paths are relative `+
				`to the pak and inside of it [missing-file]`),
		Entry("an image above the pak", func(dir string) {
			write(filepath.Join(dir, "mail.yml"),
				strings.Replace(service, "https://example.com/icon.png", "file://../icon.png", 1))
		}, `"../icon.png" cannot be read: invalid argument`),
		Entry("an image of another kind", func(dir string) {
			write(filepath.Join(dir, "mail.yml"),
				strings.Replace(service, "https://example.com/icon.png", "file://icon.gif", 1))
			write(filepath.Join(dir, "icon.gif"), "GIF89a")
		}, "mail.yml:6:12: icon.gif must be a PNG, JPEG or SVG image [image]"),
		Entry("an image that is too large", func(dir string) {
			write(filepath.Join(dir, "mail.yml"),
				strings.Replace(service, "https://example.com/icon.png", "file://icon.png", 1))
			write(filepath.Join(dir, "icon.png"), "\x89PNG\r\n\x1a\n"+strings.Repeat("x", 1<<20))
		}, "icon.png is larger than 1 MB"),
		Entry("a template in another encoding", func(dir string) {
			write(filepath.Join(dir, "mail.yml"), service+"bind: {template_ref: main.tf}\n")
			write(filepath.Join(dir, "main.tf"), "# \xe4\n")
		}, "mail.yml:9:22: main.tf is not UTF-8 text [encoding]"),
		Entry("a definition that becomes too large", func(dir string) {
			write(filepath.Join(dir, "mail.yml"), service+"bind: {template_refs: {a: main.tf, b: main.tf}}\n")
			write(filepath.Join(dir, "main.tf"), "# "+strings.Repeat("x", 3<<20))
		},
			`the built pak is not usable: manifest.yml:8:5: service definition `+
				`"definitions/service0-mail.yml" cannot be read: `+
				`the file is larger than 4 MB`),
		Entry("aliases without end", func(dir string) {
			text := service + "x0: &x0 [1, 2, 3, 4, 5, 6, 7, 8]\n"
			for i := range 9 {
				next := string(rune('1' + i))
				text += "x" + next + ": &x" + next + " [" + strings.Repeat("*x"+string(rune('0'+i))+", ", 8) + "]\n"
			}
			write(filepath.Join(dir, "mail.yml"), text)
		}, "the file has more than 200000 nodes after its aliases and merges are resolved"),
	)

	It("rejects a pak file as the source, and overrides of entries that do not exist", func() {
		dir := newPak("name: tofu, version: 1.6.0")
		built, _ := mustBuild(dir, from("tofu", tofu))
		_, _, err := buildPak(built, from("tofu", tofu))
		Expect(err).To(MatchError(ContainSubstring("is built already")))
		_, _, err = buildPak(dir, from("tofoo", tofu))
		Expect(err).To(MatchError(ContainSubstring(`has no entry named "tofoo"`)))
		_, _, err = buildPak(dir, from("tofu", tofu), func(o *build.Options) {
			o.Platform = &brokerpak.Platform{OS: "plan9", Arch: "amd64"}
		})
		Expect(err).To(MatchError(ContainSubstring(`unknown platform "plan9/amd64"`)))
	})
})
