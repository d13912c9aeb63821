// Package acceptance_test drives the built adapter as the on-demand broker does: its exact JSON on standard input, the
// real OpenTofu, real providers, and everything that can go wrong in between.
//
// A spec works on a site (site_test.go): paks, configuration, state, cache, and the directory in which the provider
// "directory" keeps what it makes, so that a spec sees what exists outside. A broker (broker_test.go) plays ODB on a
// site. Specs wait for files and processes, never for time.
package acceptance_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"

	"service-adapter/spec/kit"
	binary "service-adapter/spec/kit/broker"
)

// adapterBinary is the absolute path of the adapter under test.
var adapterBinary string

func TestAcceptance(t *testing.T) {
	kit.Suite(t, "Acceptance")
}

var _ = BeforeSuite(func() {
	kit.OpenTofu(GinkgoT(), kit.Newest)
	kit.Provider(GinkgoT(), "directory")
	kit.Provider(GinkgoT(), "random")
	adapterBinary = binary.Binary(GinkgoT())
})
