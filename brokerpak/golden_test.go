package brokerpak_test

import (
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// Each directory in testdata/err and testdata/ok contains the files that a case changes in testdata/base. The resulting
// pak is invalid in testdata/err and valid in testdata/ok. The file want.txt of a case contains the expected error, or
// the expected warnings and model. Run the test with UPDATE=1 to write these files.
var _ = Describe("a pak", func() {
	for _, kind := range []string{"err", "ok"} {
		cases, err := filepath.Glob(filepath.Join("testdata", kind, "*"))
		if err != nil || len(cases) == 0 {
			panic("no cases in testdata/" + kind)
		}
		for _, dir := range cases {
			It(kind+"/"+filepath.Base(dir), func() { checkGolden(dir, kind == "err") })
		}
	}
})

// checkGolden compares the outcome of a case with its want.txt. A valid pak must have the same outcome as a zip. The
// parameter faulty means that the pak must be invalid.
func checkGolden(dir string, faulty bool) {
	GinkgoHelper()
	pak := newPak(nil, dir)
	Expect(os.Remove(filepath.Join(pak, "want.txt"))).To(Or(Succeed(), MatchError(os.ErrNotExist)))
	got := outcome(pak)
	Expect(strings.Contains(got, "manifest:\n")).NotTo(Equal(faulty), got)
	if !faulty {
		Expect(outcome(zipped(pak))).To(Equal(got), "as a zip")
	}

	want := filepath.Join(dir, "want.txt")
	if os.Getenv("UPDATE") != "" {
		Expect(os.WriteFile(want, []byte(got), 0o600)).To(Succeed())
	}
	text, err := os.ReadFile(want)
	Expect(err).NotTo(HaveOccurred())
	Expect(got).To(Equal(string(text)))
}
