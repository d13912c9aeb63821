// Package backends_test runs the built adapter with the on-demand broker's JSON on every supported state backend: local
// files, a real PostgreSQL, and object stores, each with and without encryption. Its specs make processes, servers,
// disks and clocks fail.
//
// A world (world_test.go) contains everything that exists only once: the state backend, and the directory in which the
// provider "directory" stores its resources. A machine (machine_test.go) is one of several that run an adapter in a
// world. Each has its own cache, as a recreated VM has. Specs wait for files and processes, and never sleep for a fixed
// time.
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

// suite contains the values that all specs share.
var suite struct {
	dir     string // of all files of the suite
	adapter string // the binary under test
	pak     string
	// provided is the path of the pak whose template errands apply. It is "" until a spec needs the pak.
	provided string
	// leaky and leakyErrands are the paths of the paks of the specs about leaks. They are "" until a spec needs them.
	leaky, leakyErrands string
	servers             map[string]*servers.Shared // by the kind of their backend
	worlds              int
	// warm contains the caches of machines that have run, by the kind of their backend. Other machines use their
	// prepared directories.
	warm    map[string]string
	created map[string]bool // whether the database or bucket of a backend has been created
}

func TestBackends(t *testing.T) {
	kit.Suite(t, "Backends")
}

var _ = BeforeSuite(func() {
	suite.dir, suite.warm = kit.Directory(GinkgoT()), map[string]string{}
	suite.created = map[string]bool{}
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

// makePak builds a pak from a source directory and returns its path. Its OpenTofu versions are wrappers that specs can
// pause, and the wrappers of OpenTofu and the provider record their arguments.
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
