package binding_test

import (
	"context"
	"errors"
	"math"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/binding"
	"service-adapter/internal/fault"
)

// userMessage is the text for the user in an error; "" when it is for the operator.
func userMessage(err error) string {
	var user *fault.UserError
	if errors.As(err, &user) {
		return user.Message
	}
	return ""
}

var _ = Describe("creating a binding", func() {
	It("gives the instance's outputs overlaid with the binding's, and records what a deletion needs", func(ctx context.Context) {
		s := newSite(bind(`${manifest.get("/properties/password")}`))
		made, err := s.create(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(*made).To(Equal(binding.Binding{
			Credentials:    object{"port": int64(6379), "host": "10.0.8.5", "overlaid": "by the binding", "status": "made", "live": "old-password"},
			SyslogDrainURL: "syslog://drain", RouteServiceURL: "https://route",
		}))
		Expect(s.files()).To(Equal([]string{"account", "second"}))

		record := s.record("b-" + s.id)
		Expect(record).To(And(
			HaveKeyWithValue("format", 1.0), HaveKeyWithValue("binding_id", s.id), HaveKeyWithValue("instance_id", "inst-1"),
			HaveKeyWithValue("deployment", "service-instance_inst-1"), HaveKeyWithValue("pak", "test"), HaveKeyWithValue("pak_version", "1.0.0"),
			HaveKeyWithValue("service", "service"), HaveKeyWithValue("service_id", "service-id"), HaveKeyWithValue("plan", "small"),
			HaveKeyWithValue("plan_id", "plan-id"), HaveKeyWithValue("tofu_version", "1.12.6"),
			HaveKeyWithValue("providers", []any{object{"fqn": directoryProvider, "version": "1.0.0"}}),
			HaveKeyWithValue("templates", HaveKeyWithValue("template.tf", ContainSubstring(`resource "directory_entry" "account"`))),
			HaveKeyWithValue("request", HaveKeyWithValue("bind_resource", object{"app_guid": "app"})),
			HaveKeyWithValue("inputs", object{"path": s.entries, "fail": "", "name": "entry-plan-id", "live": "old-password"}),
			HaveKeyWithValue("live", []any{object{"name": "live", "type": "string", "expr": `${manifest.get("/properties/password")}`}}),
		))

		By("making it again")
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

	It("leaves nothing when the template fails", func(ctx context.Context) {
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

	DescribeTable("an error of the template means what bind.errors says",
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
		Entry("user, in the pak's words", "away", MatchError(ContainSubstring("account is away")), Equal("Try again later")),
		Entry("nothing", "odd", MatchError(ContainSubstring("account is odd")), BeEmpty()),
	)

	Describe("refuses before anything runs", func() {
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

		It("unknown parameters, for the user", func(ctx context.Context) {
			s := newSite(bind(`x`))
			Expect(userMessage(refused(ctx, s, s.request(object{"fall": ""})))).To(ContainSubstring(`parameter "fall" is not supported`))
		})

		DescribeTable("what bind.requires does not admit",
			func(ctx context.Context, audience string, message OmegaMatcher) {
				s := newSite(bind(`x`, `  requires: [{that: '${request.bind_resource.app_guid != "app"}', message: 'not ${live}', audience: `+audience+`}]`))
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

	DescribeTable("takes ids that are no plain names",
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
		Entry("a path and more", "../b 1/ä\n"),
		Entry("a long one", strings.Repeat("x", 300)),
	)
})
