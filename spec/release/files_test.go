package main_test

import (
	"context"
	"debug/elf"
	"debug/macho"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/spec/kit"
)

// releasedVersion is the version that the specs of this file release, and notes is its section of the changelog.
const (
	releasedVersion = "9.8.7"
	notes           = "## [" + releasedVersion + "] - 2026-01-02\n\n### Added\n\n- The notes.\n\n"
)

// A checkout is a copy of this repository with a Git repository of its own, whose only commit contains the sources with
// a section of the changelog for releasedVersion. All checkouts have the same commit.
type checkout struct{ dir string }

// newCheckout returns a new checkout in a directory with this name. Its files have the given time of modification.
func newCheckout(ctx context.Context, name string, modified time.Time) checkout {
	GinkgoHelper()
	c := checkout{filepath.Join(kit.Directory(GinkgoT()), name)}
	listed := run(ctx, kit.Path(), "git", "ls-files", "--cached", "--others", "--exclude-standard", "-z")
	for path := range strings.SplitSeq(strings.TrimSuffix(listed, "\x00"), "\x00") {
		info, err := os.Lstat(kit.Path(path))
		if os.IsNotExist(err) || info.Mode()&os.ModeSymlink != 0 {
			continue // a file that the working tree no longer has, or a link to the tools of another one
		}
		Expect(err).NotTo(HaveOccurred())
		text := readFile(kit.Path(path))
		if path == "CHANGELOG.md" {
			text = strings.Replace(text, "## [Unreleased]", "## [Unreleased]\n\n"+notes+"## [0.1.0]", 1)
		}
		writeFile(text, c.dir, path)
		Expect(os.Chmod(filepath.Join(c.dir, path), info.Mode().Perm())).To(Succeed())
		Expect(os.Chtimes(filepath.Join(c.dir, path), modified, modified)).To(Succeed())
	}
	run(ctx, c.dir, "git", "init", "--quiet")
	run(ctx, c.dir, "git", "add", "--all")
	commit := exec.CommandContext(ctx, "git", "-c", "user.name=x", "-c", "user.email=x@example.com", "commit",
		"--quiet", "--no-gpg-sign", "--message", "all")
	commit.Dir, commit.Env = c.dir, append(os.Environ(), "GIT_AUTHOR_DATE=@1 +0000", "GIT_COMMITTER_DATE=@1 +0000")
	output, err := commit.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s", output)
	return c
}

// run runs a shell script in the checkout, with these variables in its environment, and returns what it printed.
func (c checkout) run(ctx context.Context, script string, environment ...string) string {
	GinkgoHelper()
	command := exec.CommandContext(ctx, "sh", "-euc", script)
	command.Dir, command.Env = c.dir, append(os.Environ(), environment...)
	output, err := command.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s", output)
	return string(output)
}

var _ = Describe("the files of a release", Ordered, kit.Slow(), func() {
	const prefix = "service-adapter-" + releasedVersion
	var source checkout
	var pak, first, commit string

	BeforeAll(func(ctx context.Context) {
		pak, source = smallPak("redis.brokerpak"), newCheckout(ctx, "source", time.Now())
		commit = strings.TrimSpace(source.run(ctx, "git rev-parse HEAD"))
		build := kit.Directory(GinkgoT())
		var recipe string
		for _, block := range regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllStringSubmatch(
			readFile(kit.Path("RELEASING.md")), -1) {
			recipe += block[1]
		}
		By("tagging, building and verifying it as RELEASING.md says")
		printed := source.run(ctx, recipe, "VERSION="+releasedVersion, "BUILD="+build, "PAKS="+pak,
			"GIT_COMMITTER_NAME=x", "GIT_COMMITTER_EMAIL=x@example.com")
		Expect(printed).To(ContainSubstring(prefix + ".tgz: OK\n"))
		Expect(printed).NotTo(ContainSubstring("has no section"))
		first = filepath.Join(build, "first", "build", "release")
	})

	It("have the same bytes whatever the files' times, the path and the environment are", func(ctx context.Context) {
		again := newCheckout(ctx, "with a space/and a longer path", time.Unix(1, 0))
		again.run(ctx, `umask 077; make release VERSION="$VERSION" PAKS="$PAKS"`,
			"VERSION="+releasedVersion, "PAKS="+pak, "TZ=Asia/Kathmandu", "LC_ALL=C.UTF-8",
			"GOAMD64=v3", "GOFLAGS=-tags=other", "CGO_ENABLED=1")
		Expect(readFile(again.dir, "build", "release", "SHA256SUMS")).To(Equal(readFile(first, "SHA256SUMS")))
	})

	It("are complete, and SHA256SUMS lists their digests", func() {
		var listed []string
		for line := range strings.Lines(readFile(first, "SHA256SUMS")) {
			digest, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
			expectDigest("sha256:"+digest, first, name)
			listed = append(listed, strings.TrimPrefix(name, prefix))
		}
		Expect(listed).To(Equal([]string{
			"-THIRD_PARTY_LICENSES", "-completion.bash", "-completion.fish", "-completion.zsh",
			"-darwin-arm64", "-linux-amd64", "-linux-arm64",
			"-notes.md", ".cdx.json", ".tgz",
		}))
	})

	It("contain static programs that name their version and their commit", func(ctx context.Context) {
		for _, arch := range []string{"amd64", "arm64"} {
			program, err := elf.Open(filepath.Join(first, prefix+"-linux-"+arch))
			Expect(err).NotTo(HaveOccurred())
			Expect(program.Machine).To(Equal(map[string]elf.Machine{
				"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64,
			}[arch]))
			Expect(program.ImportedLibraries()).To(BeEmpty())
			Expect(program.Section(".interp")).To(BeNil())
			Expect(program.Close()).To(Succeed())
		}
		program, err := macho.Open(filepath.Join(first, prefix+"-darwin-arm64"))
		Expect(err).NotTo(HaveOccurred())
		Expect(program.Cpu).To(Equal(macho.CpuArm64))
		Expect(program.Close()).To(Succeed())

		host := filepath.Join(first, prefix+"-"+runtime.GOOS+"-"+runtime.GOARCH)
		Expect(run(ctx, "", host, "--version")).To(Equal("service-adapter " + releasedVersion + "\n"))
		Expect(run(ctx, "", host, "version")).To(And(
			ContainSubstring("\ncommit: "+commit+"\n"), ContainSubstring("\nbuild: vcs.modified=false\n"),
			ContainSubstring("\nbuild: CGO_ENABLED=0\n"), ContainSubstring("\nbuild: -trimpath=true\n"),
		))
		Expect(readFile(first, prefix+"-linux-"+runtime.GOARCH)).NotTo(ContainSubstring(kit.Path()))
	})

	It("contain the BOSH release with that program", func(ctx context.Context) {
		dir := unpack(ctx, filepath.Join(first, prefix+".tgz"))
		Expect(packaged(ctx, dir, "odb-service-adapter", "service-adapter/service-adapter") ==
			readFile(first, prefix+"-linux-amd64")).To(BeTrue(), "another program")
		Expect(readFile(dir, "release.MF")).To(ContainSubstring("uncommitted_changes: false"))
	})

	It("let an author without Go create, validate, test and build a pak", func(ctx context.Context) {
		tofu, dir := kit.OpenTofu(GinkgoT(), kit.Newest), kit.Directory(GinkgoT())
		for _, program := range []string{"grep", "sleep", "touch"} { // for the server of a test case of the new pak
			path, err := exec.LookPath(program)
			Expect(err).NotTo(HaveOccurred())
			Expect(os.Symlink(path, filepath.Join(dir, program))).To(Succeed())
		}
		author := func(arguments ...string) string {
			GinkgoHelper()
			program := filepath.Join(first, prefix+"-"+runtime.GOOS+"-"+runtime.GOARCH)
			command := exec.CommandContext(ctx, program, arguments...)
			command.Dir, command.Env = dir, []string{"PATH=" + dir, "HOME=" + dir, "TMPDIR=" + dir}
			output, err := command.CombinedOutput()
			Expect(err).NotTo(HaveOccurred(), "%s", output)
			return string(output)
		}
		author("pak", "init", "mail")
		Expect(author("pak", "validate", "mail")).To(ContainSubstring("0 errors"))
		Expect(author("pak", "test", "mail", "--binary", "tofu="+tofu)).To(HaveSuffix("5 passed, 0 failed\n"))
		author("pak", "build", "mail", "--target", "current", "--binary", "tofu="+tofu)
		Expect(author("pak", "info", "mail-0.1.0.brokerpak", "--bom")).To(ContainSubstring(`"bomFormat": "CycloneDX"`))
	})

	It("contain completions, the bill of materials, the licences and the notes", func(ctx context.Context) {
		run(ctx, "", "bash", "-n", filepath.Join(first, prefix+"-completion.bash"))
		Expect(readFile(first, prefix+"-completion.zsh")).To(HavePrefix("#compdef service-adapter"))
		Expect(readFile(first, prefix+"-completion.fish")).To(ContainSubstring("complete -c service-adapter"))
		var bill struct {
			BOMFormat string
			Metadata  struct {
				Component struct{ Name, Version string }
			}
		}
		Expect(json.Unmarshal([]byte(readFile(first, prefix+".cdx.json")), &bill)).To(Succeed())
		Expect(bill.BOMFormat).To(Equal("CycloneDX"))
		Expect(bill.Metadata.Component.Name + " " + bill.Metadata.Component.Version).To(
			Equal("service-adapter " + releasedVersion))
		// The file is that of linux/amd64, whose program contains the modules of all others.
		licences := readFile(first, prefix+"-THIRD_PARTY_LICENSES")
		for _, system := range []string{"linux", "darwin"} {
			others := run(ctx, kit.Path(), "go", "run", "./spec/licences", "-os", system, "-arch", "arm64",
				"./cmd/service-adapter")
			headings := regexp.MustCompile(`(?m)^(-------- .*|  \S+ v[0-9.]+\S*)$`).FindAllString(others, -1)
			Expect(len(headings)).To(BeNumerically(">", 50))
			for _, heading := range headings {
				Expect(licences).To(ContainSubstring("\n"+heading+"\n"), system)
			}
		}
		Expect(readFile(first, prefix+"-notes.md")).To(Equal(notes))
	})
})
