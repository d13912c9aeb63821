// Package parity_test compares paks with the hand-written adapters that they replace. Each case has the name of a
// behaviour of the Redis or Kafka example adapter of the on-demand services SDK, and calls the built adapter with the
// broker's JSON.
//
// The directory pak contains the pak of the Redis example adapter, with the names, the properties for tests and the
// peculiarities of that adapter. The suites of spec/corpus and spec/bench and the tests of commands also read it,
// because it uses most keys of a definition. The pak of the Kafka example adapter is examples/kafka.
//
// A case that intentionally differs is marked and asserts the different result. docs/migrating.md has a row with the
// reason for each of these cases, and for no other.
package parity_test

import (
	"context"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/spec/kit"
	binary "service-adapter/spec/kit/broker"
)

// startUp is the maximum time that a server may take to start.
const startUp = 30 * time.Second

// adapterBinary is the absolute path of the adapter under test.
var adapterBinary string

func TestParity(t *testing.T) {
	kit.Suite(t, "Parity")
}

var _ = BeforeSuite(func() {
	kit.OpenTofu(GinkgoT(), kit.Newest)
	adapterBinary = binary.Binary(GinkgoT())
})

// A behaviour is a case about one behaviour of a hand-written adapter.
type behaviour struct {
	name string
	// differs is true if the pak intentionally behaves differently.
	differs bool
	check   func(ctx context.Context)
}

// same returns a behaviour that the pak shares with the hand-written adapter.
func same(name string, check func(ctx context.Context)) behaviour {
	return behaviour{name: name, check: check}
}

// differs returns a behaviour in which the pak intentionally differs.
func differs(name string, check func(ctx context.Context)) behaviour {
	return behaviour{name: name, differs: true, check: check}
}

// behaviours returns all cases by adapter.
func behaviours() map[string][]behaviour {
	return map[string][]behaviour{
		"redis": slices.Concat(redisManifests(), redisSecrets(), redisRefusals(), redisVersions(), redisBindings()),
		"kafka": slices.Concat(kafkaManifests(), kafkaRefusals(), kafkaBindings(), kafkaSchemas()),
	}
}

var _ = Describe("The pak", func() {
	for adapter, cases := range behaviours() {
		Describe(adapter, func() {
			for _, one := range cases {
				It(one.name, one.check)
			}
		})
	}
})

// differenceRow matches a row of the table in docs/migrating.md: adapter, name of the case, and two further cells.
var differenceRow = regexp.MustCompile(`(?m)^\| (redis|kafka) \| (.+?) \| (.+?) \| (.+?) \|$`)

var _ = Describe("docs/migrating.md", func() {
	It("explains each difference, and nothing else", func() {
		text, err := os.ReadFile(kit.Path("docs", "migrating.md"))
		Expect(err).NotTo(HaveOccurred())
		var documented, wanted []string
		for _, row := range differenceRow.FindAllStringSubmatch(string(text), -1) {
			documented = append(documented, row[1]+": "+row[2])
		}
		for adapter, cases := range behaviours() {
			names := map[string]bool{}
			for _, one := range cases {
				Expect(names).NotTo(HaveKey(one.name), "two cases with the same name")
				names[one.name] = true
				if one.differs {
					wanted = append(wanted, adapter+": "+one.name)
				}
			}
		}
		Expect(documented).To(ConsistOf(wanted))
	})
})
