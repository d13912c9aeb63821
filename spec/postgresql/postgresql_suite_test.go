// Package postgresql_test plays the on-demand broker with the example paks postgresql and postgresql-database: the
// built adapter, the real OpenTofu, the paks' own provider, and a real PostgreSQL server. The server takes the role of
// the VM that BOSH would deploy, or of the shared server.
package postgresql_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/spec/kit"
	"service-adapter/spec/kit/broker"
	"service-adapter/spec/kit/servers"
)

// All specs share the adapter, a directory with the paks, and the server. Each spec has its own database.
var (
	adapterBinary string
	shared        string
	server        *servers.Server
	certificates  servers.Certificates
)

func TestPostgreSQL(t *testing.T) {
	kit.Suite(t, "PostgreSQL")
}

var _ = BeforeSuite(func(ctx context.Context) {
	kit.OpenTofu(GinkgoT(), kit.Newest)
	shared = kit.Directory(GinkgoT())
	server = servers.Run(GinkgoT(), servers.PostgreSQL)
	certificates = servers.NewCertificates(GinkgoT(), "*.postgres.default.bosh", "localhost")
	Expect(server.UseCertificates(ctx, certificates)).To(Succeed())

	adapterBinary = broker.Binary(GinkgoT())
	run(ctx, kit.Path(), "scripts/assemble-pak", "examples/postgresql", filepath.Join(shared, "pak"))
	run(ctx, kit.Path(), "scripts/assemble-pak", "examples/postgresql-database", filepath.Join(shared, "database-pak"))
})

// run runs a program, which must succeed.
func run(ctx context.Context, dir, name string, arguments ...string) {
	GinkgoHelper()
	command := exec.CommandContext(ctx, name, arguments...)
	command.Dir, command.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	output, err := command.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s", output)
}

// administrate runs statements as the administrator.
func administrate(ctx context.Context, database, statements string) error {
	_, err := server.Query(ctx, database, statements)
	if err != nil {
		return fmt.Errorf("%s: %w", statements, err)
	}
	return nil
}
