// Package semantics_test plays the recorded behaviour of the reference broker through the built adapter.
//
// Each case of testdata/*.jsonl is a service definition, the operator's environment and the requests of one service
// instance. The suite plays the on-demand broker: a provision or update is a call of generate-manifest and the check
// for pending changes after it, binds and unbinds are calls of create-binding and delete-binding, all with the real
// OpenTofu. What the bind template saw must be what the reference broker's template saw, and what the reference broker
// refused must be refused, in the same step and for the same input. Where the adapter answers otherwise,
// testdata/answers*.yml has its answer and the row of docs/compatibility.md that says why.
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

// outcomes are how the steps of each case ended, by the case's id.
var outcomes map[string][]outcome

var _ = BeforeSuite(func(ctx context.Context) {
	kit.OpenTofu(GinkgoT(), kit.Newest)
	outcomes = playAll(ctx, player{binary: broker.Binary(GinkgoT()), root: kit.Directory(GinkgoT())},
		focused(append(readRecorded(), readDecisions()...)))
})

// wholeSuite is the text of the specs that need the outcome of every case.
const wholeSuite = "docs/compatibility.md"

// isSlow tells whether the nth case is one of the three in four that are played only when all specs are to run.
func isSlow(n int) bool { return n%4 != 0 }

// focused are the cases that are to be played: to play all takes a while.
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

// playAll plays the cases, a few at the same time.
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
