package opentofu_test

import (
	"runtime"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/opentofu"
)

var _ = It("is run on Linux only", func() {
	Expect(opentofu.CheckPlatform(runtime.GOOS)).To(Succeed())
	Expect(opentofu.CheckPlatform("darwin")).To(MatchError(HavePrefix("the adapter runs OpenTofu on linux only, and " +
		"this is darwin: ")))
})
