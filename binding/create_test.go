package binding_test

import (
	"context"
	"errors"
	"math"
	"os"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/binding"
	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/fault"
)

// userMessage returns the message for the user in an error, and "" if the error is only for the operator.
func userMessage(err error) string {
	var user *fault.UserError
	if errors.As(err, &user) {
		return user.Message
	}
	return ""
}

var _ = Describe("creating a binding", func() {
	It("returns the outputs of instance and binding, and records the data for a deletion", func(ctx context.Context) {
		s := newSite(bind(`${manifest.get("/properties/password")}`))
		made, err := s.create(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(*made).To(Equal(binding.Binding{
			Credentials: object{
				"port": int64(6379), "host": "10.0.8.5", "overlaid": "by the binding",
				"status": "made", "live": "old-password",
			},
			SyslogDrainURL: "syslog://drain", RouteServiceURL: "https://route",
		}))
		Expect(s.files()).To(Equal([]string{"account", "second"}))

		record := s.record("b-" + s.id)
		Expect(record).To(And(
			HaveKeyWithValue("format", 1.0), HaveKeyWithValue("binding_id", s.id),
			HaveKeyWithValue("instance_id", "inst-1"), HaveKeyWithValue("deployment", "service-instance_inst-1"),
			HaveKeyWithValue("pak", "test"),
			HaveKeyWithValue("pak_version", "1.0.0"), HaveKeyWithValue("service", "service"),
			HaveKeyWithValue("service_id", "service-id"), HaveKeyWithValue("plan", "small"),
			HaveKeyWithValue("plan_id", "plan-id"), HaveKeyWithValue("tofu_version", "1.12.6"),
			HaveKeyWithValue("providers", []any{object{"fqn": directoryProvider, "version": "1.0.0"}}),
			HaveKeyWithValue("templates",
				HaveKeyWithValue("template.tf", ContainSubstring(`resource "directory_entry" "account"`))),
			HaveKeyWithValue("request", HaveKeyWithValue("bind_resource", object{"app_guid": "app"})),
			HaveKeyWithValue("inputs",
				object{"path": s.entries, "fail": "", "name": "entry-plan-id", "live": "old-password"}),
			HaveKeyWithValue("live",
				[]any{object{"name": "live", "type": "string", "expr": `${manifest.get("/properties/password")}`}}),
		))

		By("creating it again")
		_, err = s.create(ctx, nil)
		Expect(err).To(MatchError(fault.ErrBindingExists))
		Expect(s.files()).To(HaveLen(2))

		By("deleting it")
		Expect(s.delete(ctx)).To(Succeed())
		Expect(s.files()).To(BeEmpty())
		Expect(states()).To(BeEmpty())
		Expect(s.delete(ctx)).To(MatchError(fault.ErrBindingNotFound))
		Expect(states()).To(BeEmpty(), "a look-up leaves nothing")
	})

	It("leaves no resource if the template fails", func(ctx context.Context) {
		s := newSite(bind(`x`))
		_, err := s.create(ctx, object{"fail": "account is locked"})
		Expect(err).To(MatchError(And(ContainSubstring("creating binding"), ContainSubstring("account is locked"))))
		Expect(userMessage(err)).To(BeEmpty())
		Expect(s.files()).To(BeEmpty())
		Expect(states()).To(BeEmpty())
		_, err = s.create(ctx, nil)
		Expect(err).NotTo(HaveOccurred(), "the id can be used")
		Expect(s.delete(ctx)).To(Succeed())
	})

	DescribeTable("explains an error of the template as bind.errors says",
		func(ctx context.Context, text string, matcher, message OmegaMatcher) {
			s := newSite(strings.Replace(bind(`x`, `  errors:
  - {match: taken, exit: 49}
  - {match: gone, exit: 41}
  - {match: locked, exit: user}
  - {match: away, exit: user, message: Try again later}`), `fail = var.fail`, `fail = "account is `+text+`"`, 1))
			_, err := s.create(ctx, nil)
			Expect(err).To(matcher)
			Expect(userMessage(err)).To(message)
			Expect(states()).To(BeEmpty())
		},
		Entry("49", "taken", MatchError(fault.ErrBindingExists), BeEmpty()),
		Entry("41", "gone", MatchError(fault.ErrBindingNotFound), BeEmpty()),
		Entry("user", "locked", HaveOccurred(), ContainSubstring("account is locked")),
		Entry("user, in the pak's words", "away", MatchError(ContainSubstring("account is away")),
			Equal("Try again later")),
		Entry("nothing", "odd", MatchError(ContainSubstring("account is odd")), BeEmpty()),
	)

	Describe("rejects before OpenTofu runs", func() {
		refused := func(ctx context.Context, s *site, request binding.Request) error {
			GinkgoHelper()
			_, err := s.Create(ctx, request)
			Expect(err).To(HaveOccurred())
			Expect(s.files()).To(BeEmpty())
			Expect(states()).To(BeEmpty())
			return err
		}

		It("a request without an app where one is required", func(ctx context.Context) {
			s := newSite(bind(`x`, "  requires_app_guid: true"))
			request := s.request(nil)
			request.Body["bind_resource"] = object{}
			Expect(refused(ctx, s, request)).To(MatchError(fault.ErrAppGUIDMissing))
		})

		It("unknown parameters, with a message for the user", func(ctx context.Context) {
			s := newSite(bind(`x`))
			err := refused(ctx, s, s.request(object{"fall": ""}))
			Expect(userMessage(err)).To(ContainSubstring(`parameter "fall" is not supported`))
		})

		DescribeTable("a request that violates bind.requires",
			func(ctx context.Context, audience string, message OmegaMatcher) {
				s := newSite(bind(`x`, `  requires: [{that: '${request.bind_resource.app_guid != "app"}', `+
					`message: 'not ${live}', audience: `+audience+`}]`))
				err := refused(ctx, s, s.request(nil))
				Expect(err).To(MatchError(ContainSubstring("not x")))
				Expect(userMessage(err)).To(message)
			},
			Entry(nil, "user", Equal("not x")),
			Entry(nil, "operator", BeEmpty()),
		)

		It("a secret that the broker did not send", func(ctx context.Context) {
			s := newSite(bind(`${manifest.get("/properties/password")}`))
			s.view.Secrets = nil
			err := refused(ctx, s, s.request(nil))
			Expect(err).To(MatchError(ContainSubstring(`computing "live"`)))
			Expect(userMessage(err)).To(HavePrefix("the broker sent no value for (("))
		})

		It("a request that cannot be recorded", func(ctx context.Context) {
			s := newSite(bind(`x`))
			request := s.request(nil)
			request.Body["context"] = object{"number": math.Inf(1)}
			Expect(refused(ctx, s, request)).To(MatchError(ContainSubstring("encoding the record")))
		})

		It("an empty id", func(ctx context.Context) {
			s := newSite(bind(`x`))
			s.id = ""
			Expect(refused(ctx, s, s.request(nil))).To(MatchError("the request has no binding_id"))
			Expect(s.delete(ctx)).To(MatchError("the request has no binding_id"))
		})
	})

	It("answers a request for a backup agent without running the template", func(ctx context.Context) {
		s := newSite(bind(`${manifest.get("/nothing")}`))
		request := s.request(nil)
		request.Body["bind_resource"] = object{"backup_agent": true}
		made, err := s.Create(ctx, request)
		Expect(err).NotTo(HaveOccurred())
		Expect(*made).To(Equal(binding.Binding{BackupAgentURL: "https://backup.example.com"}))
		Expect(states()).To(BeEmpty())
	})

	DescribeTable("accepts ids that are not file names",
		func(ctx context.Context, id string) {
			s := newSite(bind(`x`))
			s.id = id
			_, err := s.create(ctx, nil)
			Expect(err).NotTo(HaveOccurred())
			Expect(states()).To(ConsistOf(MatchRegexp(`^bh-[0-9a-f]{64}$`)))
			Expect(s.record(states()[0])).To(HaveKeyWithValue("binding_id", id))
			Expect(s.delete(ctx)).To(Succeed())
			Expect(states()).To(BeEmpty())

			_, err = s.create(ctx, nil)
			Expect(err).NotTo(HaveOccurred())
			Expect(s.DeleteStored(ctx, states()[0])).To(Succeed(), "an operator may know the workspace alone")
			Expect(states()).To(BeEmpty())
		},
		Entry("a path with special characters", "../b 1/ä\n"),
		Entry("a long one", strings.Repeat("x", 300)),
	)
})

var _ = Describe("a binding whose template cannot be evaluated", func() {
	// bindChosen returns a bind section whose template OpenTofu can evaluate only if the live input is "reader".
	bindChosen := func(live string) string {
		return strings.Replace(bind(live), "content = var.live",
			`content = { reader = "r", writer = "w" }[var.live]`, 1)
	}

	It("leaves no workspace, because OpenTofu ended before it created a resource", func(ctx context.Context) {
		s := newSite(bindChosen("admin"))
		_, err := s.create(ctx, nil)
		Expect(err).To(MatchError(ContainSubstring("Invalid index")))
		Expect(states()).To(BeEmpty())
		Expect(s.delete(ctx)).To(MatchError(fault.ErrBindingNotFound))
	})

	It("is deleted after a kill, although a resource may have been created", func(ctx context.Context) {
		s := newSite(bindChosen("admin"))
		s.reserve(ctx, "admin")
		Expect(states()).To(HaveLen(1))
		Expect(s.delete(ctx)).To(Succeed(), s.logs.String())
		Expect(states()).To(BeEmpty())
	})

	It("stays after a kill while the provider cannot log in, because the account may exist", func(ctx context.Context) {
		s := newSite(bind("x"))
		s.reserve(ctx, "x")
		Expect(os.WriteFile(accepted(), []byte("another"), 0o600)).To(Succeed())
		err := s.delete(ctx)
		Expect(err).To(MatchError(ContainSubstring("password is not accepted")))
		Expect(err).NotTo(MatchError(fault.ErrBindingNotFound))
		Expect(states()).To(HaveLen(1))
		Expect(os.Remove(accepted())).To(Succeed())
		Expect(s.delete(ctx)).To(Succeed())
		Expect(states()).To(BeEmpty())
	})

	It("is deleted with its resources", func(ctx context.Context) {
		s := newSite(bindChosen(`${manifest.get("/properties/password")}`))
		s.view = s.deployed("reader")
		_, err := s.create(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		s.view = s.deployed("admin")
		Expect(s.delete(ctx)).To(Succeed(), s.logs.String())
		Expect(s.files()).To(BeEmpty())
		Expect(states()).To(BeEmpty())
	})
})

// reserve reserves the workspace of a binding, like an adapter that was killed right afterwards.
func (s *site) reserve(ctx context.Context, live string) {
	GinkgoHelper()
	action := s.Paks[0].Services[0].Bind
	record := &lifecycle.StateRecord{
		Subject: lifecycle.Subject{BindingID: s.id},
		Source:  lifecycle.Source{Templates: action.Templates, Declared: action.InputNames()},
		ResolvedInputs: lifecycle.ResolvedInputs{
			Inputs: object{"path": s.entries, "fail": "", "name": "entry", "live": live},
		},
	}
	found, err := installation(ctx, s.Paks[0], "")
	Expect(err).NotTo(HaveOccurred())
	record.SetInstallation(s.Paks[0], found)
	encoded, err := record.Encode("1.2.3")
	Expect(err).NotTo(HaveOccurred())
	space, err := s.Engine.Open(ctx, "b-"+s.id)
	Expect(err).NotTo(HaveOccurred())
	Expect(space.Reserve(ctx, found, encoded)).To(Succeed())
	Expect(space.Close()).To(Succeed())
}
