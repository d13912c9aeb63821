package kit

import (
	"testing"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
)

// Suite runs the specs of a package that runs programs. Eventually waits a minute. A run that nobody ends fails after 40 minutes: a machine
// that is busy with other work may need ten.
func Suite(t *testing.T, name string) {
	t.Helper()
	gomega.RegisterFailHandler(ginkgo.Fail)
	gomega.SetDefaultEventuallyTimeout(time.Minute)
	gomega.SetDefaultEventuallyPollingInterval(5 * time.Millisecond)
	suite, reporter := ginkgo.GinkgoConfiguration()
	suite.Timeout = 40 * time.Minute
	ginkgo.RunSpecs(t, name, suite, reporter)
}
