// Package acceptance_test drives the built adapter as the on-demand broker does: its exact JSON on standard input, the real
// OpenTofu, real providers, and everything that can go wrong in between.
//
// A spec works on a site (site_test.go): paks, configuration, state, cache, and the directory in which the provider "directory"
// keeps what it makes, so that a spec sees what exists outside. A broker (broker_test.go) plays ODB on a site. Specs wait for
// files and processes, never for time.
package acceptance_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	// The suite builds the program: go test must not take the result of an older one from its cache.
	_ "service-adapter/adapter"
)

// tofuVersion is the OpenTofu of the paks; `make tools` builds it.
const tofuVersion = "1.12.6"

// binaryVariable names a built adapter to test instead of one that is built from this source.
const binaryVariable = "SERVICE_ADAPTER_BINARY"

// adapterBinary is the absolute path of the adapter under test.
var adapterBinary string

func TestAcceptance(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(30 * time.Second)
	SetDefaultEventuallyPollingInterval(5 * time.Millisecond)
	suite, reporter := GinkgoConfiguration()
	suite.Timeout = 10 * time.Minute // a run that nobody ends must fail, not hang
	RunSpecs(t, "Acceptance", suite, reporter)
}

var _ = BeforeSuite(func(ctx context.Context) {
	for _, file := range []string{tofuBinary(), providerBinary("directory"), providerBinary("random")} {
		Expect(file).To(BeARegularFile(), "run `make tools` first: it builds OpenTofu and the test providers")
	}
	if given := os.Getenv(binaryVariable); given != "" {
		path, err := filepath.Abs(given)
		Expect(err).NotTo(HaveOccurred())
		adapterBinary = path
		return
	}
	dir, err := os.MkdirTemp("", "acceptance-")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(os.RemoveAll, dir)
	Expect(os.Chmod(dir, 0o755)).To(Succeed(), "for specs that run as another user")
	adapterBinary = filepath.Join(dir, "service-adapter")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", adapterBinary, "./cmd/service-adapter")
	build.Dir, build.Env = repository(), append(os.Environ(), "CGO_ENABLED=0")
	output, err := build.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s", output)
})

// repository is the absolute path of a file of the repository.
func repository(elements ...string) string {
	GinkgoHelper()
	path, err := filepath.Abs(filepath.Join(append([]string{"..", ".."}, elements...)...))
	Expect(err).NotTo(HaveOccurred())
	return path
}

func tofuBinary() string {
	return repository("build", "tofu", tofuVersion, "tofu")
}

func providerBinary(name string) string {
	return repository("build", "providers", "terraform-provider-"+name)
}
