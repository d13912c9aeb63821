// Package process lets specs run the adapter in the background, and find and kill the processes whose working directory
// is in a directory.
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

	. "github.com/onsi/ginkgo/v2" //nolint:staticcheck // ginkgo and gomega are designed for dot imports
	. "github.com/onsi/gomega"    //nolint:staticcheck // ginkgo and gomega are designed for dot imports
	"github.com/onsi/gomega/gbytes"

	"service-adapter/spec/kit/broker"
	"service-adapter/spec/kit/hold"
)

// A Running is a run of the adapter in the background.
type Running struct {
	*exec.Cmd

	Stderr *gbytes.Buffer // can be read while the adapter runs
	stdout *gbytes.Buffer
	ended  chan struct{}
}

// Start starts a command of the adapter in a process group of its own, so that signals to the spec do not reach it. If
// file is not nil, standard output is written to that file instead of to the answer.
func Start(a broker.Adapter, file *os.File, stdin string, arguments ...string) *Running {
	GinkgoHelper()
	//nolint:gosec // the arguments are those of the binary under test
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
		_ = r.Cmd.Wait() // Wait reads the exit code
	}()
	return r
}

// Wait waits for the end of the run and returns the answer. The exit code is -1 if a signal ended the run.
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

// Show prints an answer if the spec fails.
func Show(command string, got broker.Answer) {
	GinkgoWriter.Printf("%s: exit %d\nstdout: %.2000s\nstderr: %.2000s\n", command, got.Exit, got.Stdout, got.Stderr)
}

// A Process is a running process with its command line.
type Process struct {
	PID     int
	Command string
}

// Below returns the running processes whose working directory is the directory or one of its subdirectories.
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
		// it is empty if the process has ended in the meantime
		command, _ := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		found = append(found, Process{PID: pid, Command: string(bytes.ReplaceAll(command, []byte{0}, []byte{' '}))})
	}
	return found
}

// End kills all processes that Below returns for a directory, as a power loss does. It returns when all of their
// threads have ended, so that none of them holds a lock, a file or a connection. All processes are stopped before the
// first one is killed, so that none reacts to the death of another process.
func End(dir string) {
	GinkgoHelper()
	// A process whose main thread has ended has no working directory, while its other threads may still be ending.
	// Below does not return it, so the ids are kept.
	signalled := map[int]bool{}
	Eventually(func() []Process { // a process may have started another process immediately before it was killed
		for _, signal := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
			for _, p := range Below(dir) {
				signalled[p.PID] = true
				_ = syscall.Kill(p.PID, signal) // the process may have ended
			}
		}
		return Below(dir)
	}).Should(BeEmpty())
	for pid := range signalled {
		Eventually(hold.Gone).WithArguments(pid).Should(BeTrue(), "process %d", pid)
	}
}

// Together calls the functions concurrently, with at most atOnce at the same time, and waits for all of them.
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
