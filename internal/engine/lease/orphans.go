package lease

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/privatefs"
)

// discardAbandonedLock removes the lock file if the only processes that hold the lock were started by a template,
// because these may never end, and logs a warning. The next attempt to take the lease creates a new file.
// discardAbandonedLock recognises such processes as those that still have the lock file open although the adapter, the
// OpenTofu and the providers of the recorded holder are dead. It does nothing, and logs nothing, if one of them may be
// alive (see allDead), if the recorded adapter or OpenTofu seems to run in another container, if no other process is
// seen to have the lock file open, or if the directory of the lease cannot be opened or locked. If the lock file cannot
// be removed, it only logs a warning.
//
// Processes that wait call it concurrently. An exclusive lock on the directory, for which discardAbandonedLock waits,
// makes them act one at a time, and not while another process takes the lease; see take.
func (l *Lease) discardAbandonedLock() {
	if !readHolder(l.holderPath).allDead() {
		return
	}
	runs, err := lockDir(filepath.Dir(l.path), syscall.LOCK_EX)
	if err != nil {
		return
	}
	defer runs.Close() //nolint:errcheck // nothing was written
	h := readHolder(l.holderPath)
	if !h.allDead() {
		return
	}
	users := opentofu.UsersOf(l.path)
	// Seen from another container, a process has another id but the same start time.
	elsewhere := func(p opentofu.Process) bool { return p.Start == h.Adapter.Start || p.Start == h.Tofu.Start }
	if len(users) == 0 || slices.ContainsFunc(users, elsewhere) {
		return
	}
	l.options.Logger.Warn("ignoring the lock of an earlier run, "+
		"which only processes that a template started still hold",
		"lock", l.path, "processes", users)
	if err := privatefs.Remove(l.path); err != nil {
		l.options.Logger.Warn("removing the lock of an earlier run", "lock", l.path, "error", err)
	}
}

// killOrphans ends the processes of the recorded holder of the lease if its adapter is dead. If OpenTofu is also dead,
// killOrphans kills the remaining processes of its group and the process groups of the providers. If OpenTofu is alive
// and was started longer than HungAfter ago, killOrphans interrupts it, and a call after the grace period kills its
// process group; with a HungAfter of 0, OpenTofu is left alone. killOrphans does nothing while the adapter is alive, or
// if the holder records no process of OpenTofu. It logs the signals that it sends, and their errors.
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

// interruptHung does one step to end the process run, an OpenTofu that hangs, and does not wait. Processes that wait
// for the lease call it repeatedly. The first call of any process interrupts OpenTofu with SIGINT, and calls after
// Options.Grace kill its process group. OpenTofu exits without saving its state at a second interrupt. The first call
// therefore creates a file next to the lock file that keeps all waiting processes from interrupting it again; the
// modification time of the file is the time of the interrupt. If the file cannot be created, OpenTofu is not
// interrupted, without a log entry. The steps and errors of signals are logged as warnings.
func (l *Lease) interruptHung(run opentofu.Process) {
	mark := fmt.Sprintf("%s%s%d-%d", l.path, markSuffix, run.PID, run.Start)
	//nolint:gosec // in the cache directory
	file, err := os.OpenFile(mark, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err == nil {
		l.options.Logger.Warn("interrupting an OpenTofu process that has been running for too long "+
			"since its adapter died",
			"process", run.PID)
		if err := errors.Join(file.Close(), syscall.Kill(run.PID, syscall.SIGINT)); err != nil {
			l.options.Logger.Warn("interrupting an OpenTofu process", "process", run.PID, "error", err)
		}
		return
	}
	if info, err := os.Stat(mark); err == nil && time.Since(info.ModTime()) > l.options.Grace {
		l.killGroup(run)
	}
}

// markSuffix is the part between the path of the lock and the process in the names of these marks.
const markSuffix = ".interrupted-"

// removeMarks removes the files that interruptHung created when it interrupted runs of previous holders. It continues
// after a file that cannot be removed, and returns the errors of all such files, or nil. It also returns an error if
// the directory of the lease cannot be read.
func (l *Lease) removeMarks() error {
	dir, name := filepath.Dir(l.path), filepath.Base(l.path)
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), name+markSuffix) {
			err = errors.Join(err, privatefs.Remove(filepath.Join(dir, entry.Name())))
		}
	}
	return err
}

// killGroup logs a warning and sends SIGKILL to the process group of a leader, which does not have to be alive itself.
// An error of the signal is logged and not returned.
func (l *Lease) killGroup(leader opentofu.Process) {
	l.options.Logger.Warn("killing orphaned processes", "group", leader.PID)
	if err := syscall.Kill(-leader.PID, syscall.SIGKILL); err != nil {
		l.options.Logger.Warn("killing orphaned processes", "group", leader.PID, "error", err)
	}
}
