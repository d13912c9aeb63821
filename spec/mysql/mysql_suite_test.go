// Package mysql_test plays the on-demand broker with the example pak mysql: the built adapter, the built pak with its
// command, the real OpenTofu, and a real MariaDB server with TLS in the role of the VMs that BOSH would deploy.
// Applications log in with the credentials and verify the server's certificate.
package mysql_test

import (
	"context"
	"path/filepath"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/spec/kit"
	"service-adapter/spec/kit/broker"
	"service-adapter/spec/kit/servers"
)

// All specs share the adapter, a directory with the pak, and the server with its certificates.
var (
	adapterBinary string
	shared        string
	server        *servers.MariaServer
	certificates  servers.Certificates
)

func TestMySQL(t *testing.T) {
	kit.Suite(t, "MySQL")
}

var _ = BeforeSuite(func(ctx context.Context) {
	tofu := kit.OpenTofu(GinkgoT(), kit.Newest)
	shared = kit.Directory(GinkgoT())
	certificates = servers.NewCertificates(GinkgoT(), serverName, proxyName)
	servers.Run(GinkgoT(), func(ctx context.Context, dir string) (*servers.Server, error) {
		started, err := servers.MariaDB(ctx, dir, certificates)
		if err != nil {
			return nil, err
		}
		server = started
		return started.Server, nil
	})
	adapterBinary = broker.Binary(GinkgoT())
	built, err := broker.Adapter{Path: adapterBinary, Dir: shared}.Run(ctx, "", "pak", "build",
		kit.Path("examples", "mysql"), "--target", "current", "--output", pak(), "--binary", "tofu="+tofu)
	Expect(err).NotTo(HaveOccurred())
	Expect(built.Exit).To(Equal(0), built.Stderr)
})

// pak returns the path of the built pak.
func pak() string { return filepath.Join(shared, "mysql.brokerpak") }
