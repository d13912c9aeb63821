// Package semantics_test compares the built adapter with the recorded behaviour of the reference broker.
//
// Each case of testdata/*.jsonl contains a service definition, the operator's environment and the requests for one
// service instance. The suite plays the on-demand broker with the real OpenTofu: a provision or update is a call of
// generate-manifest followed by the check for pending changes, and binds and unbinds are calls of create-binding and
// delete-binding. The bind template must receive the values that the reference broker's template received. A request
// that the reference broker rejected must be rejected in the same step and for the same input. If the adapter answers
// differently, testdata/answers*.yml contains its answer and the id of the row of docs/compatibility.md that explains
// the difference.
package semantics_test

import (
	"context"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/spec/kit"
	"service-adapter/spec/kit/broker"
)

func TestSemantics(t *testing.T) {
	kit.Suite(t, "Semantics of the reference broker")
}

// outcomes contains the outcomes of the steps of each case, by the id of the case.
var outcomes map[string][]outcome

var _ = BeforeSuite(func(ctx context.Context) {
	kit.OpenTofu(GinkgoT(), kit.Newest)
	outcomes = playAll(ctx, player{binary: broker.Binary(GinkgoT()), root: kit.Directory(GinkgoT())},
		focused(append(readRecorded(), readDecisions()...)))
})

// wholeSuite is the text of the container whose specs need the outcomes of all cases.
const wholeSuite = "docs/compatibility.md"

// isSlow reports whether the nth case is one of the seven eighths that are played only if all specs run.
func isSlow(n int) bool { return n%8 != 0 }

// focused returns the cases that the filters of ginkgo select, because playing all of them takes long.
func focused(cases []recorded) []recorded {
	GinkgoHelper()
	suite, _ := GinkgoConfiguration()
	if len(suite.FocusStrings) == 0 {
		if kit.All() {
			return cases
		}
		var quick []recorded
		for n, c := range cases {
			if !isSlow(n) {
				quick = append(quick, c)
			}
		}
		return quick
	}
	focus, err := regexp.Compile(strings.Join(suite.FocusStrings, "|"))
	Expect(err).NotTo(HaveOccurred())
	if focus.MatchString(wholeSuite) {
		return cases
	}
	return slices.DeleteFunc(cases, func(c recorded) bool { return !focus.MatchString(c.ID) })
}

// playAll plays the cases, several at the same time, and returns their outcomes by id.
func playAll(ctx context.Context, p player, cases []recorded) map[string][]outcome {
	queue := make(chan recorded)
	results := map[string][]outcome{}
	var lock sync.Mutex
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) + 1 {
		workers.Go(func() {
			defer GinkgoRecover()
			for c := range queue {
				ended := p.play(ctx, c)
				lock.Lock()
				results[c.ID] = ended
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
