package acceptance_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"service-adapter/spec/kit"
	"service-adapter/spec/kit/hold"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// theCommand is the victim of specs that kill the executable with which the pak creates and deletes bindings.
const theCommand victim = "the command"

// newCommandBroker returns a broker with a deployed instance of the pak "command". The server of the instance accepts
// the administrator of the manifest.
func newCommandBroker(ctx context.Context) *broker {
	GinkgoHelper()
	b := newBroker(newSite("command"))
	b.site.link(filepath.Join(b.site.pak, "commands", "account"), b.site.bin("account"))
	Expect(os.Mkdir(b.site.control(), 0o700)).To(Succeed())
	b.deploy(ctx, nil)
	Expect(b.Secrets).To(HaveLen(1))
	b.rotate("first-password")
	return b
}

// rotate sets the password of the administrator in the server and in CredHub.
func (b *broker) rotate(password string) {
	GinkgoHelper()
	for reference := range b.Secrets {
		b.Secrets[reference] = password
	}
	Expect(os.WriteFile(filepath.Join(b.site.dir, "server"), []byte(password), 0o600)).To(Succeed())
}

// actions returns the actions for which the command of the pak was run since the previous call.
func (b *broker) actions() []string {
	GinkgoHelper()
	log := filepath.Join(b.site.dir, "server.log")
	text, err := os.ReadFile(log)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.Remove(log)).To(Succeed())
	return strings.Fields(string(text))
}

// killed starts a command of the adapter, kills the victim when the command of the pak reaches a point, and returns the
// answer.
func (b *broker) killed(point string, victim victim, command string, parameters object) answer {
	GinkgoHelper()
	at := hold.Point{Dir: b.site.control(), Name: point}
	at.Hold()
	running := b.start(command, parameters)
	script := at.Reached()
	tofu := b.site.tofu("bind-1")
	if victim == theAdapter || victim == both {
		kill(running.Process.Pid)
	}
	if victim == theTofu || victim == both {
		kill(tofu)
	}
	if victim == theCommand {
		kill(script)
	}
	at.Release()
	return running.Wait()
}

var _ = Describe("a binding that a command creates", func() {
	var b *broker

	BeforeEach(func(ctx context.Context) { b = newCommandBroker(ctx) })

	It("is created, and is deleted with the current password of the administrator", func(ctx context.Context) {
		got := b.bind(ctx, "bind-1", nil)
		Expect(credentials(got)).To(Equal(object{"name": "bind-1"}))
		Expect(b.site.resources()).To(Equal([]string{"bind-1-account", "bind-1-grant"}))
		b.rotate("second-password")
		Expect(b.bind(ctx, "bind-1", nil).Exit).To(Equal(49))
		Expect(b.bind(ctx, "bind-2", nil).Exit).To(Equal(0))
		Expect(b.unbind(ctx, "bind-1").Exit).To(Equal(0))
		Expect(b.site.resources()).To(Equal([]string{"bind-2-account", "bind-2-grant"}))
		Expect(b.unbind(ctx, "bind-2").Exit).To(Equal(0))
		Expect(b.actions()).To(Equal([]string{"create", "create", "delete", "delete"}))
		b.site.expectNothingLeft()
	})

	It("keeps its record while the server rejects the command", func(ctx context.Context) {
		Expect(os.WriteFile(filepath.Join(b.site.dir, "server"), []byte("other"), 0o600)).To(Succeed())
		got := b.bind(ctx, "bind-1", nil)
		Expect(got.Exit).To(Equal(1))
		Expect(got.Stdout).To(BeEmpty())
		Expect(got.Stderr).To(And(ContainSubstring("terraform_data.create"),
			ContainSubstring("the server refuses the administrator"), Not(ContainSubstring("first-password"))))
		Expect(b.actions()).To(Equal([]string{"create", "delete"}))
		Expect(b.unbind(ctx, "bind-1").Exit).To(Equal(1))
		b.rotate("second-password")
		Expect(b.unbind(ctx, "bind-1").Exit).To(Equal(0))
		b.site.expectNothingLeft()
	})

	points := []string{"before-create", "between-create", "after-create"}
	for _, victim := range []victim{theAdapter, theTofu, both, theCommand} {
		for _, point := range points {
			It("can be undone after its creation was killed: "+string(victim)+" "+point,
				kit.SlowIf(point != points[1]), func(ctx context.Context) {
					got := b.killed(point, victim, createBinding, b.bindParameters("bind-1", nil))
					Expect(got.Exit).NotTo(Equal(0), got.Stderr)
					if victim == theCommand {
						b.site.expectNothingLeft() // it was rolled back
						Expect(b.unbind(ctx, "bind-1").Exit).To(Equal(41))
						return
					}
					b.rotate("second-password")
					got = b.unbind(ctx, "bind-1")
					Expect(got.Exit).To(Equal(0), got.Stderr)
					b.site.expectNothingLeft()
				})

			It("can be created again after its creation was killed: "+string(victim)+" "+point,
				kit.SlowIf(point != points[1]), func(ctx context.Context) {
					b.killed(point, victim, createBinding, b.bindParameters("bind-1", nil))
					got := b.bind(ctx, "bind-1", nil)
					if victim == theAdapter { // OpenTofu continued
						Expect(got.Exit).To(Equal(49), got.Stderr)
					} else {
						Expect(got.Exit).To(Equal(0), got.Stderr)
					}
					Expect(b.unbind(ctx, "bind-1").Exit).To(Equal(0))
					b.site.expectNothingLeft()
				})
		}
		for _, point := range []string{"before-delete", "between-delete", "after-delete"} {
			It("can be deleted after its deletion was killed: "+string(victim)+" "+point,
				kit.SlowIf(point != "between-delete"), func(ctx context.Context) {
					Expect(b.bind(ctx, "bind-1", nil).Exit).To(Equal(0))
					got := b.killed(point, victim, deleteBinding, b.unbindParameters("bind-1"))
					Expect(got.Exit).NotTo(Equal(0), got.Stderr)
					next := b.unbind(ctx, "bind-1")
					if victim == theAdapter { // OpenTofu continued and left only the empty workspace
						Expect(next.Exit).To(BeElementOf(0, 41), next.Stderr)
					} else {
						Expect(next.Exit).To(Equal(0), next.Stderr)
					}
					b.site.expectNothingLeft()
				})
		}
	}
})
