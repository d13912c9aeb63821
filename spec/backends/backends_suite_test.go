// Package backends_test drives the built adapter with the on-demand broker's JSON on every state backend that the project answers for:
// files, a real PostgreSQL and a real S3 server, with and without encryption; and breaks what can break on the way: processes,
// servers, disks and clocks.
//
// A world (world_test.go) is what exists once: the state backend and the directory in which the provider "directory" keeps what it
// makes. A machine (machine_test.go) is one of several that run an adapter in a world, each with a cache of its own, as after the
// move of a VM. Specs wait for files and processes, never for time.
package backends_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	// The suite builds the program: go test must not take the result of an older one from its cache.
	_ "service-adapter/adapter"
	"service-adapter/spec/servers"
)

// tofuVersion is the OpenTofu of the pak; `make tools` builds it.
const tofuVersion = "1.12.6"

// binaryVariable names a built adapter to test instead of one that is built from this source.
const binaryVariable = "SERVICE_ADAPTER_BINARY"

// suite is what all specs share.
var suite struct {
	dir     string // of everything that the suite makes
	adapter string // the binary under test
	pak     string
	pg, s3  *servers.Server // started by the first spec that needs one
	worlds  int
	// warm are caches of machines that ran already, by the kind of their store: other machines find their prepared directories there.
	warm map[string]string
}

func TestBackends(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(60 * time.Second)
	SetDefaultEventuallyPollingInterval(5 * time.Millisecond)
	config, reporter := GinkgoConfiguration()
	config.Timeout = 15 * time.Minute // a run that nobody ends must fail, not hang
	RunSpecs(t, "Backends", config, reporter)
}

var _ = BeforeSuite(func(ctx context.Context) {
	dir, err := os.MkdirTemp("/tmp", "be-") // short: OpenTofu makes sockets below it
	Expect(err).NotTo(HaveOccurred())
	suite.dir, suite.warm = dir, map[string]string{}
	Expect(os.Chmod(dir, 0o711)).To(Succeed(), "PostgreSQL's user must get through it")
	suite.adapter = filepath.Join(dir, "service-adapter")
	if given := os.Getenv(binaryVariable); given != "" {
		suite.adapter, err = filepath.Abs(given)
		Expect(err).NotTo(HaveOccurred())
	} else {
		build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", suite.adapter, "./cmd/service-adapter")
		build.Dir, build.Env = repository(), append(os.Environ(), "CGO_ENABLED=0")
		output, err := build.CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), "%s", output)
	}
	makePak()
})

var _ = AfterSuite(func() {
	for _, server := range []*servers.Server{suite.pg, suite.s3} {
		if server != nil {
			Expect(server.Kill()).To(Succeed())
		}
	}
	Expect(os.RemoveAll(suite.dir)).To(Succeed())
})

// makePak makes the pak "entries" of spec/acceptance with an OpenTofu that can be held and, as the provider, spied upon.
func makePak() {
	GinkgoHelper()
	tofu, provider := repository("build", "tofu", tofuVersion, "tofu"), repository("build", "providers", "terraform-provider-directory")
	for _, file := range []string{tofu, provider} {
		Expect(file).To(BeARegularFile(), "run `make tools` first: it builds OpenTofu and the test providers")
	}
	suite.pak = filepath.Join(suite.dir, "pak")
	Expect(os.CopyFS(suite.pak, os.DirFS(repository("spec", "acceptance", "testdata", "paks", "entries")))).To(Succeed())
	bin := filepath.Join(suite.pak, "bin", runtime.GOOS, runtime.GOARCH)
	Expect(os.MkdirAll(filepath.Join(bin, tofuVersion), 0o755)).To(Succeed())
	for script, path := range map[string]string{
		"tofu.sh": filepath.Join(bin, tofuVersion, "tofu"), "provider.sh": filepath.Join(bin, "terraform-provider-directory_v1.0.0"),
	} {
		wrapper := strings.NewReplacer("tofu=TOFU", "tofu="+tofu, "exec PROVIDER", "exec "+provider).Replace(read(filepath.Join("testdata", script)))
		Expect(os.WriteFile(path, []byte(wrapper), 0o755)).To(Succeed())
	}
}

// repository is the absolute path of a file of the repository.
func repository(elements ...string) string {
	GinkgoHelper()
	path, err := filepath.Abs(filepath.Join(append([]string{"..", ".."}, elements...)...))
	Expect(err).NotTo(HaveOccurred())
	return path
}
