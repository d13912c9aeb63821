// Command meter runs a program and writes a report to file descriptor 3: the duration in nanoseconds, the maximum
// resident memory of the largest process, and that of the program's own process, both in kilobytes.
//
//	meter once PROGRAM [ARGUMENT…]   for a program without child processes: its own memory is the largest
//	meter watch PROGRAM [ARGUMENT…]  for a program with child processes: its memory is read every other millisecond
//	meter tree PROGRAM [ARGUMENT…]   like watch, with the memory of the child processes added to that of the program
//
// The meter is a separate small program because of the way in which the kernel counts memory. A process starts as a
// copy of its parent, and this copy counts until the process executes its program.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

func main() {
	const usage = 2
	samplers := map[string]sampler{
		"once": {}, "watch": {highest, 2 * time.Millisecond},
		"tree": {together, 50 * time.Millisecond},
	}
	memory, known := samplers[os.Args[min(1, len(os.Args)-1)]]
	if len(os.Args) < 3 || !known {
		fmt.Fprintln(os.Stderr, "usage: meter once|watch|tree PROGRAM [ARGUMENT…]")
		os.Exit(usage)
	}
	code, err := measure(memory, os.Args[2], os.Args[3:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "meter:", err)
		os.Exit(usage)
	}
	os.Exit(code)
}

// A sampler reads memory at an interval.
type sampler struct {
	memory func(pid int) int64 // nil if the memory is not read
	every  time.Duration
}

// measure runs a program and returns its exit code.
func measure(memory sampler, path string, args []string) (int, error) {
	const reportTo = 3
	syscall.CloseOnExec(reportTo)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	cmd := exec.Command(path, args...) //nolint:gosec // the program to measure
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	ended, watched := make(chan struct{}), make(chan int64, 1)
	go func() { watched <- memory.until(cmd.Process, signals, ended) }()
	err := cmd.Wait()
	took := time.Since(begin)
	close(ended)
	own := <-watched
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 0, err
	}
	var largest int64
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		largest = usage.Maxrss
	}
	if memory.memory == nil {
		own = largest
	}
	_, err = fmt.Fprintln(os.NewFile(reportTo, "report"), took.Nanoseconds(), largest, own)
	return cmd.ProcessState.ExitCode(), err
}

// until passes signals to the process until it has ended, and returns the maximum of the memory that was read.
func (l sampler) until(process *os.Process, signals <-chan os.Signal, ended <-chan struct{}) int64 {
	var tick <-chan time.Time
	if l.memory != nil {
		ticker := time.NewTicker(l.every)
		defer ticker.Stop()
		tick = ticker.C
	}
	var own int64
	for {
		select {
		case <-ended:
			return own
		case s := <-signals:
			_ = process.Signal(s) // it may have ended
		case <-tick:
			own = max(own, l.memory(process.Pid))
		}
	}
}

// highest returns the maximum resident memory of a process since it executed its program, in kilobytes. It returns 0 if
// the process has ended.
func highest(pid int) int64 { return statusNumber(pid, "VmHWM:") }

// together returns the resident memory of a process and all of its descendants in kilobytes. Shared memory counts once
// for each process.
func together(pid int) int64 {
	children := map[int][]int{}
	all, _ := filepath.Glob("/proc/[0-9]*") // the pattern is valid
	for _, dir := range all {
		if id, err := strconv.Atoi(filepath.Base(dir)); err == nil {
			parent := int(statusNumber(id, "PPid:"))
			children[parent] = append(children[parent], id)
		}
	}
	family := []int{pid}
	var sum int64
	for n := 0; n < len(family); n++ {
		sum += statusNumber(family[n], "VmRSS:")
		family = append(family, children[family[n]]...)
	}
	return sum
}

// statusNumber returns a number from the kernel's status of a process. Sizes are in kilobytes. It returns 0 if the
// process has ended.
func statusNumber(pid int, name string) int64 {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(text, []byte(name))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	number, err := strconv.ParseInt(string(bytes.TrimSpace(bytes.TrimSuffix(line, []byte("kB")))), 10, 64)
	if err != nil {
		return 0
	}
	return number
}
