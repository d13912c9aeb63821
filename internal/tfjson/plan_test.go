package tfjson_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/tfjson"
)

// planned is the output of "tofu show -json" for a plan: with two resources, a data source, drift and outputs.
const planned = `{"resource_changes": [
	{"address": "a.b[\"x\"]", "mode": "managed", "change": {"actions": ["update"],
		"before": {"p": "s3cret", "q": 1, "r": null, "s": [1]},
		"after": {"p": "other", "q": 1, "r": null, "s": [1, 2]}}},
	{"address": "a.c", "mode": "managed",
		"change": {"actions": ["delete", "create"], "before": {"p": 1}, "after": {"p": 2}}},
	{"address": "a.d", "mode": "managed", "change": {"actions": ["create"], "before": null, "after": {"p": 2}}},
	{"address": "a.e", "mode": "managed", "change": {"actions": ["delete"], "before": {"p": 2}, "after": null}},
	{"address": "a.i", "mode": "managed",
		"change": {"actions": ["forget", "create"], "before": {"p": 1}, "after": {"p": 2}}},
	{"address": "a.j", "mode": "managed", "change": {"actions": ["forget"], "before": {"p": 1}, "after": null}},
	{"address": "a.f", "mode": "managed", "change": {"actions": ["no-op"], "before": {}, "after": {}}},
	{"address": "data.a.b", "mode": "data", "change": {"actions": ["read"], "before": null, "after": {}}}],
"resource_drift": [
	{"address": "a.c", "mode": "managed",
		"change": {"actions": ["update"], "before": {"n": 12345678901234567890},
			"after": {"n": 12345678901234567891, "new": true}}},
	{"address": "a.g", "mode": "managed", "change": {"actions": ["delete"], "before": {}, "after": null}},
	{"address": "a.h", "mode": "managed", "change": {"actions": ["no-op"], "before": {}, "after": {}}}],
"output_changes": {"z": {"actions": ["update"]}, "same": {"actions": ["no-op"]}, "gone": {"actions": ["delete"]}}}`

var _ = Describe("DecodePlan", func() {
	change := func(address, action string, attributes ...string) tfjson.Change {
		return tfjson.Change{Address: address, Action: action, Attributes: attributes}
	}

	It("returns the changes of a plan", func() {
		Expect(tfjson.DecodePlan([]byte(planned), false)).To(Equal([]tfjson.Change{
			change(`a.b["x"]`, "change", "p", "s"), change("a.c", "replace", "p"),
			change("a.d", "create"), change("a.e", "destroy"), change("a.i", "replace", "p"),
		}))
	})

	It("returns the drift", func() {
		Expect(tfjson.DecodePlan([]byte(planned), true)).To(Equal([]tfjson.Change{
			change("a.c", "changed", "n", "new"), change("a.g", "gone"),
			change("output.gone", "changed"), change("output.z", "changed"),
		}))
	})

	DescribeTable("rejects, without showing values,", func(text string) {
		_, err := tfjson.DecodePlan([]byte(text), true)
		Expect(err).To(MatchError(HavePrefix("reading the plan that OpenTofu shows: ")))
		Expect(err).NotTo(MatchError(ContainSubstring("s3cret")))
	},
		Entry("an empty text", ""),
		Entry("a truncated text", planned[:len(planned)/2]),
		Entry("another shape", `{"resource_drift": "s3cret"}`),
	)
})

// FuzzDecodePlan asserts that no document makes DecodePlan panic, and that every change has an address and an action.
func FuzzDecodePlan(f *testing.F) {
	f.Add([]byte(planned))
	f.Add([]byte(`{"resource_drift": [null], "output_changes": {"": null}}`))
	f.Fuzz(func(t *testing.T, document []byte) {
		for _, drift := range []bool{false, true} {
			changes, err := tfjson.DecodePlan(document, drift)
			if err != nil && changes != nil {
				t.Fatalf("%v and %v", err, changes)
			}
			for _, change := range changes {
				if change.Action == "" {
					t.Fatalf("%+v", change)
				}
			}
		}
	})
}
