package lifecycle_test

import (
	"context"
	"errors"
	"os"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/templates"
	"service-adapter/internal/engine/workspace"
)

var _ = DescribeTable("the age from which a lock is stale is longer than a command and its killed OpenTofu may take",
	func(space string, budget, instanceLimit, longest time.Duration) {
		age := lifecycle.StaleLock(budget, instanceLimit)(space)
		Expect(age).To(BeNumerically(">=", 2*longest), "the adapter may be killed when its time is almost over")
		Expect(age).To(BeNumerically("<", 3*longest))
	},
	Entry("for a binding", lifecycle.Workspace(lifecycle.Binding, "b1"), 45*time.Second, 2*time.Hour, 45*time.Second),
	Entry("for a binding with a hashed id",
		lifecycle.Workspace(lifecycle.Binding, "b 1"), 45*time.Second, 2*time.Hour, 45*time.Second),
	Entry("for an instance, which an errand may change",
		lifecycle.Workspace(lifecycle.Instance, "i1"), 45*time.Second, 2*time.Hour, 2*time.Hour),
	Entry("for an instance with a hashed id, which an errand may change",
		lifecycle.Workspace(lifecycle.Instance, "i 1"), 45*time.Second, 2*time.Hour, 2*time.Hour),
	Entry("for an instance whose errands have less time than requests",
		lifecycle.Workspace(lifecycle.Instance, "i1"), 45*time.Second, 10*time.Second, 45*time.Second),
)

var _ = Describe("drift", func() {
	It("is not determined for an instance whose change was not finished", func(ctx context.Context) {
		s := newSite()
		s.create(ctx, s.record(""))
		changes, condition, err := s.Drift(ctx, lifecycle.Instance, "i1")
		Expect(err).NotTo(HaveOccurred())
		Expect(condition).To(Equal(lifecycle.Complete))
		Expect(changes).To(BeEmpty())

		s.block()
		next := s.record("")
		next.Inputs["content"] = "other"
		s.change(ctx, next)
		// With this template, a plan of OpenTofu would fail.
		changes, condition, err = s.Drift(ctx, lifecycle.Instance, "i1")
		Expect(err).NotTo(HaveOccurred())
		Expect(condition).To(Equal(lifecycle.Changing))
		Expect(changes).To(BeNil())
	})
})

var _ = Describe("a rollback that cannot destroy the resources", func() {
	It("leaves them and the record to the deletion, and logs the reason", func(ctx context.Context) {
		s := newSite()
		record := s.record("b1")
		s.work(ctx, record, func(space *workspace.Workspace, i opentofu.Installation, prepared *templates.Prepared) {
			encoded, err := record.Encode("1.2.3")
			Expect(err).NotTo(HaveOccurred())
			Expect(space.Reserve(ctx, i, encoded)).To(Succeed())
			s.apply(ctx, space, prepared, record)
			s.block()
			Expect(s.RollBack(ctx, space, prepared, record, errors.New("it failed"))).To(Succeed())
		})
		stored, err := s.Lookup(ctx, lifecycle.Binding, "b1")
		Expect(err).NotTo(HaveOccurred())
		Expect(stored.Resources).To(ContainElement("terraform_data.late"))
		Expect(stored.Record.BindingID).To(Equal("b1"))
		Expect(s.logs.String()).To(And(
			ContainSubstring("rolling back a failed creation; the deletion will try again"),
			ContainSubstring("terraform_data.late (main.tf:16): local-exec provisioner error"),
		))
		s.unblock()
		Expect(s.DestroyStored(ctx, lifecycle.Binding, "b1")).To(Succeed())
	})
})

var _ = Describe("the budget of a creation", func() {
	It("leaves a third and the grace of an interrupted OpenTofu for the rollback", func(ctx context.Context) {
		manager := &lifecycle.Manager{Budget: 45 * time.Second}
		before := time.Now()
		work, all, cancel := manager.Deadlines(ctx)
		defer cancel()
		after := time.Now()
		for limited, limit := range map[context.Context]time.Duration{
			work: 25 * time.Second, all: 45 * time.Second,
		} {
			end, hasEnd := limited.Deadline()
			Expect(hasEnd).To(BeTrue())
			Expect(end).To(And(BeTemporally(">=", before.Add(limit)), BeTemporally("<=", after.Add(limit))))
		}
	})
})

var _ = Describe("a state that an operator stores", func() {
	It("is rejected with an error if it is not the state of that binding", func(ctx context.Context) {
		s := newSite()
		s.create(ctx, s.record("b1"))
		s.create(ctx, s.record("b2"))
		text, err := os.ReadFile(s.file("b-b1"))
		Expect(err).NotTo(HaveOccurred())
		_, err = s.PushState(ctx, lifecycle.Binding, "b2", text, true)
		Expect(err).To(MatchError(ContainSubstring("it is the state of another binding or instance")))
		_, err = s.PushState(ctx, lifecycle.Binding, "b1", []byte("{}"), true)
		Expect(err).To(HaveOccurred())

		backup, err := s.PushState(ctx, lifecycle.Binding, "b1", text, true)
		Expect(err).NotTo(HaveOccurred())
		Expect(backup).To(BeARegularFile())
	})
})
