package rabbitmq_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/spec/kit"
	"service-adapter/spec/kit/broker"
)

var _ = Describe("the test cases of the pak", func() {
	It("pass with a server that they start themselves", kit.Slow(), func(ctx context.Context) {
		played, err := broker.Adapter{Path: adapterBinary, Dir: shared}.Run(ctx, "", "pak", "test",
			kit.Path("examples", "rabbitmq"),
			"--binary", "tofu="+kit.OpenTofu(GinkgoT(), kit.Newest))
		Expect(err).NotTo(HaveOccurred())
		Expect(played.Exit).To(Equal(0), played.Stdout+played.Stderr)
		Expect(played.Stdout).To(And(MatchRegexp("(?m)^ok +bind "), MatchRegexp("(?m)^ok +cluster "),
			MatchRegexp("(?m)^ok +tls ")))
	})
})
