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

// condition returns the condition of a binding in the operator's list of bindings. It returns "" for a binding that is
// not listed.
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

// OpenTofu truncates a local state before it writes the new one, and does not wait for the disk. A power loss can
// therefore leave any prefix of the state.
var _ = Describe("a truncated local state", Ordered, func() {
	var b *broker
	var state string

	BeforeAll(func(ctx context.Context) {
		b = newBroker(newSite("entries"))
		state = b.site.stateFile("bind-1")
		b.keepBindings(ctx)
	})

	// cuts returns the lengths to which a text is truncated, in steps. The length -1 stands for a missing file.
	cuts := func(text []byte, step int) []int {
		lengths := []int{-1}
		for n := 0; n < len(text); n += step {
			lengths = append(lengths, n)
		}
		return lengths
	}

	// cut restores a snapshot, truncates the state to a length, and writes the backup. A nil backup means that the
	// backup is missing.
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

	// The entries of the tables contain the difference between the lengths.
	steps := []TableEntry{Entry("at each 64th byte", kit.Slow(), 64), Entry("at a few bytes", 1500)}

	for _, before := range []string{complete, interrupted} {
		DescribeTable("is restored from its copy, at whatever byte it was truncated: "+before,
			func(ctx context.Context, step int) {
				b.site.restore(before)
				text, err := os.ReadFile(state)
				Expect(err).NotTo(HaveOccurred())
				backup, err := os.ReadFile(state + ".backup")
				Expect(err).NotTo(HaveOccurred())
				if before == complete {
					Expect(backup).To(Equal(text), "the copy of the complete state")
				}
				for _, length := range cuts(text, step) {
					cut(before, length, backup)
					got := b.unbind(ctx, "bind-1")
					Expect(got.Exit).To(Equal(0), "cut to %d: %s", length, got.Stderr)
					b.site.expectNothingLeft()
				}
			}, steps)

		DescribeTable("without a copy is reported as unreadable and remains listed: "+before,
			func(ctx context.Context, step int) {
				b.site.restore(before)
				text, err := os.ReadFile(state)
				Expect(err).NotTo(HaveOccurred())
				created := b.site.resources()
				for n, length := range cuts(text, step) {
					backup := [][]byte{nil, {}, text[:len(text)/2]}[n%3]
					cut(before, length, backup)
					expectBroken(b.unbind(ctx, "bind-1"), "the state is missing, empty or cut off")
					if length <= 64 {
						Expect(b.condition(ctx, "bind-1")).To(Equal("unreadable"))
						expectBroken(b.bind(ctx, "bind-1", nil), state)
						expectBroken(b.unbind(ctx, "bind-1"), state)
					}
					Expect(b.site.resources()).To(Equal(created))
					Expect(filepath.Dir(state)).To(BeADirectory())
				}
				b.site.restore(before)
				Expect(b.unbind(ctx, "bind-1").Exit).To(Equal(0))
			}, steps)
	}
})
