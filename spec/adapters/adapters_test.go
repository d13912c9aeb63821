package adapters_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"service-adapter/internal/value"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("The pak", Ordered, ContinueOnFailure, func() {
	for _, adapter := range []string{"zookeeper", "aerospike", "hazelcast", "concourse", "mongodb", "ondemand"} {
		Describe(adapter, func() {
			equal, explained := 0, 0

			It("is valid", func(ctx context.Context) {
				output, err := exec.CommandContext(ctx, adapterBinary, "pak", "validate",
					pakOf(adapter)).CombinedOutput()
				Expect(err).NotTo(HaveOccurred(), "%s", output)
				Expect(string(output)).To(ContainSubstring("0 errors"))
			})

			It("can be initialised from a manifest of the adapter", func(ctx context.Context) {
				adopted := 0
				for _, c := range casesOf(adapter) {
					if c.Command != "generate-manifest" || c.refused() {
						continue
					}
					dir := GinkgoT().TempDir()
					file, pak := filepath.Join(dir, "service.yml"), filepath.Join(dir, "service")
					Expect(os.WriteFile(file, value.MustJSON(c.Stdout), 0o600)).To(Succeed())
					for _, arguments := range [][]string{
						{"init", pak, "--from", file},
						{"lock", pak, "--binary", "tofu=" + file},
						{"validate", pak, "--strict"},
					} {
						output, err := exec.CommandContext(ctx, adapterBinary,
							append([]string{"pak"}, arguments...)...).CombinedOutput()
						Expect(err).NotTo(HaveOccurred(), "%s: %s", c.name, output)
					}
					adopted++
				}
				Expect(adopted).To(BeNumerically(">", 0))
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
				It("answers as the adapter's description says: "+one.behaviour, func(ctx context.Context) {
					c := caseOf(one.adapter, one.from)
					one.change(&c)
					Expect(needsReasons(ctx, c)).To(Equal(one.explained))
				})
			}

			It("has a count of its cases", func() {
				AddReportEntry(fmt.Sprintf("%s: %d cases equal, %d explained", adapter, equal, explained),
					ReportEntryVisibilityAlways)
			})
		})
	}

	It("has no unused row in the tables of differences", func() {
		for _, row := range explanations {
			Expect(row.reason).To(Or(HavePrefix(aDefect), HavePrefix(documented)))
			Expect(row.used).To(BeTrue(), "no case needs the row %q: %s", row.path, row.reason)
		}
		for _, row := range refusals {
			Expect(row.used).To(BeTrue(), "no case needs the refusal %v", row.pairs)
		}
	})
})

// needsReasons plays a case and asserts that all differences are explained. It reports whether there is a difference
// other than the record.
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

// explain returns the reason of a difference, and whether there is one. It marks the row of the reason as used.
func explain(c recorded, d difference) (string, bool) {
	for i := range explanations {
		if row := &explanations[i]; row.explains(c, d) {
			row.used = true
			return row.reason, true
		}
	}
	return "", false
}
