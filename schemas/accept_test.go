package schemas_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/value"
	"service-adapter/schemas"
)

var _ = It("accepts a manifest without the library", func() {
	Expect(schemas.Accepts(goodManifest(GinkgoT()))).To(BeFalse(), "it has the numbers of a YAML decoder")
	Expect(schemas.Accepts(normal(GinkgoT()))).To(BeTrue())
})

func normal(tb interface{ Fatal(args ...any) }) map[string]any {
	tree, _ := value.Normalise(goodManifest(tb)).(map[string]any)
	return tree
}

// FuzzAccepts changes a manifest at random places: what is accepted without the library has no faults for the library, and what has
// none is accepted.
func FuzzAccepts(f *testing.F) {
	for seed := range uint64(300) {
		f.Add(seed, uint8(1+seed%4))
	}
	f.Fuzz(func(t *testing.T, seed uint64, changes uint8) {
		random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // no secret
		tree := normal(t)
		var pool []any
		collect(tree, &pool)
		for range changes%8 + 1 {
			change(random, tree, pool)
		}
		if value.Depth(tree) > 50 {
			return
		}
		faults, err := schemas.ManifestFaults(tree)
		if got, want := schemas.Accepts(tree), err == nil && len(faults) == 0; got != want {
			t.Errorf("got %t, the library says %t: %v %v\n%s", got, want, faults, err, value.MustJSON(tree))
		}
	})
}

// collect lists the values of a tree, and some that are in none.
func collect(node any, pool *[]any) {
	*pool = append(*pool, node)
	switch item := node.(type) {
	case map[string]any:
		for _, key := range value.Keys(item) {
			collect(item[key], pool)
		}
	case []any:
		for _, element := range item {
			collect(element, pool)
		}
	default:
		*pool = slices.Concat(*pool, []any{
			nil, true, "", "nil", "5%", "100-200", "errand", "a//b", int64(-1), int64(0), uint64(math.MaxUint64), 1.5, 1e20, math.Inf(1), []any{}, map[string]any{},
		})
	}
}

// change replaces, adds or removes something below a node.
func change(random *rand.Rand, node any, pool []any) {
	deeper := func(item any) bool {
		if random.IntN(4) == 0 || value.Depth(item) == 0 {
			return false
		}
		change(random, item, pool)
		return true
	}
	keys := []string{"name", "properties", "consumes", "persistent_disk", "vm_type", "vm_resources", "os", "update", "other"}
	switch item := node.(type) {
	case map[string]any:
		if len(item) == 0 || random.IntN(12) == 0 {
			item[keys[random.IntN(len(keys))]] = value.Clone(pool[random.IntN(len(pool))])
			return
		}
		known := value.Keys(item)
		key := known[random.IntN(len(known))]
		switch {
		case deeper(item[key]):
		case random.IntN(2) == 0:
			delete(item, key)
		default:
			item[key] = value.Clone(pool[random.IntN(len(pool))])
		}
	case []any:
		if len(item) == 0 {
			return
		}
		if at := random.IntN(len(item)); !deeper(item[at]) {
			item[at] = value.Clone(pool[random.IntN(len(pool))])
		}
	}
}
