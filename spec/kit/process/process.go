// Package process lets specs run the adapter in the background, and find and end what runs below a directory.
package process

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	. "github.com/onsi/ginkgo/v2" //nolint:staticcheck // ginkgo and gomega are made for it
	. "github.com/onsi/gomega"    //nolint:staticcheck // ginkgo and gomega are made for it
	"github.com/onsi/gomega/gbytes"

	"service-adapter/spec/kit/broker"
	"service-adapter/spec/kit/hold"
)

// Running is a run of the adapter in the background.
type Running struct {
	*exec.Cmd

	Stderr *gbytes.Buffer // to be read at any time
	stdout *gbytes.Buffer
	ended  chan struct{}
}

// Start starts a command of the adapter. In the kernel's eyes it is as independent of the spec as an adapter is of its
// broker. Its product goes into a file where one is given.
func Start(a broker.Adapter, file *os.File, stdin string, arguments ...string) *Running {
	GinkgoHelper()
	//nolint:gosec // the binary under test
	r := &Running{
		Cmd: exec.Command(a.Path, arguments...), stdout: gbytes.NewBuffer(), Stderr: gbytes.NewBuffer(),
		ended: make(chan struct{}),
	}
	r.Stdin, r.Stdout, r.Cmd.Stderr = strings.NewReader(stdin), r.stdout, r.Stderr
	if file != nil {
		r.Stdout = file
	}
	r.Env, r.Dir = a.Env, a.Dir
	r.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	Expect(r.Start()).To(Succeed())
	go func() {
		defer close(r.ended)
		_ = r.Cmd.Wait() // the exit code tells
	}()
	return r
}

// Wait waits for the end and returns the answer; after a signal its exit code is -1.
func (r *Running) Wait() broker.Answer {
	GinkgoHelper()
	Eventually(r.ended).Should(BeClosed())
	got := broker.Answer{
		Exit: r.ProcessState.ExitCode(), Stdout: string(r.stdout.Contents()),
		Stderr: string(r.Stderr.Contents()),
	}
	Show(r.Args[1], got)
	return got
}

// Show shows an answer when the spec fails.
func Show(command string, got broker.Answer) {
	GinkgoWriter.Printf("%s: exit %d\nstdout: %.2000s\nstderr: %.2000s\n", command, got.Exit, got.Stdout, got.Stderr)
}

// Process is one that runs.
type Process struct {
	PID     int
	Command string
}

// Below are the processes whose working directory is a directory, or lies below it.
func Below(dir string) []Process {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var found []Process
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		cwd, err := os.Readlink(filepath.Join("/proc", entry.Name(), "cwd"))
		if err != nil || cwd != dir && !strings.HasPrefix(cwd, dir+"/") || hold.Gone(pid) {
			continue
		}
		command, _ := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline")) // empty when it ended meanwhile
		found = append(found, Process{PID: pid, Command: string(bytes.ReplaceAll(command, []byte{0}, []byte{' '}))})
	}
	return found
}

// End kills all processes that run below a directory, as the loss of a machine's power does, and returns when all of
// their threads have ended, so that none of them holds a lock, a file or a connection. All are stopped before the first
// one is killed, so that none reacts to the death of another.
func End(dir string) {
	GinkgoHelper()
	// A process whose main thread has ended has no working directory, while its other threads may still be ending.
	// Below does not return it, so the ids are kept.
	signalled := map[int]bool{}
	Eventually(func() []Process { // a process that is killed may have just started another one
		for _, signal := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
			for _, p := range Below(dir) {
				signalled[p.PID] = true
				_ = syscall.Kill(p.PID, signal) // it may have ended
			}
		}
		return Below(dir)
	}).Should(BeEmpty())
	for pid := range signalled {
		Eventually(hold.Gone).WithArguments(pid).Should(BeTrue(), "process %d", pid)
	}
}

// Together does several things at the same time, some of them at once, and waits for all of them.
func Together(atOnce int, things ...func()) {
	GinkgoHelper()
	var group sync.WaitGroup
	room := make(chan struct{}, atOnce)
	for _, thing := range things {
		room <- struct{}{}
		group.Go(func() {
			defer func() { <-room }()
			defer GinkgoRecover()
			thing()
		})
	}
	group.Wait()
}
