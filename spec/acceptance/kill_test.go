package acceptance_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"service-adapter/spec/kit"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// A victim names the processes that are killed at a point.
type victim string

// The victims. At a point of OpenTofu, the victim OpenTofu is the paused process. At a point of the provider, it is the
// OpenTofu that started the provider.
const (
	theAdapter victim = "the adapter"
	theTofu    victim = "OpenTofu"
	both       victim = "the adapter and OpenTofu"
)

// skipped is the exit code of a second creation that is not run, because another case covers it.
const skipped = -2

// A killing is a create-binding that is killed at a point.
type killing struct {
	point  string
	victim victim
	// create is the exit code of a second create-binding with the same id, or skipped. delete is the exit code of a
	// delete-binding immediately after the kill.
	create, delete int
}

// play starts a creation, kills the victim at the point, and resumes the remaining processes.
func (k killing) play(b *broker) {
	GinkgoHelper()
	at := b.site.point(k.point)
	at.Hold()
	creation := b.start(createBinding, b.bindParameters("bind-1", nil))
	waiting := at.Reached()
	tofu := waiting
	if at.Provider {
		tofu = b.site.tofu("bind-1")
	}
	if k.victim != theTofu {
		kill(creation.Process.Pid)
	}
	if k.victim != theAdapter {
		kill(tofu)
	}
	at.Release()
	got := creation.Wait()
	Expect(got.Stdout).To(BeEmpty())
	if k.victim == theTofu {
		Expect(got.Exit).To(Equal(1), got.Stderr)
	} else {
		Expect(got.Exit).To(Equal(-1), got.Stderr)
	}
}

var _ = Describe("a creation that is killed", Ordered, ContinueOnFailure, func() {
	// One broker deletes the binding after the kill, the other creates it again. They have separate sites and work at
	// the same time.
	var deletes, creates *broker

	BeforeAll(func(ctx context.Context) {
		for _, b := range []**broker{&deletes, &creates} {
			*b = newBroker(newSite("entries"))
			(*b).site.controlled()
			if b == &deletes {
				(*b).site.encrypted()
			}
			(*b).deploy(ctx, nil)
			// This bind creates the prepared directories.
			Expect((*b).bind(ctx, "bind-0", nil).Exit).To(Equal(0))
			Expect((*b).unbind(ctx, "bind-0").Exit).To(Equal(0))
		}
	})

	AfterEach(func() {
		if CurrentSpecReport().Failed() {
			deletes.site.clear()
			creates.site.clear()
		}
	})

	for _, k := range []killing{
		{beforeApply, theAdapter, 49, 0},
		{beforeApply, theTofu, 0, 0},
		{beforeApply, both, 0, 0},
		{beforeCreate, theAdapter, 49, 0},
		{beforeCreate, theTofu, 0, 0},
		{beforeCreate, both, skipped, 0},
		{afterCreate, theAdapter, 49, 0},
		{afterCreate, theTofu, 0, 0},
		{afterCreate, both, skipped, 0},
		{afterApply, theAdapter, 49, 0},
		{afterApply, theTofu, 49, 0},
		{afterApply, both, 49, 0},
	} {
		name := "is undone by delete-binding and hinders no other creation: " + string(k.victim) + " " + k.point
		It(name, kit.SlowIf(k.point != afterCreate), func(ctx context.Context) {
			together(func() {
				k.play(deletes)
				got := deletes.unbind(ctx, "bind-1")
				Expect(got.Exit).To(Equal(k.delete), got.Stderr)
				deletes.site.expectNothingLeft()
			}, func() {
				if k.create == skipped {
					return
				}
				k.play(creates)
				got := creates.bind(ctx, "bind-1", nil)
				Expect(got.Exit).To(Equal(k.create), got.Stderr)
				got = creates.unbind(ctx, "bind-1")
				Expect(got.Exit).To(Equal(0), got.Stderr)
				creates.site.expectNothingLeft()
			})
		})
	}
})

var _ = Describe("a deletion that is killed", func() {
	DescribeTable("is finished by the next deletion after a kill of",
		func(ctx context.Context, victim victim, code int) {
			b := newBroker(newSite("entries"))
			b.deploy(ctx, nil)
			Expect(b.bind(ctx, "bind-1", nil).Exit).To(Equal(0))
			at := b.site.point(beforeDestroy)
			at.Hold()
			deletion := b.start(deleteBinding, b.unbindParameters("bind-1"))
			at.Reached()
			tofu := b.site.tofu("bind-1")
			if victim != theTofu {
				kill(deletion.Process.Pid)
			}
			if victim != theAdapter {
				kill(tofu)
			}
			at.Release()
			Expect(deletion.Wait().Exit).To(Equal(code))
			Expect(b.unbind(ctx, "bind-1").Exit).To(Equal(0))
			b.site.expectNothingLeft()
		},
		Entry("the adapter", theAdapter, -1), Entry("OpenTofu", theTofu, 1), Entry("both", both, -1),
	)
})

var _ = Describe("the first creation on a machine", func() {
	DescribeTable("can be killed while it prepares the template:",
		func(ctx context.Context, name string, victim victim) {
			b := newBroker(newSite("entries"))
			b.site.controlled()
			b.deploy(ctx, nil)
			killing{point: name, victim: victim}.play(b)
			Expect(b.bind(ctx, "bind-1", nil).Exit).To(Equal(0))
			Expect(b.unbind(ctx, "bind-1").Exit).To(Equal(0))
			b.site.expectNothingLeft()
			Expect(filepath.Glob(filepath.Join(b.site.cache(), "prepared", ".new-*"))).To(BeEmpty())
		},
		Entry("the adapter", "before-apply-init", theAdapter),
		Entry("OpenTofu", kit.Slow(), "before-apply-init", theTofu),
		Entry("both", kit.Slow(), "before-apply-init", both),
	)
})

var _ = Describe("a creation that cannot be finished", func() {
	var b *broker

	BeforeEach(func(ctx context.Context) {
		b = newBroker(newSite("entries"))
		b.deploy(ctx, nil)
	})

	It("saves its state when the broker is stopped, and is undone by delete-binding", func(ctx context.Context) {
		at := b.site.point(afterCreate)
		at.Hold()
		creation := b.start(createBinding, b.bindParameters("bind-1", nil))
		at.Reached()
		Expect(creation.Process.Signal(syscall.SIGTERM)).To(Succeed())
		Eventually(func() (string, error) {
			text, err := os.ReadFile(filepath.Join(b.site.cache(), "runs", "b-bind-1", "apply.stdout"))
			return string(text), err
		}).Should(ContainSubstring("Interrupt received"))
		at.Release()
		got := creation.Wait()
		Expect(got.Exit).To(Equal(1), got.Stderr)
		Expect(got.Stdout).To(BeEmpty())
		Expect(b.site.resources()).To(Equal([]string{"bind-1-account"}))
		Expect(list(filepath.Join(b.site.cache(), "runs"))).To(BeEmpty())
		Expect(b.unbind(ctx, "bind-1").Exit).To(Equal(0))
		b.site.expectNothingLeft()
	})

	It("returns its credentials if the broker is stopped after all resources were created", func(ctx context.Context) {
		out, in, err := os.Pipe()
		Expect(err).NotTo(HaveOccurred())
		defer out.Close()
		// A full pipe prevents the adapter from writing its answer.
		filling := make([]byte, 1<<20)
		Expect(in.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))).To(Succeed())
		full, err := in.Write(filling)
		Expect(err).To(MatchError(os.ErrDeadlineExceeded))
		creation := b.startInto(in, createBinding, b.bindParameters("bind-1", nil))
		Expect(in.Close()).To(Succeed())
		resources := func() []string {
			return append(b.site.resources(), list(filepath.Join(b.site.cache(), "runs"))...)
		}
		Eventually(resources).Should(Equal([]string{"bind-1-account", "bind-1-grant"}),
			"made, and the workspace is closed")
		Expect(creation.Process.Signal(syscall.SIGTERM)).To(Succeed())
		answerText, err := io.ReadAll(out)
		Expect(err).NotTo(HaveOccurred())
		Expect(creation.Wait().Exit).To(Equal(0))
		Expect(string(answerText[full:])).To(ContainSubstring("credentials"))
		Expect(b.unbind(ctx, "bind-1").Exit).To(Equal(0))
		b.site.expectNothingLeft()
	})

	It("is rolled back immediately after it fails", func(ctx context.Context) {
		got := b.bind(ctx, "bind-1", object{"failure": diskFull})
		expectBroken(got, "Entry refused: the disk is full")
		b.site.expectNothingLeft()
		Expect(b.unbind(ctx, "bind-1").Exit).To(Equal(41))
	})

	It("is undone by delete-binding if its rollback fails", func(ctx context.Context) {
		at := b.site.point(beforeDestroy)
		at.Hold()
		creation := b.start(createBinding, b.bindParameters("bind-1", object{"failure": diskFull}))
		at.Reached()
		// OpenTofu cannot remove the entry as a file after it was replaced by a directory.
		entry := filepath.Join(b.site.entries, "bind-1-account")
		Expect(os.Rename(entry, entry+".kept")).To(Succeed())
		Expect(os.MkdirAll(filepath.Join(entry, "full"), 0o700)).To(Succeed())
		at.Release()
		got := creation.Wait()
		Expect(got.Exit).To(Equal(1))
		Expect(got.Stdout).To(BeEmpty())
		Expect(got.Stderr).To(And(ContainSubstring("the disk is full"),
			ContainSubstring("the deletion will try again")))
		Expect(os.RemoveAll(entry)).To(Succeed())
		Expect(os.Rename(entry+".kept", entry)).To(Succeed())
		Expect(b.unbind(ctx, "bind-1").Exit).To(Equal(0))
		b.site.expectNothingLeft()
	})

	It("ends when its time budget is spent, and is undone by delete-binding", kit.Slow(), func(ctx context.Context) {
		at := b.site.point(beforeCreate)
		at.Hold()
		b.site.set(map[string]any{"budget": "10s"})
		got := b.bind(ctx, "bind-1", nil) // the provider is paused for the whole budget
		Expect(got.Exit).To(Equal(1), got.Stderr)
		Expect(got.Stdout).To(HavePrefix("The service did not finish within the 10s that it has for a request."))
		Expect(got.Stderr).To(ContainSubstring("the budget of 10s, of which 5.6s are for the work and the rest for " +
			"its rollback, is used up"))
		b.site.expectNoProcesses()
		at.Release()
		b.site.set(map[string]any{"budget": "60s"})
		Expect(b.unbind(ctx, "bind-1").Exit).To(Equal(0))
		b.site.expectNothingLeft()
	})
})
