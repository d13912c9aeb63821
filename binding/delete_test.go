package binding_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/binding"
	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/fault"
	"service-adapter/internal/instance"
	"service-adapter/internal/record"
)

var _ = Describe("deleting a binding", func() {
	const password = `${manifest.get("/properties/password")}`

	// created returns a site with a complete binding.
	created := func(ctx context.Context, section string) *site {
		GinkgoHelper()
		s := newSite(section)
		_, err := s.create(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(s.files()).To(HaveLen(2))
		return s
	}

	deleted := func(ctx context.Context, s *site) {
		GinkgoHelper()
		Expect(s.delete(ctx)).To(Succeed(), s.logs.String())
		Expect(s.files()).To(BeEmpty())
		Expect(states()).To(BeEmpty())
	}

	It("uses the current password of the administrator", func(ctx context.Context) {
		s := created(ctx, bind(password))
		accept("new-password")
		Expect(s.delete(ctx)).To(MatchError(ContainSubstring("password is not accepted")), "with the old one")
		s.view = s.deployed("new-password")
		deleted(ctx, s)
	})

	It("uses the current outputs of the instance", func(ctx context.Context) {
		s := created(ctx, bind(`at ${instance.details["host"]}`))
		s.view.VMs = map[string][]string{"server": {"10.0.9.9"}}
		accept("at 10.0.9.9")
		deleted(ctx, s)
	})

	DescribeTable("uses the recorded inputs if the instance lacks the values",
		func(ctx context.Context, live, recorded string, view instance.View) {
			s := created(ctx, bind(live))
			s.view = &view
			accept(recorded)
			deleted(ctx, s)
			Expect(s.logs.String()).To(ContainSubstring("keeps its recorded value"))
		},
		Entry("no manifest", password, "old-password", instance.View{}),
		Entry("unreadable manifest", password, "old-password", instance.View{Manifest: []byte("\t{")}),
		Entry("no secrets", password, "old-password",
			instance.View{Manifest: []byte("properties: {password: ((/odb/password))}")}),
		Entry("no VMs", `${bosh.host("server")}`, "10.0.8.5", instance.View{}),
	)

	It("uses the recorded inputs for an operator, without an instance", func(ctx context.Context) {
		s := created(ctx, bind(`${bosh.host("server")}`))
		accept("10.0.8.5")
		s.view = nil
		Expect(s.DeleteStored(ctx, s.id, lifecycle.Creating)).To(MatchError("its condition is now complete"))
		Expect(s.DeleteStored(ctx, s.id, lifecycle.Creating, lifecycle.Complete)).To(Succeed(), s.logs.String())
		Expect(s.files()).To(BeEmpty())
		Expect(s.DeleteStored(ctx, s.id)).To(MatchError(lifecycle.ErrNotStored))
		Expect(s.logs.String()).NotTo(ContainSubstring("keeps its recorded value"))
		Expect(s.delete(ctx)).To(And(MatchError(fault.ErrBindingNotFound), MatchError(lifecycle.ErrNotStored)))
	})

	Describe("uses the running instance that an operator describes", func() {
		deletedWith := func(ctx context.Context, s *site, view *instance.View) error {
			return s.DeleteStoredWith(ctx, s.id, func(
				_ context.Context, recorded *lifecycle.StateRecord,
			) (*binding.Request, error) {
				Expect(recorded.BindingID).To(Equal(s.id))
				return &binding.Request{Instance: view, MustEvaluate: true}, nil
			})
		}

		It("even if its outputs are not available, unless an input reads them", func(ctx context.Context) {
			s := created(ctx, bind(password))
			accept("new-password")
			view := s.deployed("new-password")
			view.VMs = nil // the output host cannot be evaluated
			Expect(deletedWith(ctx, s, view)).To(Succeed(), s.logs.String())
			Expect(s.files()).To(BeEmpty())
		})

		It("and changes nothing if an output that an input needs is not available", func(ctx context.Context) {
			s := created(ctx, bind(`${instance.details["port"]}`))
			view := s.deployed("x")
			view.VMs = nil
			Expect(deletedWith(ctx, s, view)).To(MatchError(ContainSubstring(
				`evaluating output "host" of the instance`)))
			Expect(s.files()).To(HaveLen(2))
		})
	})

	It("reads the instance id and the deployment from the record", func(ctx context.Context) {
		s := created(ctx,
			bind(`${bosh.host("server")} ${request.instance_id} ${bosh.deployment} `+
				`${request.binding_id} ${request.app_guid}`))
		s.view = &instance.View{VMs: map[string][]string{"server": {"10.0.9.9"}}}
		accept("10.0.9.9 inst-1 service-instance_inst-1 " + s.id + " app")
		deleted(ctx, s)
	})

	It("uses the recorded generated values", func(ctx context.Context) {
		s := newSite(bind(`${bosh.host("server")} ${rand.base64(16)}`))
		made, err := s.create(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		live, _ := made.Credentials["live"].(string)
		Expect(live).To(HavePrefix("10.0.8.5 "))
		s.view.VMs = map[string][]string{"server": {"10.0.9.9"}}
		accept(strings.Replace(live, "10.0.8.5", "10.0.9.9", 1))
		deleted(ctx, s)
	})

	It("uses the recorded template although the pak has another one", func(ctx context.Context) {
		s := created(ctx, bind(password))
		s.install(pak{version: "2.0.0", bind: ` {template: 'variable "other" { type = string }'}`})
		s.view = s.deployed("new-password")
		accept("new-password")
		deleted(ctx, s)
	})

	It("does not need the service in a pak", func(ctx context.Context) {
		s := created(ctx, bind(`${manifest.get("/properties/password")}, ${instance.details["host"]}`))
		s.install(pak{version: "2.0.0", service: "another", bind: " {}"})
		s.view = s.deployed("new-password")
		accept("old-password, 10.0.8.5")
		deleted(ctx, s)
	})

	It("uses the provider of another pak, from either registry", func(ctx context.Context) {
		s := created(ctx, bind("x"))
		s.install(
			pak{version: "2.0.0", service: "another", bind: " {}", provider: "none"},
			pak{
				version: "3.0.0", service: "third", bind: " {}",
				provider: "registry.opentofu.org/service-adapter/directory",
			})
		deleted(ctx, s)
	})

	It("names a provider that no pak has, and changes nothing", func(ctx context.Context) {
		s := created(ctx, bind("x"))
		old := s.Paks
		s.install(pak{version: "2.0.0", bind: " {}", provider: "none"})
		Expect(s.delete(ctx)).To(MatchError(ContainSubstring(
			"no installed pak bundles the provider " + directoryProvider + " 1.0.0 that its record names; " +
				"keep the old pak in `paks`")))
		Expect(s.files()).To(HaveLen(2))
		s.Paks = append(s.Paks, old...)
		deleted(ctx, s)
	})

	It("does not need a provider that its template does not use", func(ctx context.Context) {
		s := newSite(` {template: 'output "x" { value = 1 }'}`)
		request := s.request(nil)
		request.Parameters, request.Body = nil, object{}
		_, err := s.Create(ctx, request)
		Expect(err).NotTo(HaveOccurred())
		s.install(pak{version: "2.0.0", bind: " {}", provider: "none"})
		deleted(ctx, s)
	})

	It("first finishes an interrupted creation with the recorded template", func(ctx context.Context) {
		s := newSite(bind(password))
		interrupted, interrupt := context.WithCancel(ctx)
		Expect(os.WriteFile(filepath.Join(s.entries, ".hold-after-create"), nil, 0o600)).To(Succeed())
		ended := make(chan error)
		go func() {
			_, err := s.create(interrupted, nil)
			ended <- err
		}()
		Eventually(filepath.Join(s.entries, ".at-after-create")).WithTimeout(waiting).Should(BeARegularFile())
		interrupt()
		// OpenTofu must have received the signal before the provider continues.
		Eventually(func() (string, error) {
			text, err := os.ReadFile(filepath.Join(shared, "cache", "runs", "b-"+s.id, "apply.stdout"))
			return string(text), err
		}).WithTimeout(waiting).Should(ContainSubstring("nterrupt"))
		Expect(os.Remove(filepath.Join(s.entries, ".hold-after-create"))).To(Succeed())
		Expect(<-ended).To(MatchError(context.Canceled))
		Expect(states()).To(ConsistOf("b-"+s.id), "after a signal nothing more is started")
		Expect(os.Remove(filepath.Join(s.entries, ".at-after-create"))).To(Succeed())
		Expect(s.files()).To(Equal([]string{"account"}))

		s.view = s.deployed("new-password")
		deleted(ctx, s)
	})

	It("reports a missing binding if the template does, after it destroyed the rest", func(ctx context.Context) {
		s := newSite(`
  user_inputs:
  - {field_name: path, type: string, required: true, details: x}
  errors: [{match: no such topic, exit: 41}]
  template: |
    resource "terraform_data" "topic" {
      input = var.path
      provisioner "local-exec" {
        when    = destroy
        command = "test ! -e ${self.input}/gone || { echo no such topic >&2; exit 3; }"
      }
    }
    resource "terraform_data" "access" {
      input = terraform_data.topic.id
    }`)
		_, err := s.create(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(filepath.Join(s.entries, "gone"), nil, 0o600)).To(Succeed())
		Expect(s.delete(ctx)).To(MatchError(fault.ErrBindingNotFound))
		Expect(states()).To(BeEmpty())

		_, err = s.create(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(s.DeleteStored(ctx, s.id)).To(Succeed(), "an operator wants no more")
		Expect(states()).To(BeEmpty())
	})

	It("does not report a missing binding while a resource remains", func(ctx context.Context) {
		s := newSite(bind(`x`, `  errors: [{match: is not accepted, exit: 41}]`))
		_, err := s.create(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(accepted(), []byte("another"), 0o600)).To(Succeed())
		err = s.delete(ctx)
		Expect(err).To(MatchError(ContainSubstring("is not accepted")))
		Expect(err).NotTo(MatchError(fault.ErrBindingNotFound))
		Expect(states()).To(HaveLen(1))
		Expect(os.Remove(accepted())).To(Succeed())
		Expect(s.delete(ctx)).To(Succeed())
	})

	DescribeTable("that another adapter created", func(
		ctx context.Context, adopt string, outcome OmegaMatcher, left []string,
	) {
		s := newSite(" {}")
		definition := strings.Replace(bind(`x`, "  adopt: "+adopt), "required: true, details: x",
			"default: "+s.entries+", details: x", 1)
		s.install(pak{version: "1.0.0", bind: definition})
		Expect(os.WriteFile(filepath.Join(s.entries, "account"), []byte(`{"content":"by hand"}`), 0o600)).To(Succeed())
		request := s.request(nil)
		request.Parameters, request.Body = nil, object{}
		Expect(s.Delete(ctx, request)).To(outcome)
		Expect(s.files()).To(ConsistOf(left))
		Expect(states()).To(BeEmpty())
	},
		Entry("adopts it if bind.adopt is true", `'${manifest.get("/name") != ""}'`, Succeed(), []string{}),
		Entry("leaves it alone if bind.adopt is false", `'${manifest.get("/name") == ""}'`,
			MatchError(fault.ErrBindingNotFound), []string{"account"}),
	)

	It("does not adopt a binding if the state of its instance is missing", func(ctx context.Context) {
		s := newSite(" {}")
		definition := strings.Replace(bind(`x`, "  adopt: true"), "required: true, details: x",
			"default: "+s.entries+", details: x", 1)
		s.install(pak{version: "1.0.0", bind: definition})
		account := filepath.Join(s.entries, "account")
		Expect(os.WriteFile(account, []byte(`{"content":"of the lost state"}`), 0o600)).To(Succeed())
		request := s.request(nil)
		request.Parameters, request.Body = nil, object{}
		view := *s.view
		view.Record = &record.InstanceRecord{
			Identity:    record.Identity{Deployment: "service-instance_inst-1"},
			Provisioned: record.Provisioned{Template: &record.Template{}},
		}
		request.Instance = &view
		err := s.Delete(ctx, request)
		Expect(err).To(MatchError(ContainSubstring(
			`the state backend has no state of binding "` + s.id + `", and none of its instance "inst-1"`)))
		Expect(err).NotTo(Or(MatchError(fault.ErrBindingNotFound), MatchError(lifecycle.ErrNotStored)))
		Expect(s.files()).To(ConsistOf("account"))
		Expect(states()).To(BeEmpty())

		view.Record.Template, view.Record.Errand = nil, &record.Versions{}
		Expect(s.Delete(ctx, request)).To(Succeed(), "an errand may not have run yet")
		Expect(s.files()).To(BeEmpty())
	})

	It("reports a state without a record", func(ctx context.Context) {
		s := created(ctx, bind("x"))
		file := filepath.Join(shared, "state", "workspaces", "b-"+s.id, "terraform.tfstate")
		text, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		broken := strings.Replace(string(text), `"name": "_binding"`, `"name": "_lost"`, 1)
		Expect(broken).NotTo(Equal(string(text)))
		Expect(os.WriteFile(file, []byte(broken), 0o600)).To(Succeed())
		Expect(s.delete(ctx)).To(MatchError(ContainSubstring("the state contains none")))
		Expect(s.files()).To(HaveLen(2))
		Expect(os.WriteFile(file, text, 0o600)).To(Succeed())
		deleted(ctx, s)
	})
})
