package preview_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/adapter/session"
	"service-adapter/internal/odb"
	"service-adapter/internal/operate/manifestdiff"
	"service-adapter/internal/operate/preview"
	"service-adapter/spec/kit/site"
)

// secretsBosh is a part of provision.bosh with a secret that the operator's configuration rotates, one that nothing
// rotates, and one that the operator supplies.
const secretsBosh = `    secrets:
    - {name: admin, length: 20, keepers: {rotation: '${config("rotation")}'}}
    - {name: replica, length: 20}
    - {name: license, value: '${config("license")}'}
    ops:
    - inline:
      - {type: replace, path: '/instance_groups/0/jobs/0/properties?', value: {
          admin: ((admin)), replica: ((replica)), license: ((license))}}
`

var _ = Describe("The secrets of an instance", func() {
	var s *site.Site
	var instance *odb.Instance
	deploy := func(secure string) {
		GinkgoHelper()
		s = site.New(GinkgoT().TempDir())
		s.Serve(s.Pak("one", site.Definition{Bosh: secretsBosh}.String()))
		s.Env["SERVICE_ADAPTER_SECURE_MANIFESTS"] = secure
		s.Env["GSB_ROTATION"], s.Env["GSB_LICENSE"] = "first", "license-of-2025"
		instance = site.Instance()
		result := s.Call("generate-manifest", instance.Generate(site.Body(nil)))
		Expect(result.Code).To(Equal(0), result.Stderr)
		Expect(instance.Deploy(result.Stdout)).To(Succeed())
	}
	pending := func() []manifestdiff.Change {
		GinkgoHelper()
		changes, err := preview.Changes(context.Background(), session.Process{Getenv: s.Getenv, Stderr: GinkgoWriter},
			instance.Manifest, site.JSONText(instance.Plan), nil)
		Expect(err).NotTo(HaveOccurred())
		return changes
	}
	renewal := func(name string) any {
		return manifestdiff.Change{
			Path: "secrets/name=" + name, Secret: "renew", Effect: manifestdiff.Credentials,
			Reason: "the next upgrade gives the secret another value: " +
				"its keepers or the value that the operator supplies changed",
			Consequence: "credentials of bindings that contain the value change with it: " +
				"the apps must be bound again",
		}
	}

	DescribeTable("are renewed by an upgrade", func(secure string, rotated, supplied []any) {
		deploy(secure)
		Expect(pending()).To(BeEmpty())
		s.Env["GSB_ROTATION"] = "second"
		Expect(pending()).To(ConsistOf(rotated...))
		s.Env["GSB_ROTATION"], s.Env["GSB_LICENSE"] = "first", "license-of-2026"
		Expect(pending()).To(ConsistOf(supplied...))
	},
		// The broker sends no secrets on an upgrade, so a supplied value counts as unchanged until an update.
		Entry("that the broker stores", "true", []any{renewal("admin")}, []any{}),
		Entry("in the manifest", "false", []any{renewal("admin")}, []any{renewal("license")}),
	)

	// properties replaces the properties of the job in the template of the pak.
	properties := func(old, replacement string) {
		s.Serve(s.Pak("one", site.Replaced(site.Definition{Bosh: secretsBosh}.String(), old, replacement)))
	}

	DescribeTable("that the manifest no longer contains are credentials that bindings lose",
		func(secure, old, replacement string, wanted manifestdiff.Effect) {
			deploy(secure)
			properties(old, replacement)
			Expect(pending()).To(ContainElement(And(
				HaveField("Path", HavePrefix("/instance_groups/name=server/jobs/name=server/properties/")),
				HaveField("Effect", wanted))))
		},
		Entry("a stored secret", "true", "admin: ((admin)), ", "", manifestdiff.Credentials),
		Entry("a stored secret instead of another one", "true", "admin: ((admin))", "admin: ((license))",
			manifestdiff.Credentials),
		Entry("a secret in the manifest", "false", "admin: ((admin)), ", "", manifestdiff.Credentials),
		Entry("a stored secret that moves to another property", "true", "admin: ((admin))", "root: ((admin))",
			manifestdiff.Restart),
		Entry("a secret in the manifest that moves to another property", "false", "admin: ((admin))", "root: ((admin))",
			manifestdiff.Restart),
	)
})
