package kit

import (
	"os"
	"testing"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
)

// All reports whether the slow specs run as well. That is the case with SPECS=all, which `make test` sets, and with
// CI=true.
func All() bool { return os.Getenv("SPECS") == "all" || os.Getenv("CI") == "true" }

// Slow returns the label of specs that Suite skips by default. These are the repetitive combinations of a matrix, such
// as the same spec on another backend, with encryption, with another process killed at another point, or with thousands
// of bindings. One or two specs of each kind have no label, so that they always run.
func Slow() ginkgo.Labels { return SlowIf(true) }

// SlowIf returns the label of Slow if the condition is true, and nil otherwise. A table uses it for all entries except
// the representative one.
func SlowIf(condition bool) ginkgo.Labels {
	if condition {
		return ginkgo.Label("slow")
	}
	return nil
}

// SkipSlow skips a test that ginkgo does not run, unless All reports true. It is for the same repetitive cases as Slow:
// further examples, pages, recipes and backends. A test of each kind must not call it, so that it always runs.
func SkipSlow(t T) {
	t.Helper()
	if !All() {
		t.Skipf("a slow test, which runs with SPECS=all")
	}
}

// Suite runs the specs of a package. Specs with the label of Slow run only if All returns true, or if ginkgo's own
// filters are set. Eventually waits for up to a minute. The whole suite fails after 40 minutes; a busy machine may need
// ten.
func Suite(t *testing.T, name string) {
	t.Helper()
	gomega.RegisterFailHandler(ginkgo.Fail)
	gomega.SetDefaultEventuallyTimeout(time.Minute)
	gomega.SetDefaultEventuallyPollingInterval(5 * time.Millisecond)
	suite, reporter := ginkgo.GinkgoConfiguration()
	suite.Timeout = 40 * time.Minute
	if !All() && suite.LabelFilter == "" && len(suite.FocusStrings) == 0 {
		suite.LabelFilter = "!slow"
	}
	ginkgo.RunSpecs(t, name, suite, reporter)
}
