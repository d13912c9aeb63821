package kit_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"

	"service-adapter/spec/kit"
)

// ran are the specs below that ran.
var ran = map[string]bool{}

var _ = Describe("a matrix", func() {
	It("has one of a kind", func() { ran["one"] = true })
	It("has others", kit.Slow(), func() { ran["others"] = true })
	It("has others where a condition holds", kit.SlowIf(true), func() { ran["others, where it holds"] = true })
	It("has no others where it does not", kit.SlowIf(false), func() { ran["one, where it does not hold"] = true })
})

func TestSlowSpecsRunOnlyWithAll(t *testing.T) {
	kit.Suite(t, "The test kit")
	for name, want := range map[string]bool{
		"one": true, "one, where it does not hold": true, "others": kit.All(),
		"others, where it holds": kit.All(),
	} {
		if ran[name] != want {
			t.Errorf("%s: ran %t, want %t", name, ran[name], want)
		}
	}
}
