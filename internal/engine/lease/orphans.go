package lease

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/privatefs"
)

// discardAbandonedLock removes the lock file if the only processes that hold the lock were started by a template,
// because these may never end, and logs a warning. The next attempt creates a new file. It does nothing if the adapter,
// the OpenTofu or the providers of the holder may be alive, or if the directory of the lease cannot be opened or
// locked. Other errors are only logged.
//
// Processes that wait call it concurrently. A lock on the directory makes them act one at a time, and the first one
// records itself as the holder, which makes the others stop.
func (l *Lease) discardAbandonedLock() {
	if !readHolder(l.holderPath).allDead() {
		return
	}
	runs, err := os.Open(filepath.Dir(l.path))
	if err != nil {
		return
	}
	defer runs.Close() //nolint:errcheck // nothing was written
	if err := syscall.Flock(int(runs.Fd()), syscall.LOCK_EX); err != nil {
		return
	}
	h := readHolder(l.holderPath)
	if !h.allDead() {
		return
	}
	users := opentofu.UsersOf(l.path)
	// Seen from another container, a process has another id but the same start time.
	if len(users) == 0 || slices.ContainsFunc(users, func(p opentofu.Process) bool { return p.Start == h.Tofu.Start }) {
		return
	}
	l.options.Logger.Warn("ignoring the lock of an earlier run, "+
		"which only processes that a template started still hold",
		"lock", l.path, "processes", users)
	if err := errors.Join(l.replaceHolder(), privatefs.Remove(l.path)); err != nil {
		l.options.Logger.Warn("removing the lock of an earlier run", "lock", l.path, "error", err)
	}
}

// killOrphans ends the processes of the lease's holder if its adapter is dead. If OpenTofu is also dead, the remaining
// processes of its run and those of its providers are killed. If OpenTofu has been running for longer than HungAfter,
// it is interrupted, and killed by a call after the grace period. killOrphans does nothing while the adapter is alive,
// or if the last run is not known. The actions are logged, and errors are only logged.
func (l *Lease) killOrphans() {
	h := readHolder(l.holderPath)
	if h.Tofu == nil || h.Adapter.Alive() {
		return
	}
	if h.Tofu.Alive() {
		if limit := l.options.HungAfter; limit > 0 && h.Tofu.Age() > limit {
			l.interruptHung(*h.Tofu)
		}
		return
	}
	if opentofu.Orphaned(*h.Tofu) {
		l.killGroup(*h.Tofu)
	}
	// The supervisors of the providers normally kill them, unless another run has killed the supervisors.
	for _, provider := range h.Providers {
		if provider.Alive() || opentofu.Orphaned(provider) {
			l.killGroup(provider)
		}
	}
}

// interruptHung does one step to end run, an OpenTofu that hangs, and does not wait. Processes that wait for the lease
// call it repeatedly. The first call interrupts OpenTofu, and calls after the grace period kill its process group.
// OpenTofu exits without saving its state at a second interrupt. The first call therefore creates a file that keeps all
// waiting processes from interrupting it again and whose modification time is that of the interrupt. If the file cannot
// be created, OpenTofu is not interrupted. The steps and errors of signals are logged.
func (l *Lease) interruptHung(run opentofu.Process) {
	mark := fmt.Sprintf("%s%s%d-%d", l.path, markSuffix, run.PID, run.Start)
	//nolint:gosec // in the cache directory
	file, err := os.OpenFile(mark, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err == nil {
		l.options.Logger.Warn("interrupting an OpenTofu that has been running for too long since its adapter died",
			"process", run.PID)
		if err := errors.Join(file.Close(), syscall.Kill(run.PID, syscall.SIGINT)); err != nil {
			l.options.Logger.Warn("interrupting an OpenTofu", "process", run.PID, "error", err)
		}
		return
	}
	if info, err := os.Stat(mark); err == nil && time.Since(info.ModTime()) > l.options.Grace {
		l.killGroup(run)
	}
}

// markSuffix is the part between the path of the lock and the process in the names of these marks.
const markSuffix = ".interrupted-"

// removeMarks removes the files with which interruptHung recorded that it interrupted runs of previous holders. It
// continues after an error and returns all errors.
func (l *Lease) removeMarks() error {
	marks, err := filepath.Glob(l.path + markSuffix + "*")
	for _, mark := range marks {
		err = errors.Join(err, privatefs.Remove(mark))
	}
	return err
}

// killGroup kills the process group of a leader and logs that. Errors are logged.
func (l *Lease) killGroup(leader opentofu.Process) {
	l.options.Logger.Warn("killing orphaned processes", "group", leader.PID)
	if err := syscall.Kill(-leader.PID, syscall.SIGKILL); err != nil {
		l.options.Logger.Warn("killing orphaned processes", "group", leader.PID, "error", err)
	}
}
