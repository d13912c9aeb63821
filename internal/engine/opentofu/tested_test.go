package opentofu_test

import (
	"os"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/opentofu"
)

var _ = It("lists as tested the versions of OpenTofu that spec/tools builds for tests", func() {
	entries, err := os.ReadDir("../../../spec/tools")
	Expect(err).NotTo(HaveOccurred())
	var built []string
	for _, entry := range entries {
		if version, found := strings.CutPrefix(entry.Name(), "tofu-"); found {
			built = append(built, version)
		}
	}
	Expect(opentofu.Tested()).To(ConsistOf(built))
})
