package doc_test

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/brokerpak"
)

func TestPakdoc(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Pakdoc")
}

// everything is a pak that uses every key of the format, in texts that would be markup.
const everything = "testdata/everything"

// openPak opens a pak for the time of a spec.
func openPak(path string) *brokerpak.Pak {
	GinkgoHelper()
	pak, err := brokerpak.Open(path)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(pak.Close)
	return pak
}

// example returns the path of an example pak of the repository.
func example(name string) string { return filepath.Join("..", "..", "..", "examples", name) }

// parityPak returns the path of the pak of spec/parity, whose service is called redis.
func parityPak() string { return filepath.Join("..", "..", "..", "spec", "parity", "pak") }

// expectGolden compares a text with a file below testdata/golden; UPDATE=1 writes the file.
func expectGolden(name, text string) {
	GinkgoHelper()
	file := filepath.Join("testdata", "golden", name)
	if os.Getenv("UPDATE") != "" {
		Expect(os.MkdirAll(filepath.Dir(file), 0o755)).To(Succeed())
		Expect(os.WriteFile(file, []byte(text), 0o644)).To(Succeed())
	}
	want, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred(), "UPDATE=1 writes it")
	Expect(text).To(Equal(string(want)), "UPDATE=1 rewrites %s", file)
}
