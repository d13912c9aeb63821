// Package postgresql_test plays the on-demand broker with the example paks postgresql and postgresql-database: the built adapter, the
// real OpenTofu, the paks' own provider, and a real PostgreSQL server, which stands in for the VM that BOSH would deploy, or is the
// shared one.
package postgresql_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
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

// What all specs share: the adapter, a directory with the paks, and the server. Each spec has a database of its own.
var (
	adapterBinary string
	shared        string
	server        *servers.Server
	certificates  authority
)

func TestPostgreSQL(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(30 * time.Second)
	SetDefaultEventuallyPollingInterval(5 * time.Millisecond)
	suite, reporter := GinkgoConfiguration()
	suite.Timeout = 10 * time.Minute // a run that nobody ends must fail, not hang
	RunSpecs(t, "PostgreSQL", suite, reporter)
}

var _ = BeforeSuite(func(ctx context.Context) {
	Expect(repository("build", "tofu", tofuVersion, "tofu")).To(BeARegularFile(), "run `make tools` first: it builds OpenTofu")
	var err error
	shared, err = os.MkdirTemp("", "pg-") // short: OpenTofu makes sockets below it
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(os.RemoveAll, shared)
	Expect(os.Chmod(shared, 0o755)).To(Succeed(), "the server may run as another user")

	server, err = servers.PostgreSQL(ctx, filepath.Join(shared, "server"))
	if errors.Is(err, servers.ErrMissing) {
		Skip(err.Error())
	}
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() error { return server.Stop() })
	certificates = newAuthority()
	certificates.install(ctx)

	adapterBinary = filepath.Join(shared, "service-adapter")
	run(ctx, repository(), "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", adapterBinary, "./cmd/service-adapter")
	run(ctx, repository(), "scripts/assemble-pak", "examples/postgresql", filepath.Join(shared, "pak"))
	run(ctx, repository(), "scripts/assemble-pak", "examples/postgresql-database", filepath.Join(shared, "database-pak"))
})

// repository is the absolute path of a file of the repository.
func repository(elements ...string) string {
	GinkgoHelper()
	path, err := filepath.Abs(filepath.Join(append([]string{"..", ".."}, elements...)...))
	Expect(err).NotTo(HaveOccurred())
	return path
}

// run runs a program that must succeed.
func run(ctx context.Context, dir, name string, arguments ...string) {
	GinkgoHelper()
	command := exec.CommandContext(ctx, name, arguments...)
	command.Dir, command.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	output, err := command.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s", output)
}
