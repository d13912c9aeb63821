// Package backends_test drives the built adapter with the on-demand broker's JSON on every state backend that the project answers for:
// files, a real PostgreSQL and a real S3 server, with and without encryption; and breaks what can break on the way: processes,
// servers, disks and clocks.
//
// A world (world_test.go) is what exists once: the state backend and the directory in which the provider "directory" keeps what it
// makes. A machine (machine_test.go) is one of several that run an adapter in a world, each with a cache of its own, as after the
// move of a VM. Specs wait for files and processes, never for time.
package backends_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

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
	servers map[string]*servers.Shared // by the kind of their store
	worlds  int
	// warm are caches of machines that ran already, by the kind of their store: other machines find their prepared directories there.
	warm map[string]string
	made map[string]bool // whether a kind of store has its database or bucket
}

func TestBackends(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(60 * time.Second)
	SetDefaultEventuallyPollingInterval(5 * time.Millisecond)
	config, reporter := GinkgoConfiguration()
	config.Timeout = 15 * time.Minute // a run that nobody ends must fail, not hang
	RunSpecs(t, "Backends", config, reporter)
}

var _ = BeforeSuite(func() {
	suite.dir, suite.warm = kit.Directory(GinkgoT()), map[string]string{}
	suite.made = map[string]bool{}
	suite.adapter = broker.Binary(GinkgoT())
	suite.servers = map[string]*servers.Shared{pg: {Start: servers.PostgreSQL}, s3: {Start: servers.S3}}
	makePak()
})

var _ = AfterSuite(func() {
	for _, server := range suite.servers {
		server.Close()
	}
})

// makePak makes the pak "entries" of spec/acceptance with an OpenTofu that can be held and, as the provider, spied upon.
func makePak() {
	GinkgoHelper()
	tofu, provider := kit.OpenTofu(GinkgoT(), kit.Newest), kit.Provider(GinkgoT(), "directory")
	suite.pak = filepath.Join(suite.dir, "pak")
	Expect(os.CopyFS(suite.pak, os.DirFS(kit.Path("spec", "acceptance", "testdata", "paks", "entries")))).To(Succeed())
	bin := filepath.Join(suite.pak, "bin", runtime.GOOS, runtime.GOARCH)
	Expect(os.MkdirAll(filepath.Join(bin, kit.Newest), 0o755)).To(Succeed())
	for script, path := range map[string]string{
		"tofu.sh": filepath.Join(bin, kit.Newest, "tofu"), "provider.sh": filepath.Join(bin, "terraform-provider-directory_v1.0.0"),
	} {
		wrapper := strings.NewReplacer("tofu=TOFU", "tofu="+tofu, "exec PROVIDER", "exec "+provider).Replace(read(filepath.Join("testdata", script)))
		Expect(os.WriteFile(path, []byte(wrapper), 0o755)).To(Succeed())
	}
}
