// Command meter runs a program and writes what it took to file descriptor 3: nanoseconds from its start to its end, the most that was
// resident of the largest process, and the same of the program's own process, in kilobytes.
//
//	meter once PROGRAM [ARGUMENT…]    for a program that starts no others: its own memory is the largest
//	meter watch PROGRAM [ARGUMENT…]   for one that does: its memory is looked at every other millisecond
//
// It is a program of its own because it is small. The kernel counts with a process what it was before it became its program, which is
// as large as the process that started it.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

func main() {
	const usage = 2
	if len(os.Args) < 3 || os.Args[1] != "once" && os.Args[1] != "watch" {
		fmt.Fprintln(os.Stderr, "usage: meter once|watch PROGRAM [ARGUMENT…]")
		os.Exit(usage)
	}
	code, err := measure(os.Args[1] == "watch", os.Args[2], os.Args[3:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "meter:", err)
		os.Exit(usage)
	}
	os.Exit(code)
}

// measure runs a program and returns its exit code.
func measure(watch bool, path string, args []string) (int, error) {
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
	go func() { watched <- look(cmd.Process, watch, signals, ended) }()
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
	if !watch {
		own = largest
	}
	_, err = fmt.Fprintln(os.NewFile(reportTo, "report"), took.Nanoseconds(), largest, own)
	return cmd.ProcessState.ExitCode(), err
}

// look passes signals on until the program ended. With watch it returns the most that was resident of it.
func look(process *os.Process, watch bool, signals <-chan os.Signal, ended <-chan struct{}) int64 {
	var tick <-chan time.Time
	if watch {
		ticker := time.NewTicker(2 * time.Millisecond)
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
			own = max(own, resident(process.Pid))
		}
	}
}

// resident is the most that was resident of a process since it became its program, in kilobytes; 0 when it ended.
func resident(pid int) int64 {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(text, []byte("VmHWM:"))
	value, _, _ := bytes.Cut(rest, []byte("kB"))
	kilobytes, err := strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64)
	if err != nil {
		return 0
	}
	return kilobytes
}
