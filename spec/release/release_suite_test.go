// Package main_test makes the BOSH release, and deploys it on something like a stemcell: templates are rendered with ruby as the
// Director does, packages are compiled by their own scripts, pre-start runs, and the installed adapter gets the broker's input in
// something like the broker's container.
package main_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	// The suite builds the program: go test must not take the result of an older one from its cache.
	_ "service-adapter/adapter"
	_ "service-adapter/internal/cli"
)

// tofuVersion is the OpenTofu of the pak; `make tools` builds it.
const tofuVersion = "1.12.6"

// adapterBinary is the adapter that the release gets.
var adapterBinary string

func TestRelease(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Release")
}

var _ = BeforeSuite(func(ctx context.Context) {
	if _, err := exec.LookPath("ruby"); err != nil {
		skip("`make tools` installs ruby only as root")
	}
	for _, file := range []string{repository("build", "tofu", tofuVersion, "tofu"), repository("build", "providers", "terraform-provider-directory")} {
		Expect(file).To(BeARegularFile(), "run `make tools` first: it builds OpenTofu and the test providers")
	}
	adapterBinary = filepath.Join(temporary(), "service-adapter")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", adapterBinary, "./cmd/service-adapter")
	build.Dir, build.Env = repository(), append(os.Environ(), "CGO_ENABLED=0")
	output, err := build.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s", output)
})

// skip skips a spec, or all, where CI does not count on it.
func skip(reason string) {
	GinkgoHelper()
	if os.Getenv("CI") != "" {
		Fail(reason)
	}
	Skip(reason)
}

// temporary makes a directory that everybody may enter; the end of the spec, or of the suite, removes it.
func temporary() string {
	GinkgoHelper()
	dir, err := os.MkdirTemp("", "release-")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(os.RemoveAll, dir)
	Expect(os.Chmod(dir, 0o755)).To(Succeed())
	return dir
}

// repository is the absolute path of a file of the repository.
func repository(elements ...string) string {
	GinkgoHelper()
	path, err := filepath.Abs(filepath.Join(append([]string{"..", ".."}, elements...)...))
	Expect(err).NotTo(HaveOccurred())
	return path
}

func readFile(elements ...string) string {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(elements...))
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}

func writeFile(text string, elements ...string) {
	GinkgoHelper()
	path := filepath.Join(elements...)
	Expect(os.MkdirAll(filepath.Dir(path), 0o755)).To(Succeed())
	Expect(os.WriteFile(path, []byte(text), 0o644)).To(Succeed())
}
