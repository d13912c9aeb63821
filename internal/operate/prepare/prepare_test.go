package prepare_test

import (
	"bytes"
	"context"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/adapter/session"
	"service-adapter/internal/operate/prepare"
	"service-adapter/spec/kit/site"
)

// bare is the beginning of a service definition.
const bare = `version: 1
name: one
id: 00000000-0000-4000-8000-000000000001
description: A service
display_name: One
image_url: https://example.com/one.png
documentation_url: https://example.com/one
support_url: https://example.com/support
plans: [{name: small, id: 00000000-0000-4000-8000-000000000011, description: Small, display_name: Small}]
bind: {}
`

var _ = Describe("preparing", func() {
	It("needs secure_manifests for sensitive outputs of a provision template", func() {
		s := site.New(GinkgoT().TempDir())
		delete(s.Env, "SERVICE_ADAPTER_SECURE_MANIFESTS")
		s.Serve(s.Pak("one", bare+`provision:
  template: |
    output "password" {
      value     = "p"
      sensitive = true
    }
`))
		_, err := prepare.Run(context.Background(), session.Process{Stderr: &bytes.Buffer{}, Getenv: s.Getenv},
			filepath.Join(s.Dir, "prepared"))
		Expect(err).To(MatchError(`checking the configuration: service "one" has sensitive outputs: ` +
			"secure_manifests must have the value of the broker's enable_secure_manifests"))
	})

	DescribeTable("rejects errands whose states bindings would not find", func(state, errands string) {
		s := site.New(GinkgoT().TempDir())
		s.Serve(s.Pak("one", bare))
		s.Env["SERVICE_ADAPTER_STATE"], s.Env["SERVICE_ADAPTER_ERRAND_PROPERTIES"] = state, errands
		_, err := prepare.Run(context.Background(), session.Process{Stderr: &bytes.Buffer{}, Getenv: s.Getenv},
			filepath.Join(s.Dir, "prepared"))
		Expect(err).To(MatchError(ContainSubstring("errand_properties must have the same state.type as the adapter")))
	},
		Entry("local", "{config: {dir: /store}}", "{state: {type: local}}"),
		Entry("none", "{config: {dir: /store}}", "{paks: [/a]}"),
		Entry("another", "{config: {dir: /store}}", "{state: {type: pg}}"),
		Entry("another of two", "{type: s3}", "{state: {type: pg}}"),
	)
})
