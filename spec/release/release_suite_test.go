// Package main_test builds the BOSH release and deploys it on imitated VMs. Templates are rendered with ruby as the
// Director does, packages are compiled by their own scripts, and pre-start runs. The installed adapter then receives
// the broker's input in an imitation of the broker's container, and errands run on an imitation of an instance's VM.
package main_test

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/spec/kit"
	"service-adapter/spec/kit/broker"
)

// adapterBinary is the path of the adapter in the release.
var adapterBinary string

func TestRelease(t *testing.T) {
	kit.Suite(t, "Release")
}

var _ = BeforeSuite(func() {
	kit.Program(GinkgoT(), "ruby", "scripts/install ruby")
	kit.OpenTofu(GinkgoT(), kit.Newest)
	kit.Provider(GinkgoT(), "directory")
	adapterBinary = broker.Binary(GinkgoT())
})

// readFile returns the content of a file. The elements of its path are joined.
func readFile(elements ...string) string {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(elements...))
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}

// writeFile writes a file and creates its parent directories. The elements of its path are joined.
func writeFile(text string, elements ...string) {
	GinkgoHelper()
	path := filepath.Join(elements...)
	Expect(os.MkdirAll(filepath.Dir(path), 0o755)).To(Succeed())
	Expect(os.WriteFile(path, []byte(text), 0o644)).To(Succeed())
}
