package manifestgen_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestManifestgen(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "manifestgen")
}
