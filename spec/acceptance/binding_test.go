package acceptance_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("the options of a bind section", func() {
	var b *broker

	BeforeEach(func(ctx context.Context) {
		b = newBroker(newSite("entries"))
		b.deploy(ctx, nil)
	})

	DescribeTable("map a failure of the template to an outcome for the broker:",
		func(ctx context.Context, failure, code int, message string) {
			got := b.bind(ctx, "bind-1", object{"failure": failure})
			Expect(got.Exit).To(Equal(code), got.Stderr)
			Expect(got.Stdout).To(Equal(message))
			b.site.expectNothingLeft()
		},
		Entry("the account exists", accountTaken, 49, ""),
		Entry("the account does not exist", accountGone, 41, ""),
		Entry("a rule has a message for the user", accountLocked, 1, "Entry refused: the account is locked"),
		Entry("no rule matches the failure", diskFull, 1, ""),
	)

	It("reject a request whose requires is false, with its message for the user", func(ctx context.Context) {
		expectRefused(b.bind(ctx, "bind-1", object{"content": "forbidden"}),
			`parameter "content" must not be forbidden`)
		expectBroken(b.bind(ctx, "bind-1", object{"content": "misconfigured"}), "the operator has to mend this")
		b.site.expectNothingLeft()
	})

	It("return the URL of the instance's backup agent without a template", func(ctx context.Context) {
		parameters := b.bindParameters("bind-1", nil)
		parameters["request_parameters"].(object)["bind_resource"] = object{"backup_agent": true}
		got := b.call(ctx, createBinding, parameters)
		Expect(got.Exit).To(Equal(0), got.Stderr)
		Expect(decode(got.Stdout)).To(Equal(object{"backup_agent_url": "https://backup.example.com/agent"}))
		b.site.expectNothingLeft()
		Expect(b.unbind(ctx, "bind-1").Exit).To(Equal(41))
	})

	It("turn outputs into fields of the binding, and let outputs replace credentials of the instance",
		func(ctx context.Context) {
			got := b.bind(ctx, "bind-1",
				object{"drain": "syslog://drain.example.com", "route": "https://route.example.com", "content": "mine"})
			Expect(got.Exit).To(Equal(0), got.Stderr)
			binding := decode(got.Stdout)
			Expect(binding).To(And(
				HaveLen(3),
				HaveKeyWithValue("syslog_drain_url", "syslog://drain.example.com"),
				HaveKeyWithValue("route_service_url", "https://route.example.com"),
			))
			Expect(binding["credentials"]).To(And(
				HaveLen(4), HaveKey("secret"), HaveKeyWithValue("status", "ready"),
				HaveKeyWithValue("echo", HaveKeyWithValue("content", "mine")),
				HaveKeyWithValue("admin_password",
					b.Secrets["((/odb/"+entriesService+"/service-instance_inst-1/admin_password))"]),
			))
		})
})

// bindSection replaces the bind section of the pak "entries" with a text.
func (s *site) bindSection(text string) {
	GinkgoHelper()
	definition, err := os.ReadFile(filepath.Join(s.pak, "entries.yml"))
	Expect(err).NotTo(HaveOccurred())
	before, _, found := strings.Cut(string(definition), "\nbind:\n")
	Expect(found).To(BeTrue())
	s.write("entries.yml", before+"\n"+text)
}

var _ = Describe("a bind section", func() {
	DescribeTable("without resources returns the instance's outputs:", func(ctx context.Context, section string) {
		s := newSite("entries")
		s.write("empty.tf", "")
		s.bindSection(section)
		delete(s.config, "services")
		s.save()
		b := newBroker(s)
		b.deploy(ctx, nil)
		Expect(credentials(b.bind(ctx, "bind-1", nil))).To(And(HaveLen(2), HaveKey("admin_password"),
			HaveKeyWithValue("status", "of the instance")))
		Expect(b.bind(ctx, "bind-1", nil).Exit).To(Equal(49))
		Expect(b.unbind(ctx, "bind-1").Exit).To(Equal(0))
		Expect(b.unbind(ctx, "bind-1").Exit).To(Equal(41))
		s.expectNothingLeft()
	},
		Entry("an empty template", "bind:\n  template_refs: {main: empty.tf}\n"),
		Entry("no template", "bind:\n  user_inputs: []\n"),
	)

	It("can be omitted, which makes the service not bindable", func(ctx context.Context) {
		s := newSite("entries")
		s.bindSection("")
		delete(s.config, "services")
		s.save()
		b := newBroker(s)
		b.deploy(ctx, nil)
		for _, outcome := range []answer{b.bind(ctx, "bind-1", nil), b.unbind(ctx, "bind-1")} {
			Expect(outcome.Exit).To(Equal(10), outcome.Stderr)
			Expect(outcome.Stdout).To(BeEmpty())
			Expect(outcome.Stderr).To(ContainSubstring(`service \"entries\" has no bind section`))
		}
		s.expectNothingLeft()
	})
})
