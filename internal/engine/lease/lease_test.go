package lease_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/lease"
	"service-adapter/spec/kit"
)

func TestLease(t *testing.T) {
	kit.Suite(t, "internal/engine/lease")
}

var _ = Describe("a lease", func() {
	var name string
	options := lease.Options{Logger: slog.New(slog.DiscardHandler)}

	BeforeEach(func() { name = filepath.Join(GinkgoT().TempDir(), "b-1") })

	// take takes the lease, which must be free.
	take := func(ctx context.Context) *lease.Lease {
		GinkgoHelper()
		l, err := lease.Take(ctx, name, options)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { _ = l.File().Close() })
		return l
	}

	It("has one holder, whom the error of the others names", func(ctx context.Context) {
		first := take(ctx)
		Expect(lease.Try(name, options)).To(BeNil())
		limited, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		_, err := lease.Take(limited, name, options)
		Expect(err).To(MatchError(context.DeadlineExceeded))
		Expect(err).To(MatchError(HavePrefix(fmt.Sprintf("waiting for other runs (of process %d): ", os.Getpid()))))
		Expect(first.Release()).To(Succeed())
		second, err := lease.Try(name, options)
		Expect(err).NotTo(HaveOccurred())
		Expect(second.Release()).To(Succeed())
	})

	It("leaves no file behind", func(ctx context.Context) {
		l := take(ctx)
		Expect(l.RecordStart(true)).To(Succeed())
		Expect(l.RecordEnd(true, false)).To(Succeed())
		Expect(l.Release()).To(Succeed())
		Expect(filepath.Glob(name + "*")).To(BeEmpty())
	})

	It("reports to later holders that a run may have left a lock of the state behind", func(ctx context.Context) {
		killed := take(ctx)
		before := time.Now()
		Expect(killed.RecordStart(true)).To(Succeed())
		Expect(killed.File().Close()).To(Succeed()) // as if the process had been killed

		for range 2 { // releasing the lease does not make the report disappear
			next := take(ctx)
			Expect(next.MayHaveLeftLock()).To(BeTrue())
			Expect(next.LeftLock(time.Now())).To(BeTrue())
			Expect(next.LeftLock(before.Add(-time.Second))).To(BeFalse())
			Expect(next.LeftLock(before.Add(time.Minute))).To(BeFalse())
			Expect(next.Release()).To(Succeed())
		}

		last := take(ctx)
		Expect(last.RecordStart(true)).To(Succeed())
		Expect(last.RecordEnd(true, true)).To(Succeed()) // a run that took the lock proves that none is left
		Expect(last.MayHaveLeftLock()).To(BeFalse())
		Expect(last.Release()).To(Succeed())
		Expect(filepath.Glob(name + "*")).To(BeEmpty())
	})

	It("removes the marks of former holders, also in a directory whose name is a pattern", func(ctx context.Context) {
		for _, dir := range []string{"[a]", "[a"} {
			name = filepath.Join(GinkgoT().TempDir(), dir, "b-1")
			Expect(os.MkdirAll(filepath.Dir(name), 0o700)).To(Succeed())
			l := take(ctx)
			mark := l.File().Name() + ".interrupted-1-2"
			Expect(l.Release()).To(Succeed())
			Expect(os.WriteFile(mark, nil, 0o600)).To(Succeed())
			Expect(take(ctx).Release()).To(Succeed())
			Expect(os.ReadDir(filepath.Dir(name))).To(BeEmpty())
		}
	})

	It("does not suspect runs that cannot leave a lock, or that ended in order", func(ctx context.Context) {
		l := take(ctx)
		Expect(l.RecordStart(false)).To(Succeed())
		Expect(l.File().Close()).To(Succeed())
		l = take(ctx)
		Expect(l.MayHaveLeftLock()).To(BeFalse())
		Expect(l.RecordStart(true)).To(Succeed())
		Expect(l.RecordEnd(false, false)).To(Succeed())
		Expect(l.MayHaveLeftLock()).To(BeTrue())
	})

	It("can be taken if the description of the last holder is damaged", func(ctx context.Context) {
		Expect(os.WriteFile(name+".json", []byte(`{"adapter":`), 0o600)).To(Succeed())
		l := take(ctx)
		Expect(l.MayHaveLeftLock()).To(BeFalse())
		Expect(l.Release()).To(Succeed())
	})

	DescribeTable("is not taken from a process in another container, where it has another id",
		func(ctx context.Context, description string) {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", holdLock(name)))
			Expect(err).NotTo(HaveOccurred())
			start := strings.Fields(string(stat))[startTime]
			description = strings.ReplaceAll(description, "START", start)
			Expect(os.WriteFile(name+".json", []byte(description), 0o600)).To(Succeed())

			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_, err = lease.Take(ctx, name, options)
			Expect(err).To(MatchError(context.DeadlineExceeded))
		},
		Entry("which is the adapter", `{"adapter":{"pid":1,"start":START},"tofu":{"pid":1,"start":1}}`),
		Entry("which is OpenTofu", `{"adapter":{"pid":1,"start":1},"tofu":{"pid":1,"start":START}}`),
	)

	It("is taken from processes of templates, also right after another one", func(ctx context.Context) {
		const dead = `{"adapter":{"pid":1,"start":1},"tofu":{"pid":1,"start":1}}`
		dir := filepath.Dir(name)
		for _, other := range []string{name, filepath.Join(dir, "b-2")} {
			holdLock(other) // as the process of a template, which outlives its run
			Expect(os.WriteFile(other+".json", []byte(dead), 0o600)).To(Succeed())

			taken := make(chan *lease.Lease, 1)
			go func() {
				l, _ := lease.Take(ctx, other, options)
				taken <- l
			}()
			var l *lease.Lease
			Eventually(taken, "5s").Should(Receive(&l))
			Expect(l).NotTo(BeNil())
			Expect(l.Release()).To(Succeed())
		}
	})

	It("is taken and described while no process examines whose lock it is", func(ctx context.Context) {
		runs, err := os.Open(filepath.Dir(name))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(runs.Close)
		Expect(syscall.Flock(int(runs.Fd()), syscall.LOCK_EX)).To(Succeed()) // as a process that examines it
		taken := make(chan *lease.Lease, 1)
		go func() {
			l, _ := lease.Try(name, options)
			taken <- l
		}()
		Consistently(taken, "200ms").ShouldNot(Receive())
		Expect(name + ".lock").NotTo(BeAnExistingFile())
		Expect(syscall.Flock(int(runs.Fd()), syscall.LOCK_UN)).To(Succeed())
		var l *lease.Lease
		Eventually(taken).Should(Receive(&l))
		Expect(l.Release()).To(Succeed())
	})

	It("is not taken from a process that has locked it and is about to describe itself", func(ctx context.Context) {
		const dead = `{"adapter":{"pid":1,"start":1},"tofu":{"pid":1,"start":1}}`
		Expect(os.WriteFile(name+".json", []byte(dead), 0o600)).To(Succeed())
		runs, err := os.Open(filepath.Dir(name))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(runs.Close)
		Expect(syscall.Flock(int(runs.Fd()), syscall.LOCK_SH)).To(Succeed()) // as a process that takes the lease
		pid := holdLock(name)
		tried := make(chan *lease.Lease, 1)
		go func() {
			l, _ := lease.Try(name, options)
			tried <- l
		}()
		Consistently(tried, "200ms").ShouldNot(Receive())
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		Expect(err).NotTo(HaveOccurred())
		alive := fmt.Sprintf(`{"adapter":{"pid":%d,"start":%s}}`, pid, strings.Fields(string(stat))[startTime])
		Expect(os.WriteFile(name+".json", []byte(alive), 0o600)).To(Succeed())
		Expect(syscall.Flock(int(runs.Fd()), syscall.LOCK_UN)).To(Succeed())
		Eventually(tried).Should(Receive(BeNil()))
		Expect(name + ".lock").To(BeARegularFile())
	})
})

// startTime is the index of the field of /proc/PID/stat that contains the start time of a process.
const startTime = 21

// holdLock starts a process that holds the lock file of a lease, ends it after the spec, and returns its id. name is
// the path of the lease.
func holdLock(name string) (pid int) {
	GinkgoHelper()
	lock, err := os.Create(name + ".lock")
	Expect(err).NotTo(HaveOccurred())
	Expect(syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)).To(Succeed())
	command := exec.Command("sleep", "1000")
	command.ExtraFiles = []*os.File{lock}
	Expect(command.Start()).To(Succeed())
	DeferCleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	Expect(lock.Close()).To(Succeed())
	return command.Process.Pid
}
