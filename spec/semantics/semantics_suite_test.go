// Package semantics_test plays the recorded behaviour of the reference broker through the adapter.
//
// Each case of brokerpak/testdata/semantics.jsonl is a service definition, the operator's environment and the requests of one
// service instance. A provision or update is resolved as generate-manifest resolves it, and its template is applied by the real
// OpenTofu; binds and unbinds are whole calls of the adapter, create-binding and delete-binding, with the real OpenTofu as well.
// What the bind template saw must be what the reference broker's template saw, and what the reference broker refused must be
// refused. A case may differ only where docs/compatibility.md says so, and a row there must have a case that differs.
package semantics_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// tofuVersion is the OpenTofu that the cases run; `make tools` builds it.
const tofuVersion = "1.12.6"

func TestSemantics(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Semantics of the reference broker")
}

// verdicts are what became of the cases, by id.
var verdicts map[string]verdict

var _ = BeforeSuite(func(ctx context.Context) {
	Expect(tofuBinary()).To(BeARegularFile(), "run `make tools` first: it builds OpenTofu")
	root, err := os.MkdirTemp("", "semantics-") // short: OpenTofu makes sockets below it
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(os.RemoveAll, root)
	verdicts = playAll(ctx, root, append(readRecorded(), readDecisions()...))
})

// playAll plays the cases, a few at the same time.
func playAll(ctx context.Context, root string, cases []recorded) map[string]verdict {
	GinkgoHelper()
	instances, err := newInstances(root)
	Expect(err).NotTo(HaveOccurred())
	queue := make(chan recorded)
	results := map[string]verdict{}
	var lock sync.Mutex
	var workers sync.WaitGroup
	for i := range runtime.GOMAXPROCS(0) + 1 {
		p, err := newPlayer(root, i, instances)
		Expect(err).NotTo(HaveOccurred())
		workers.Go(func() {
			defer GinkgoRecover()
			for c := range queue {
				v := p.play(ctx, c)
				lock.Lock()
				results[c.ID] = v
				lock.Unlock()
			}
		})
	}
	for _, c := range cases {
		queue <- c
	}
	close(queue)
	workers.Wait()
	return results
}

// repository is the path of a file of the repository.
func repository(elements ...string) string {
	return filepath.Join(append([]string{"..", ".."}, elements...)...)
}

// tofuBinary is the absolute path of OpenTofu.
func tofuBinary() string {
	GinkgoHelper()
	path, err := filepath.Abs(repository("build", "tofu", tofuVersion, "tofu"))
	Expect(err).NotTo(HaveOccurred())
	return path
}
