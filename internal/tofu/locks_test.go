package tofu_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/statestore"
	"service-adapter/internal/tofu"
	"service-adapter/spec/kit"
)

var _ = Describe("the lock of a state", func() {
	var (
		s        site
		engine   *tofu.Engine
		prepared *tofu.Prepared
	)

	// at gives the spec a store of a kind.
	at := func(ctx context.Context, kind string) {
		GinkgoHelper()
		s = newSite()
		s.store = newStore(ctx, kind)
		engine = s.engine()
		prepared = prepare(ctx, engine, oneEntry)
	}

	// held starts an apply that holds the lock until the point is released.
	held := func(ctx context.Context, workspace *tofu.Workspace) (provider int, applied chan error) {
		GinkgoHelper()
		Expect(workspace.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
		s.hold("after-create")
		applied = make(chan error)
		go func() { applied <- workspace.Apply(ctx, prepared, s.vars()) }()
		return s.at("after-create"), applied
	}

	// left makes a run leave its lock behind.
	left := func(ctx context.Context, workspace *tofu.Workspace) {
		GinkgoHelper()
		_, applied := held(ctx, workspace)
		kill(s.tofu("b-1"))
		Eventually(applied).Should(Receive(HaveOccurred()))
		s.release("after-create")
		Expect(s.store.object(lockObject("b-1"))).To(BeARegularFile())
	}

	It("that another machine's run in s3 holds is an error that names it, and is waited for", kit.Slow(), func(ctx context.Context) {
		at(ctx, "s3")
		workspace := open(ctx, engine, "b-1")
		DeferCleanup(workspace.Close)
		began := time.Now()
		_, applied := held(ctx, workspace)
		other := open(ctx, s.machine(), "b-1")
		DeferCleanup(other.Close)
		hurry, cancel := context.WithTimeout(ctx, 6*time.Second)
		defer cancel()
		err := other.Destroy(hurry, prepared, s.vars())
		var lock *tofu.LockError
		Expect(errors.As(err, &lock)).To(BeTrue(), "%v", err)
		Expect(lock.Workspace).To(Equal("b-1"))
		Expect(lock.ID).To(HaveLen(36))
		Expect(lock.Who).To(ContainSubstring("@"))
		Expect(lock.Operation).To(Equal("OperationTypeApply"))
		Expect(lock.Created).To(And(BeTemporally(">", began), BeTemporally("<", time.Now())))
		Expect(err).To(MatchError(And(ContainSubstring(`the state of workspace "b-1" is locked by `+lock.Who+" since "),
			ContainSubstring("service-adapter bindings unlock 1`"))))
		Expect(other.Reserve(ctx, installation(), []byte("other"))).To(MatchError(tofu.ErrExists))

		destroyed := make(chan error)
		go func() { destroyed <- other.Destroy(ctx, prepared, s.vars()) }()
		s.release("after-create")
		Eventually(applied).Should(Receive(BeNil()))
		Eventually(destroyed).Should(Receive(BeNil()))
	})

	It("that another machine's run in pg holds is an error without a name, and cannot be released", func(ctx context.Context) {
		at(ctx, "pg")
		workspace := open(ctx, engine, "b-1")
		DeferCleanup(workspace.Close)
		_, applied := held(ctx, workspace)
		other := open(ctx, s.machine(), "b-1")
		DeferCleanup(other.Close)
		hurry, cancel := context.WithTimeout(ctx, 6*time.Second)
		defer cancel()
		err := other.Destroy(hurry, prepared, s.vars())
		Expect(err).To(MatchError(ContainSubstring(`the state of workspace "b-1" is locked by another run`)))
		var lock *tofu.LockError
		Expect(errors.As(err, &lock)).To(BeTrue())
		Expect(lock.Who).To(BeEmpty())
		Expect(other.Unlock(ctx, installation(), "")).To(MatchError(ContainSubstring("end with the run that holds them")))
		s.release("after-create")
		Eventually(applied).Should(Receive(BeNil()))
		Expect(other.Unlock(ctx, installation(), "")).To(Succeed())
	})

	It("that a killed run left in pg is gone with it", func(ctx context.Context) {
		at(ctx, "pg")
		workspace := open(ctx, engine, "b-1")
		DeferCleanup(workspace.Close)
		_, applied := held(ctx, workspace)
		kill(s.tofu("b-1"))
		Eventually(applied).Should(Receive(HaveOccurred()))
		s.release("after-create")
		Expect(workspace.Apply(ctx, prepared, s.vars())).To(Succeed())
	})

	It("that our own killed run left in s3 is released at once", func(ctx context.Context) {
		at(ctx, "s3")
		workspace := open(ctx, engine, "b-1")
		left(ctx, workspace)
		Expect(workspace.Apply(ctx, prepared, s.vars())).To(Succeed())
		Expect(workspace.Destroy(ctx, prepared, s.vars())).To(Succeed())
		Expect(workspace.Remove(ctx, installation())).To(Succeed())
		Expect(workspace.Close()).To(Succeed())
		Expect(s.store.left()).To(BeEmpty())
		Expect(s.runs()).To(BeEmpty())
	})

	It("that our own killed run left in s3 is released by the next holder of the lease", func(ctx context.Context) {
		at(ctx, "s3")
		workspace := open(ctx, engine, "b-1")
		left(ctx, workspace)
		Expect(workspace.Close()).To(Succeed())
		workspace = open(ctx, engine, "b-1")
		Expect(workspace.Destroy(ctx, prepared, s.vars())).To(Succeed())
		Expect(workspace.Close()).To(Succeed())
		Expect(s.runs()).To(BeEmpty())
	})

	It("that was left in s3 when the adapter and its run were killed is released at once", func(ctx context.Context) {
		at(ctx, "s3")
		s.hold("after-create")
		adapter := s.startAdapter()
		s.at("after-create")
		run := s.tofu("b-1")
		kill(adapter.Process.Pid)
		Expect(adapter.Wait()).NotTo(Succeed())
		kill(run)
		Eventually(gone(run)).Should(BeTrue())
		s.release("after-create")
		workspace := open(ctx, engine, "b-1")
		DeferCleanup(workspace.Close)
		Expect(s.store.object(lockObject("b-1"))).To(BeARegularFile())
		_, err := workspace.State(ctx, installation())
		Expect(err).NotTo(HaveOccurred())
		Expect(workspace.Apply(ctx, prepared, s.vars())).To(Succeed())
		Expect(s.store.object(lockObject("b-1"))).NotTo(BeAnExistingFile())
	})

	It("that a run left in s3 when it died creating the workspace is released as well", func(ctx context.Context) {
		at(ctx, "s3")
		workspace := open(ctx, engine, "b-1")
		DeferCleanup(workspace.Close)
		left(ctx, workspace)
		Expect(os.Remove(s.store.object("env:/b-1/state"))).To(Succeed())
		Expect(workspace.State(ctx, installation())).To(BeNil())
		Expect(s.store.left()).To(BeEmpty())
	})

	DescribeTable("that another machine left in s3",
		func(ctx context.Context, limit, age time.Duration, released bool) {
			at(ctx, "s3")
			workspace := open(ctx, engine, "b-1")
			left(ctx, workspace)
			_, err := workspace.State(ctx, installation())
			Expect(err).NotTo(HaveOccurred())
			Expect(workspace.Close()).To(Succeed())
			s.store.setCreated("b-1", time.Now().Add(-age))
			options := s.options()
			options.CacheDir = filepath.Join(GinkgoT().TempDir(), "other")
			options.StaleLock = func(string) time.Duration { return limit }
			elsewhere, err := tofu.New(options)
			Expect(err).NotTo(HaveOccurred())
			workspace = open(ctx, elsewhere, "b-1")
			DeferCleanup(workspace.Close)
			hurry, cancel := context.WithTimeout(ctx, 6*time.Second)
			defer cancel()
			if released {
				Expect(workspace.Destroy(ctx, prepared, s.vars())).To(Succeed())
				return
			}
			var lock *tofu.LockError
			Expect(errors.As(workspace.Destroy(hurry, prepared, s.vars()), &lock)).To(BeTrue())
			Expect(workspace.Unlock(ctx, installation(), "00000000-0000-0000-0000-000000000000")).NotTo(Succeed())
			Expect(s.store.object(lockObject("b-1"))).To(BeARegularFile())
			Expect(workspace.Unlock(ctx, installation(), lock.ID)).To(Succeed())
			Expect(workspace.Destroy(ctx, prepared, s.vars())).To(Succeed())
		},
		Entry("is released when it is old", time.Hour, 2*time.Hour, true),
		Entry("stays while it is young", kit.Slow(), time.Hour, time.Minute, false),
		Entry("stays while it may be that of a host with a greater budget", kit.Slow(), time.Minute, 5*time.Minute, false),
		Entry("stays when its time is in the future", kit.Slow(), time.Hour, -2*time.Hour, false),
		Entry("stays for ever without a limit", kit.Slow(), time.Duration(0), 1000*time.Hour, false),
	)

	It("is released by an operator, whatever it is", func(ctx context.Context) {
		at(ctx, "s3")
		workspace := open(ctx, engine, "b-1")
		left(ctx, workspace)
		Expect(workspace.Close()).To(Succeed())
		other := open(ctx, s.machine(), "b-1")
		DeferCleanup(other.Close)
		Expect(other.Unlock(ctx, installation(), "")).To(Succeed())
		Expect(s.store.object(lockObject("b-1"))).NotTo(BeAnExistingFile())
		Expect(other.Unlock(ctx, installation(), "")).To(Succeed())
		Expect(other.Destroy(ctx, prepared, s.vars())).To(Succeed())
		Expect(other.Remove(ctx, installation())).To(Succeed())
		Expect(other.Unlock(ctx, installation(), "")).To(Succeed())
		Expect(s.store.left()).To(BeEmpty())
	})

	It("is not in the way when several machines use a new database for the first time", func(ctx context.Context) {
		var group sync.WaitGroup
		s = newSite()
		s.store = newStore(ctx, "pg")
		for range 4 {
			machine := s.machine()
			group.Go(func() {
				defer GinkgoRecover()
				_, err := machine.Workspaces(ctx, installation())
				Expect(err).NotTo(HaveOccurred())
			})
		}
		group.Wait()
	})
})

var _ = DescribeTable("the error of a lock says how to release it",
	func(workspace, command string) {
		err := &tofu.LockError{Workspace: workspace, HeldError: statestore.HeldError{ID: "1234", Who: "vcap@host"}}
		Expect(err).To(MatchError(HaveSuffix("release the lock with `service-adapter " + command + "`")))
	},
	Entry(nil, "b-id-1", "bindings unlock id-1"), Entry(nil, "i-id-1", "instance unlock id-1"),
	Entry(nil, "bh-0123", "bindings unlock bh-0123"), Entry(nil, "ih-0123", "instance unlock ih-0123"),
)

var _ = Describe("a workspace that another run reserved again", func() {
	It("is not applied", func(ctx context.Context) {
		s := newSite()
		engine := s.engine()
		prepared := prepare(ctx, engine, oneEntry)
		ours := open(ctx, engine, "b-1")
		DeferCleanup(ours.Close)
		Expect(ours.Reserve(ctx, installation(), []byte("ours"))).To(Succeed())
		// As pg can lose a reservation whose empty workspace two machines create at the same moment.
		file := filepath.Join(s.state, "workspaces", "b-1", "terraform.tfstate")
		dropFromState(file, "_binding")
		theirs := open(ctx, s.machine(), "b-1")
		DeferCleanup(theirs.Close)
		Expect(theirs.Reserve(ctx, installation(), []byte("theirs"))).To(Succeed())

		Expect(ours.Apply(ctx, prepared, s.vars())).To(MatchError(tofu.ErrExists))
		Expect(ours.Apply(ctx, prepared, s.vars())).To(MatchError(ContainSubstring("not reserved")))
		Expect(filepath.Join(s.entries, "account")).NotTo(BeAnExistingFile())
		Expect(theirs.Apply(ctx, prepared, s.vars())).To(Succeed())
	})
})
