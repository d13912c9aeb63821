package adapters_test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("The pak", Ordered, ContinueOnFailure, func() {
	for _, adapter := range []string{"zookeeper", "aerospike"} {
		Describe(adapter, func() {
			equal, explained := 0, 0

			It("is valid", func(ctx context.Context) {
				output, err := exec.CommandContext(ctx, adapterBinary, "pak", "validate", filepath.Join("testdata", "paks", adapter)).CombinedOutput()
				Expect(err).NotTo(HaveOccurred(), "%s", output)
				Expect(string(output)).To(ContainSubstring("0 errors"))
			})

			for _, c := range casesOf(adapter) {
				It("answers as the adapter: "+c.name, func(ctx context.Context) {
					p := newPlayer(c)
					found := append(p.comparePending(ctx), p.compare(ctx)...)
					reasons := 0
					for _, d := range found {
						reason, ok := explain(c, d)
						Expect(ok).To(BeTrue(), "nothing explains %s", d)
						if reason != record {
							reasons++
						}
					}
					if reasons > 0 {
						explained++
					} else {
						equal++
					}
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
