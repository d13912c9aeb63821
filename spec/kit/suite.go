package kit

import (
	"os"
	"testing"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
)

// All tells whether all specs are to run, as SPECS=all says, which `make test` sets, and CI=true. Otherwise those that
// are Slow are left out.
func All() bool { return os.Getenv("SPECS") == "all" || os.Getenv("CI") == "true" }

// Slow marks the specs of a matrix, of which one or two of each kind have no mark: the same on another backend, with
// encryption, with another victim at another point, with thousands.
func Slow() ginkgo.Labels { return SlowIf(true) }

// SlowIf is Slow where a condition holds, such as that a backend is not the one that stands for all.
func SlowIf(condition bool) ginkgo.Labels {
	if condition {
		return ginkgo.Label("slow")
	}
	return nil
}

// Suite runs the specs of a package that runs programs; those that are Slow only with All, or when ginkgo's own filters
// choose them. Eventually waits a minute. A run that nobody ends fails after 40 minutes: a machine that is busy with
// other work may need ten.
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
