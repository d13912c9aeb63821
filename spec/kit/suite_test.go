package kit_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"

	"service-adapter/spec/kit"
)

// ran contains the names of the specs below that ran.
var ran = map[string]bool{}

var _ = Describe("a matrix of specs", func() {
	It("runs a spec without a label", func() { ran["one"] = true })
	It("runs its slow specs only with All", kit.Slow(), func() { ran["others"] = true })
	It("runs a spec whose condition for the slow label is true only with All",
		kit.SlowIf(true), func() { ran["others, where it holds"] = true })
	It("runs a spec whose condition for the slow label is false",
		kit.SlowIf(false), func() { ran["one, where it does not hold"] = true })
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
