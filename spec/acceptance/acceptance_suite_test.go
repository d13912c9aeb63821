// Package acceptance_test runs the built adapter as the on-demand broker does, with the broker's exact JSON on standard
// input, the real OpenTofu and real providers. Its specs also make processes, files and inputs fail at every step.
//
// Each spec has a site (site_test.go), which contains paks, configuration, states, cache, and the directory in which
// the provider "directory" stores its resources as files, so that a spec sees which resources exist. A broker
// (broker_test.go) plays ODB on a site. Specs wait for files and processes, and never sleep for a fixed time.
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
