package adapters_test

import (
	"context"
	"fmt"
	"os/exec"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("The pak", Ordered, ContinueOnFailure, func() {
	for _, adapter := range []string{"zookeeper", "aerospike", "hazelcast", "concourse", "mongodb", "ondemand"} {
		Describe(adapter, func() {
			equal, explained := 0, 0

			It("is valid", func(ctx context.Context) {
				output, err := exec.CommandContext(ctx, adapterBinary, "pak", "validate", pakOf(adapter)).CombinedOutput()
				Expect(err).NotTo(HaveOccurred(), "%s", output)
				Expect(string(output)).To(ContainSubstring("0 errors"))
			})

			for _, c := range casesOf(adapter) {
				It("answers as the adapter: "+c.name, func(ctx context.Context) {
					if needsReasons(ctx, c) {
						explained++
					} else {
						equal++
					}
				})
			}

			for _, one := range variants {
				if one.adapter != adapter {
					continue
				}
				It("answers as the adapter is said to: "+one.behaviour, func(ctx context.Context) {
					c := caseOf(one.adapter, one.from)
					one.change(&c)
					Expect(needsReasons(ctx, c)).To(Equal(one.explained))
				})
			}

			It("is counted", func() {
				AddReportEntry(fmt.Sprintf("%s: %d cases equal, %d explained", adapter, equal, explained), ReportEntryVisibilityAlways)
			})
		})
	}

	It("differs in no more than the tables say", func() {
		for _, row := range explanations {
			Expect(row.reason).To(Or(HavePrefix(aDefect), HavePrefix(documented)))
			Expect(row.used).To(BeTrue(), "no case needs the row %q: %s", row.path, row.reason)
		}
		for _, row := range refusals {
			Expect(row.used).To(BeTrue(), "no case needs the refusal %v", row.pairs)
		}
	})
})

// needsReasons plays a case. All differences must be explained; it tells whether there are any but the record.
func needsReasons(ctx context.Context, c recorded) bool {
	GinkgoHelper()
	p := newPlayer(c)
	found := append(p.comparePending(ctx), p.compare(ctx)...)
	some := false
	for _, d := range found {
		reason, ok := explain(c, d)
		Expect(ok).To(BeTrue(), "nothing explains %s", d)
		some = some || reason != record
	}
	return some
}

// explain finds the reason of a difference.
func explain(c recorded, d difference) (string, bool) {
	for i := range explanations {
		if row := &explanations[i]; row.explains(c, d) {
			row.used = true
			return row.reason, true
		}
	}
	return "", false
}
