package adapter_test

import (
	"bytes"
	"context"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/adapter"
)

var _ = Describe("preparing", func() {
	It("needs secure_manifests for sensitive outputs of a provision template", func() {
		s := newSite(GinkgoT().TempDir())
		delete(s.env, "SERVICE_ADAPTER_SECURE_MANIFESTS")
		s.serve(s.pak("one", `version: 1
name: one
id: 00000000-0000-4000-8000-000000000001
description: A service
display_name: One
image_url: https://example.com/one.png
documentation_url: https://example.com/one
support_url: https://example.com/support
plans: [{name: small, id: 00000000-0000-4000-8000-000000000011, description: Small, display_name: Small}]
provision:
  template: |
    output "password" {
      value     = "p"
      sensitive = true
    }
bind: {}
`))
		_, err := adapter.Prepare(context.Background(), adapter.Invocation{Stderr: &bytes.Buffer{}, Getenv: s.getenv}, filepath.Join(s.dir, "prepared"))
		Expect(err).To(MatchError(`checking the configuration: service "one" has sensitive outputs: ` +
			"secure_manifests must say what the broker's enable_secure_manifests says"))
	})
})
