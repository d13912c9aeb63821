package brokerpak_test

import (
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// Every directory below testdata/err is a pak with faults, every one below testdata/ok a pak without: what they change in
// testdata/base. Their want.txt holds the error, or the warnings and the model. UPDATE=1 writes it anew.
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
