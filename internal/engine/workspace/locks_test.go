package workspace_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/statelock"
	"service-adapter/internal/engine/statestore"
	"service-adapter/internal/engine/templates"
	"service-adapter/internal/engine/workspace"
	"service-adapter/spec/kit"
)

// lockedFor is the time that a command has while another run holds the lock of the state. The command waits for the
// lock for half of the time that is left when it finds the lock.
const lockedFor = 10 * time.Second

var _ = Describe("the lock of a state", func() {
	var (
		s        site
		engine   *workspace.Engine
		prepared *templates.Prepared
	)

	// useStore gives the spec a new site with a store of a kind.
	useStore := func(ctx context.Context, kind string) {
		GinkgoHelper()
		s = newSite()
		s.store = newStore(ctx, kind)
		engine = s.engine()
		prepared = prepare(ctx, engine, oneEntry)
	}

	// holdLock starts an apply that holds the lock until the point is released.
	holdLock := func(ctx context.Context, space *workspace.Workspace) (provider int, applied chan error) {
		GinkgoHelper()
		Expect(space.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
		s.blockProvider("after-create")
		applied = make(chan error)
		go func() { applied <- space.Apply(ctx, prepared, s.vars()) }()
		return s.waitForProvider("after-create"), applied
	}

	// leaveLock makes a run leave its lock behind.
	leaveLock := func(ctx context.Context, space *workspace.Workspace) {
		GinkgoHelper()
		_, applied := holdLock(ctx, space)
		kill(s.tofuPID("b-1"))
		Eventually(applied).Should(Receive(HaveOccurred()))
		s.releaseProvider("after-create")
		Expect(s.store.object(lockObject("b-1"))).To(BeARegularFile())
	}

	It("in s3 is waited for, and the error names its holder on another machine", kit.Slow(), func(ctx context.Context) {
		useStore(ctx, "s3")
		space := open(ctx, engine, "b-1")
		DeferCleanup(space.Close)
		began := time.Now()
		_, applied := holdLock(ctx, space)
		other := open(ctx, s.machine(), "b-1")
		DeferCleanup(other.Close)
		hurry, cancel := context.WithTimeout(ctx, lockedFor)
		defer cancel()
		err := other.Destroy(hurry, prepared, s.vars())
		var lock *statelock.Error
		Expect(errors.As(err, &lock)).To(BeTrue(), "%v", err)
		Expect(lock.Workspace).To(Equal("b-1"))
		Expect(lock.ID).To(HaveLen(36))
		Expect(lock.Who).To(ContainSubstring("@"))
		Expect(lock.Operation).To(Equal("OperationTypeApply"))
		Expect(lock.Created).To(And(BeTemporally(">", began), BeTemporally("<", time.Now())))
		Expect(err).To(MatchError(And(ContainSubstring(`the state of workspace "b-1" is locked by `+lock.Who+" since "),
			ContainSubstring("service-adapter bindings unlock 1`"))))
		Expect(other.Reserve(ctx, installation(), []byte("other"))).To(MatchError(workspace.ErrExists))

		destroyed := make(chan error)
		go func() { destroyed <- other.Destroy(ctx, prepared, s.vars()) }()
		s.releaseProvider("after-create")
		Eventually(applied).Should(Receive(BeNil()))
		Eventually(destroyed).Should(Receive(BeNil()))
	})

	It("in pg cannot be released, and the error does not name its holder", func(ctx context.Context) {
		useStore(ctx, "pg")
		space := open(ctx, engine, "b-1")
		DeferCleanup(space.Close)
		_, applied := holdLock(ctx, space)
		other := open(ctx, s.machine(), "b-1")
		DeferCleanup(other.Close)
		hurry, cancel := context.WithTimeout(ctx, lockedFor)
		defer cancel()
		err := other.Destroy(hurry, prepared, s.vars())
		Expect(err).To(MatchError(ContainSubstring(`the state of workspace "b-1" is locked by another run`)))
		var lock *statelock.Error
		Expect(errors.As(err, &lock)).To(BeTrue())
		Expect(lock.Who).To(BeEmpty())
		Expect(other.Unlock(ctx, installation(), "")).To(
			MatchError(ContainSubstring("end with the run that holds them")))
		s.releaseProvider("after-create")
		Eventually(applied).Should(Receive(BeNil()))
		Expect(other.Unlock(ctx, installation(), "")).To(Succeed())
	})

	It("in pg ends with a killed run", func(ctx context.Context) {
		useStore(ctx, "pg")
		space := open(ctx, engine, "b-1")
		DeferCleanup(space.Close)
		_, applied := holdLock(ctx, space)
		kill(s.tofuPID("b-1"))
		Eventually(applied).Should(Receive(HaveOccurred()))
		s.releaseProvider("after-create")
		Expect(space.Apply(ctx, prepared, s.vars())).To(Succeed())
	})

	It("in s3 is released at once if a killed run of this machine left it", func(ctx context.Context) {
		useStore(ctx, "s3")
		space := open(ctx, engine, "b-1")
		leaveLock(ctx, space)
		Expect(space.Apply(ctx, prepared, s.vars())).To(Succeed())
		Expect(space.Destroy(ctx, prepared, s.vars())).To(Succeed())
		Expect(space.Remove(ctx, installation())).To(Succeed())
		Expect(space.Close()).To(Succeed())
		Expect(s.store.contents()).To(BeEmpty())
		Expect(s.runs()).To(BeEmpty())
	})

	It("in s3 is released by the next holder of the lease "+
		"if a killed run of this machine left it", func(ctx context.Context) {
		useStore(ctx, "s3")
		space := open(ctx, engine, "b-1")
		leaveLock(ctx, space)
		Expect(space.Close()).To(Succeed())
		space = open(ctx, engine, "b-1")
		Expect(space.Destroy(ctx, prepared, s.vars())).To(Succeed())
		Expect(space.Close()).To(Succeed())
		Expect(s.runs()).To(BeEmpty())
	})

	It("in s3 is released at once if the adapter and its run were killed", func(ctx context.Context) {
		useStore(ctx, "s3")
		s.blockProvider("after-create")
		adapter := s.startAdapter()
		s.waitForProvider("after-create")
		run := s.tofuPID("b-1")
		kill(adapter.Process.Pid)
		Expect(adapter.Wait()).NotTo(Succeed())
		kill(run)
		Eventually(hasEnded(run)).Should(BeTrue())
		s.releaseProvider("after-create")
		space := open(ctx, engine, "b-1")
		DeferCleanup(space.Close)
		Expect(s.store.object(lockObject("b-1"))).To(BeARegularFile())
		_, err := space.State(ctx, installation())
		Expect(err).NotTo(HaveOccurred())
		Expect(space.Apply(ctx, prepared, s.vars())).To(Succeed())
		Expect(s.store.object(lockObject("b-1"))).NotTo(BeAnExistingFile())
	})

	It("in s3 is released if the run that left it died while it created the workspace", func(ctx context.Context) {
		useStore(ctx, "s3")
		space := open(ctx, engine, "b-1")
		DeferCleanup(space.Close)
		leaveLock(ctx, space)
		Expect(os.Remove(s.store.object("env:/b-1/state"))).To(Succeed())
		Expect(space.State(ctx, installation())).To(BeNil())
		Expect(s.store.contents()).To(BeEmpty())
	})

	DescribeTable("in s3 that another machine left",
		func(ctx context.Context, limit, age time.Duration, released bool) {
			useStore(ctx, "s3")
			space := open(ctx, engine, "b-1")
			leaveLock(ctx, space)
			_, err := space.State(ctx, installation())
			Expect(err).NotTo(HaveOccurred())
			Expect(space.Close()).To(Succeed())
			s.store.setCreated("b-1", time.Now().Add(-age))
			options := s.options()
			options.CacheDir = filepath.Join(GinkgoT().TempDir(), "other")
			options.StaleLock = func(string) time.Duration { return limit }
			elsewhere, err := workspace.New(options)
			Expect(err).NotTo(HaveOccurred())
			space = open(ctx, elsewhere, "b-1")
			DeferCleanup(space.Close)
			hurry, cancel := context.WithTimeout(ctx, lockedFor)
			defer cancel()
			if released {
				Expect(space.Destroy(ctx, prepared, s.vars())).To(Succeed())
				return
			}
			var lock *statelock.Error
			Expect(errors.As(space.Destroy(hurry, prepared, s.vars()), &lock)).To(BeTrue())
			Expect(space.Unlock(ctx, installation(), "00000000-0000-0000-0000-000000000000")).NotTo(Succeed())
			Expect(s.store.object(lockObject("b-1"))).To(BeARegularFile())
			Expect(space.Unlock(ctx, installation(), lock.ID)).To(Succeed())
			Expect(space.Destroy(ctx, prepared, s.vars())).To(Succeed())
		},
		Entry("is released when it is old", time.Hour, 2*time.Hour, true),
		Entry("stays while it is young", kit.Slow(), time.Hour, time.Minute, false),
		Entry("stays while it may belong to a host with a longer time limit", kit.Slow(),
			time.Minute, 5*time.Minute, false),
		Entry("stays when its time is in the future", kit.Slow(), time.Hour, -2*time.Hour, false),
		Entry("stays without an age limit", kit.Slow(), time.Duration(0), 1000*time.Hour, false),
	)

	It("is released by an operator, whoever holds it", func(ctx context.Context) {
		useStore(ctx, "s3")
		space := open(ctx, engine, "b-1")
		leaveLock(ctx, space)
		Expect(space.Close()).To(Succeed())
		other := open(ctx, s.machine(), "b-1")
		DeferCleanup(other.Close)
		Expect(other.Unlock(ctx, installation(), "")).To(Succeed())
		Expect(s.store.object(lockObject("b-1"))).NotTo(BeAnExistingFile())
		Expect(other.Unlock(ctx, installation(), "")).To(Succeed())
		Expect(other.Destroy(ctx, prepared, s.vars())).To(Succeed())
		Expect(other.Remove(ctx, installation())).To(Succeed())
		Expect(other.Unlock(ctx, installation(), "")).To(Succeed())
		Expect(s.store.contents()).To(BeEmpty())
	})

	It("does not prevent several machines from using a new database for the first time", func(ctx context.Context) {
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

var _ = DescribeTable("the error of a lock names the command that releases it",
	func(space, command string) {
		err := &statelock.Error{Workspace: space, HeldError: statestore.HeldError{ID: "1234", Who: "vcap@host"}}
		Expect(err).To(MatchError(HaveSuffix("release the lock with `service-adapter " + command + "`")))
	},
	Entry(nil, "b-id-1", "bindings unlock id-1"), Entry(nil, "i-id-1", "instance unlock id-1"),
	Entry(nil, "bh-0123", "bindings unlock bh-0123"), Entry(nil, "ih-0123", "instance unlock ih-0123"),
)

var _ = Describe("a workspace that another run has reserved again", func() {
	It("is not applied", func(ctx context.Context) {
		s := newSite()
		engine := s.engine()
		prepared := prepare(ctx, engine, oneEntry)
		first := open(ctx, engine, "b-1")
		DeferCleanup(first.Close)
		Expect(first.Reserve(ctx, installation(), []byte("ours"))).To(Succeed())
		// In pg, a reservation can be lost if two machines create the empty workspace at the same moment.
		file := filepath.Join(s.state, "workspaces", "b-1", "terraform.tfstate")
		dropFromState(file, "_binding")
		second := open(ctx, s.machine(), "b-1")
		DeferCleanup(second.Close)
		Expect(second.Reserve(ctx, installation(), []byte("theirs"))).To(Succeed())

		Expect(first.Apply(ctx, prepared, s.vars())).To(MatchError(workspace.ErrTakenOver))
		Expect(first.Apply(ctx, prepared, s.vars())).To(MatchError(ContainSubstring("not reserved")))
		Expect(filepath.Join(s.entries, "account")).NotTo(BeAnExistingFile())
		Expect(second.Apply(ctx, prepared, s.vars())).To(Succeed())
	})
})
