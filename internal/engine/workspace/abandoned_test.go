package workspace_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/opentofu"
)

var _ = Describe("the scratch directory of a workspace whose lock a process holds", func() {
	var s site

	BeforeEach(func() { s = newSite() })

	// start starts a process in a process group of its own, which is killed when the spec ends.
	start := func(lock *os.File) opentofu.Process {
		GinkgoHelper()
		command := exec.Command("sleep", "1000")
		command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if lock != nil {
			command.ExtraFiles = []*os.File{lock}
		}
		Expect(command.Start()).To(Succeed())
		DeferCleanup(func() {
			_ = command.Process.Kill() // it may be dead
			_ = command.Wait()
		})
		return opentofu.Identify(command.Process.Pid)
	}

	// startOrphan starts a process whose parent, the leader of its process group, is dead. It returns the leader.
	startOrphan := func() opentofu.Process {
		GinkgoHelper()
		command := exec.Command("sh", "-c", "sleep 1000 </dev/null >/dev/null 2>&1 & read line")
		command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		input, err := command.StdinPipe()
		Expect(err).NotTo(HaveOccurred())
		Expect(command.Start()).To(Succeed())
		leader := opentofu.Identify(command.Process.Pid)
		DeferCleanup(func() { _ = syscall.Kill(-leader.PID, syscall.SIGKILL) })
		Eventually(func() int { return groupSize(leader.PID) }).Should(Equal(2))
		Expect(input.Close()).To(Succeed())
		Expect(command.Wait()).NotTo(Succeed())
		Expect(opentofu.Orphaned(leader)).To(BeTrue())
		return leader
	}

	dead := opentofu.Process{PID: os.Getpid(), Start: 1}

	DescribeTable("is removed only if nothing but processes of a template can hold the lock",
		func(holder func() map[string]any, removed bool) {
			run := filepath.Join(s.cache, "runs", "b-1")
			Expect(os.MkdirAll(run, 0o700)).To(Succeed())
			lock, err := os.Create(run + ".lock")
			Expect(err).NotTo(HaveOccurred())
			Expect(syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)).To(Succeed())
			start(lock) // the process of a template
			Expect(lock.Close()).To(Succeed())
			text, err := json.Marshal(holder())
			Expect(err).NotTo(HaveOccurred())
			Expect(os.WriteFile(run+".json", text, 0o600)).To(Succeed())

			s.engine() // every start of the adapter removes what killed ones left
			if removed {
				Expect(run).NotTo(BeADirectory())
			} else {
				Expect(run).To(BeADirectory())
			}
		},
		Entry("the adapter, OpenTofu and its providers are dead", func() map[string]any {
			return map[string]any{"adapter": dead, "tofu": dead, "providers": []any{dead}}
		}, true),
		Entry("the adapter is alive, although OpenTofu has ended", func() map[string]any {
			return map[string]any{"adapter": opentofu.Current(), "tofu": dead}
		}, false),
		Entry("OpenTofu is alive", func() map[string]any {
			return map[string]any{"adapter": dead, "tofu": start(nil)}
		}, false),
		Entry("OpenTofu may be starting", func() map[string]any { return map[string]any{"adapter": dead} }, false),
		Entry("a process of OpenTofu's group is alive", func() map[string]any {
			return map[string]any{"adapter": dead, "tofu": startOrphan()}
		}, false),
		Entry("a provider is alive", func() map[string]any {
			return map[string]any{"adapter": dead, "tofu": dead, "providers": []any{dead, start(nil)}}
		}, false),
		Entry("a process of a provider's group is alive", func() map[string]any {
			return map[string]any{"adapter": dead, "tofu": dead, "providers": []any{startOrphan()}}
		}, false),
	)
})

var _ = Describe("the scratch directories of killed runs", func() {
	It("are all removed by the next start, with the keys in them", func() {
		s := newSite()
		runs := filepath.Join(s.cache, "runs")
		for _, name := range []string{"b-1", "b-2", "b-3"} {
			Expect(os.MkdirAll(filepath.Join(runs, name), 0o700)).To(Succeed())
			Expect(os.WriteFile(filepath.Join(runs, name, "key"), []byte("secret"), 0o600)).To(Succeed())
			Expect(os.WriteFile(filepath.Join(runs, name+".lock"), nil, 0o600)).To(Succeed())
		}
		s.engine()
		Expect(filepath.Glob(filepath.Join(runs, "*", "key"))).To(BeEmpty())
	})
})

// groupSize returns the number of processes in a process group.
func groupSize(group int) int {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	Expect(err).NotTo(HaveOccurred())
	count := 0
	for _, file := range files {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		Expect(err).NotTo(HaveOccurred())
		if id, err := syscall.Getpgid(pid); err == nil && id == group {
			count++
		}
	}
	return count
}
