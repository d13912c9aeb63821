package adapter_test

import (
	"bytes"
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/adapter"
	"service-adapter/internal/odb"
	"service-adapter/spec/kit/site"
)

var _ = Describe("the budget of a command", func() {
	It("is named in an error that only reports that a deadline passed", func(ctx context.Context) {
		s := site.New(GinkgoT().TempDir())
		s.Serve(s.Pak("one", site.Definition{}.String()))
		s.Env["SERVICE_ADAPTER_BUDGET"] = "1s"
		ended, cancel := context.WithTimeout(ctx, 0)
		defer cancel()
		input, err := odb.Input("generate-manifest", site.Instance().Generate(site.Body(nil)))
		Expect(err).NotTo(HaveOccurred())
		var stdout, stderr bytes.Buffer
		code := adapter.Run(ended, adapter.Invocation{
			Args: []string{"service-adapter", "generate-manifest"}, Stdin: strings.NewReader(input), Stdout: &stdout,
			Stderr: &stderr, Getenv: s.Getenv,
		})
		Expect(code).To(Equal(1))
		Expect(stdout.String()).To(ContainSubstring("The service did not finish within the 1s"))
		Expect(stderr.String()).To(ContainSubstring("the budget of 1s is used up"))
	})
})
