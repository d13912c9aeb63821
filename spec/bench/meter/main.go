// Command meter runs a program and writes what it took to file descriptor 3: nanoseconds from its start to its end, the
// most that was resident of the largest process, and the same of the program's own process, in kilobytes.
//
//	meter once PROGRAM [ARGUMENT…]    for a program that starts no others: its own memory is the largest
//	meter watch PROGRAM [ARGUMENT…]   for one that does: its memory is looked at every other millisecond
//	meter tree PROGRAM [ARGUMENT…]    like watch, but its memory includes that of the processes that it started
//
// It is a program of its own because it is small. The kernel counts with a process what it was before it became its
// program, which is as large as the process that started it.
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
	looks := map[string]look{
		"once": {}, "watch": {highest, 2 * time.Millisecond},
		"tree": {together, 50 * time.Millisecond},
	}
	memory, known := looks[os.Args[min(1, len(os.Args)-1)]]
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

// look is how memory is looked at, and how often.
type look struct {
	memory func(pid int) int64 // nil: not at all
	every  time.Duration
}

// measure runs a program and returns its exit code.
func measure(memory look, path string, args []string) (int, error) {
	const reportTo = 3
	syscall.CloseOnExec(reportTo)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	cmd := exec.Command(path, args...) //nolint:gosec // what is measured
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

// until passes signals on until the program ended, and returns the most that a look found.
func (l look) until(process *os.Process, signals <-chan os.Signal, ended <-chan struct{}) int64 {
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
			_ = process.Signal(s) // It may have ended.
		case <-tick:
			own = max(own, l.memory(process.Pid))
		}
	}
}

// highest is the most that was resident of a process since it became its program, in kilobytes; 0 when it ended.
func highest(pid int) int64 { return told(pid, "VmHWM:") }

// together is what is resident of a process and of all that it started, in kilobytes. What they share counts for each.
func together(pid int) int64 {
	children := map[int][]int{}
	all, _ := filepath.Glob("/proc/[0-9]*") // the pattern is a good one
	for _, dir := range all {
		if id, err := strconv.Atoi(filepath.Base(dir)); err == nil {
			parent := int(told(id, "PPid:"))
			children[parent] = append(children[parent], id)
		}
	}
	family := []int{pid}
	var sum int64
	for n := 0; n < len(family); n++ {
		sum += told(family[n], "VmRSS:")
		family = append(family, children[family[n]]...)
	}
	return sum
}

// told reads a number from what the kernel tells of a process; amounts are in kilobytes. It is 0 when the process
// ended.
func told(pid int, name string) int64 {
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
