package acceptance_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"

	"service-adapter/spec/kit"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// condition is that of a binding, as an operator is shown it; "" when it is not in the list.
func (b *broker) condition(ctx context.Context, id string) string {
	GinkgoHelper()
	got := b.run(ctx, "", "bindings", "list", "--json")
	Expect(got.Exit).To(BeElementOf(0, 1), got.Stderr)
	var listed struct {
		Bindings []struct{ ID, Condition string }
	}
	Expect(json.Unmarshal([]byte(got.Stdout), &listed)).To(Succeed())
	for _, binding := range listed.Bindings {
		if binding.ID == id {
			return binding.Condition
		}
	}
	return ""
}

// OpenTofu empties a local state before it writes it, and does not wait for the disk: a loss of power may cut it off
// anywhere.
var _ = Describe("a local state that is cut off", Ordered, func() {
	var b *broker
	var state string

	BeforeAll(func(ctx context.Context) {
		b = newBroker(newSite("entries"))
		state = b.site.stateFile("bind-1")
		b.keepBindings(ctx)
	})

	// cuts are the lengths to which a text is cut, -1 for a file that is missing.
	cuts := func(text []byte, step int) []int {
		lengths := []int{-1}
		for n := 0; n < len(text); n += step {
			lengths = append(lengths, n)
		}
		return lengths
	}

	// cut restores what was there, damages the state, and the backup if it shall.
	cut := func(before string, length int, backup []byte) {
		GinkgoHelper()
		b.site.restore(before)
		if length < 0 {
			Expect(os.Remove(state)).To(Succeed())
		} else {
			Expect(os.Truncate(state, int64(length))).To(Succeed())
		}
		if backup == nil {
			Expect(os.Remove(state + ".backup")).To(Succeed())
		} else {
			Expect(os.WriteFile(state+".backup", backup, 0o600)).To(Succeed())
		}
	}

	// steps are the distances of the cuts.
	steps := []TableEntry{Entry("each 64th byte", kit.Slow(), 64), Entry("a few", 1500)}

	for _, before := range []string{complete, interrupted} {
		DescribeTable("is restored from its copy, wherever it was cut: "+before, func(ctx context.Context, step int) {
			b.site.restore(before)
			text, err := os.ReadFile(state)
			Expect(err).NotTo(HaveOccurred())
			backup, err := os.ReadFile(state + ".backup")
			Expect(err).NotTo(HaveOccurred())
			if before == complete {
				Expect(backup).To(Equal(text), "the copy of what was made")
			}
			for _, length := range cuts(text, step) {
				cut(before, length, backup)
				got := b.unbind(ctx, "bind-1")
				Expect(got.Exit).To(Equal(0), "cut to %d: %s", length, got.Stderr)
				b.site.expectNothingLeft()
			}
		}, steps)

		DescribeTable("is unreadable without a copy, and never forgotten: "+before,
			func(ctx context.Context, step int) {
				b.site.restore(before)
				text, err := os.ReadFile(state)
				Expect(err).NotTo(HaveOccurred())
				made := b.site.resources()
				for n, length := range cuts(text, step) {
					backup := [][]byte{nil, {}, text[:len(text)/2]}[n%3]
					cut(before, length, backup)
					expectBroken(b.unbind(ctx, "bind-1"), "the state is missing, empty or cut off")
					if length <= 64 {
						Expect(b.condition(ctx, "bind-1")).To(Equal("unreadable"))
						expectBroken(b.bind(ctx, "bind-1", nil), state)
						expectBroken(b.unbind(ctx, "bind-1"), state)
					}
					Expect(b.site.resources()).To(Equal(made))
					Expect(filepath.Dir(state)).To(BeADirectory())
				}
				b.site.restore(before)
				Expect(b.unbind(ctx, "bind-1").Exit).To(Equal(0))
			}, steps)
	}
})
