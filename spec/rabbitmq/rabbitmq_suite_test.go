// Package rabbitmq_test plays the on-demand broker with the example pak rabbitmq: the built adapter, the built pak with
// its command, the real OpenTofu, and a real RabbitMQ node in the role of the VMs that BOSH would deploy. Clients log
// in with AMQP.
package rabbitmq_test

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

// All specs share the adapter, a directory with the pak, and the node with its certificates.
var (
	adapterBinary string
	shared        string
	server        *servers.RabbitServer
	certificates  servers.Certificates
)

func TestRabbitMQ(t *testing.T) {
	kit.Suite(t, "RabbitMQ")
}

var _ = BeforeSuite(func(ctx context.Context) {
	tofu := kit.OpenTofu(GinkgoT(), kit.Newest)
	shared = kit.Directory(GinkgoT())
	certificates = servers.NewCertificates(GinkgoT(), internalName, "*.node.default.bosh")
	servers.Run(GinkgoT(), func(ctx context.Context, dir string) (*servers.Server, error) {
		started, err := servers.RabbitMQ(ctx, dir, certificates)
		if err != nil {
			return nil, err
		}
		server = started
		return started.Server, nil
	})
	adapterBinary = broker.Binary(GinkgoT())
	built, err := broker.Adapter{Path: adapterBinary, Dir: shared}.Run(ctx, "", "pak", "build",
		kit.Path("examples", "rabbitmq"),
		"--target", "current", "--output", pak(), "--binary", "tofu="+tofu)
	Expect(err).NotTo(HaveOccurred())
	Expect(built.Exit).To(Equal(0), built.Stderr)
})

// pak returns the path of the built pak.
func pak() string { return filepath.Join(shared, "rabbitmq.brokerpak") }
