// Package adapters_test shows that services for which others wrote adapters in Go can be expressed as paks. It plays
// recorded requests of the on-demand broker to those adapters, testdata/NAME/NN-….json, to the built adapter with the
// pak testdata/paks/NAME, or examples/mongodb, and compares the answers: exit code, manifest, schemas, credentials,
// dashboard, what the user reads, and the calls of the service's command-line client.
//
// The suite takes the cases that it finds. What differs needs a row in explained_test.go with the reason, and what a
// refusal says a row in refusals_test.go; a row that no case needs fails the suite. A spec of each adapter counts the
// cases, which go test -v shows: of ZooKeeper 7 are equal but for the record in the manifest and 6 explained, of
// Aerospike 6 and 7, of Hazelcast 7 and 3, of Concourse 3 and 6, of MongoDB 8 and 5, of the generic adapter 7 and 5.
//
// MongoDB's pak does not ask Ops Manager. opsmanager_test.go gives it what the recorded adapter was told there as the
// operator's configuration. So its requests are not compared; what it told the database is.
//
// Besides, the broker's check for pending changes is made: of the manifest that the other adapter deployed, before an
// update, and of the one that the pak makes. variants_test.go and described_test.go have what the descriptions of the
// adapters say and no case shows: the former with the answer that the adapter gives, which is compared as that of a
// case.
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
