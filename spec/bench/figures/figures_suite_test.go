package figures_test

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestFigures(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Figures Suite")
}

// expectGolden compares a text with a file below testdata. With UPDATE=1, it writes the file.
func expectGolden(name, got string) {
	GinkgoHelper()
	file := filepath.Join("testdata", name)
	if os.Getenv("UPDATE") != "" {
		Expect(os.WriteFile(file, []byte(got), 0o644)).To(Succeed())
	}
	want, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	Expect(got).To(Equal(string(want)), "run with UPDATE=1 if the change is intended")
}
