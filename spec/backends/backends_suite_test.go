// Package backends_test drives the built adapter with the on-demand broker's JSON on every state backend that the
// project answers for: files, a real PostgreSQL and servers of objects, with and without encryption; and breaks what
// can break on the way: processes, servers, disks and clocks.
//
// A world (world_test.go) is what exists once: the state backend and the directory in which the provider "directory"
// keeps what it makes. A machine (machine_test.go) is one of several that run an adapter in a world, each with a cache
// of its own, as after the move of a VM. Specs wait for files and processes, never for time.
package backends_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/spec/kit"
	"service-adapter/spec/kit/broker"
	"service-adapter/spec/kit/servers"
)

// suite is what all specs share.
var suite struct {
	dir     string // of everything that the suite makes
	adapter string // the binary under test
	pak     string
	// provided is the pak whose template errands apply; "" until one needs it.
	provided string
	// leaky and leakyErrands are the paks of the specs about leaks; "" until one needs them.
	leaky, leakyErrands string
	servers             map[string]*servers.Shared // by the kind of their store
	worlds              int
	// warm are caches of machines that ran already, by the kind of their store: other machines find their prepared
	// directories there.
	warm map[string]string
	made map[string]bool // whether a kind of store has its database or bucket
}

func TestBackends(t *testing.T) {
	kit.Suite(t, "Backends")
}

var _ = BeforeSuite(func() {
	suite.dir, suite.warm = kit.Directory(GinkgoT()), map[string]string{}
	suite.made = map[string]bool{}
	suite.adapter = broker.Binary(GinkgoT())
	suite.servers = map[string]*servers.Shared{
		pg: {Start: servers.PostgreSQL}, s3: {Start: servers.S3}, gcs: {Start: servers.GCS},
		azure: {Start: servers.Azure},
	}
	suite.pak = makePak(kit.Path("spec", "acceptance", "testdata", "paks", "entries"), kit.Newest)
})

var _ = AfterSuite(func() {
	for _, server := range suite.servers {
		server.Close()
	}
})

// makePak makes a pak with OpenTofus that can be held and, as the provider, spied upon.
func makePak(source string, versions ...string) string {
	GinkgoHelper()
	pak := filepath.Join(suite.dir, "pak-"+filepath.Base(source))
	Expect(os.CopyFS(pak, os.DirFS(source))).To(Succeed())
	bin := filepath.Join(pak, "bin", runtime.GOOS, runtime.GOARCH)
	wrap := func(script, program, path string) {
		wrapper := strings.NewReplacer("tofu=TOFU", "tofu="+program, "exec PROVIDER",
			"exec "+program).Replace(read(filepath.Join("testdata", script)))
		Expect(os.MkdirAll(filepath.Dir(path), 0o755)).To(Succeed())
		Expect(os.WriteFile(path, []byte(wrapper), 0o755)).To(Succeed())
	}
	for _, version := range versions {
		wrap("tofu.sh", kit.OpenTofu(GinkgoT(), version), filepath.Join(bin, version, "tofu"))
	}
	wrap("provider.sh", kit.Provider(GinkgoT(), "directory"), filepath.Join(bin, "terraform-provider-directory_v1.0.0"))
	return pak
}
