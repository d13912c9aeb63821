package manifestgen_test

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/cloudfoundry/bosh-cli/v7/director/template"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/manifestgen"
)

var _ = Describe("The text of a deployed manifest", func() {
	// written calls check with each manifest that an earlier version of the adapter wrote.
	written := func(check func(manifest string)) {
		GinkgoHelper()
		paths, err := filepath.Glob("../spec/fixtures/370604b/manifests/*.yml")
		Expect(err).NotTo(HaveOccurred())
		Expect(len(paths)).To(BeNumerically(">", 10))
		for _, path := range paths {
			By(path)
			text, err := os.ReadFile(path)
			Expect(err).NotTo(HaveOccurred())
			check(string(text))
		}
	}

	It("is recognised as written by the adapter, whichever version wrote it", func() {
		written(func(manifest string) {
			Expect(manifestgen.IsAsWritten(manifest)).To(BeTrue())
			Expect(manifestgen.IsAsWritten("\n"+manifest+"\n\n")).To(BeTrue(), "as a tool prints it")
		})
	})

	It("is not recognised after the BOSH CLI has deployed it", func() {
		written(func(manifest string) {
			deployed, err := template.NewTemplate([]byte(manifest)).Evaluate(template.StaticVariables{}, nil,
				template.EvaluateOpts{})
			Expect(err).NotTo(HaveOccurred())
			Expect(manifestgen.IsAsWritten(string(deployed))).To(BeFalse())
		})
	})

	It("is not recognised if it has a comment or is not a manifest", func() {
		Expect(manifestgen.IsAsWritten("name: one\n")).To(BeTrue())
		for _, text := range []string{"name: one # edited\n", "name: 'one'\n", "name: [", "", strings.Repeat("- ", 9)} {
			Expect(manifestgen.IsAsWritten(text)).To(BeFalse(), text)
		}
	})
})
