// Package adapters_test shows that paks can express services for which other authors wrote adapters in Go. It plays
// requests of the on-demand broker that were recorded with those adapters, testdata/NAME/NN-….json. The built adapter
// receives them with the pak testdata/paks/NAME, or examples/mongodb. The suite compares the answers: exit code,
// manifest, schemas, credentials, dashboard, the user's message, and the calls of the service's command-line client.
//
// The suite plays all cases in testdata. Each difference needs a row in explained_test.go with the reason, and each
// message of a rejected request a row in refusals_test.go. A row that no case needs fails the suite. A spec of each
// adapter counts the cases, and go test -v prints the result. The cases that are equal except for the record in the
// manifest, and those that are explained, number for ZooKeeper 7 and 6, for Aerospike 6 and 7, for Hazelcast 7 and 3,
// for Concourse 3 and 6, for MongoDB 8 and 5, and for the generic adapter 7 and 5.
//
// MongoDB's pak sends no requests to Ops Manager. opsmanager_test.go converts the answers that the recorded adapter
// received into the operator's configuration. The requests are therefore not compared; the commands for the database
// are.
//
// The suite also makes the broker's check for pending changes, with the manifest that the other adapter deployed before
// an update, and with the manifest that the pak generates. variants_test.go and described_test.go contain behaviours
// that the descriptions of the adapters mention and no recorded case shows. The former also contains the adapter's
// answer, which is compared like that of a case.
package adapters_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"

	"service-adapter/spec/kit"
	binary "service-adapter/spec/kit/broker"
)

// adapterBinary is the absolute path of the adapter under test.
var adapterBinary string

func TestAdapters(t *testing.T) {
	kit.Suite(t, "Adapters")
}

var _ = BeforeSuite(func() {
	kit.OpenTofu(GinkgoT(), kit.Newest)
	adapterBinary = binary.Binary(GinkgoT())
})
