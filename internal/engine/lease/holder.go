package lease

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"

	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/privatefs"
)

// lockDelay is the longest time between the start of a run and the moment at which the run takes the lock of the state.
const lockDelay = 10 * time.Second

// A holder is the content of the JSON file that describes the holder of a lease, for the processes that wait and for
// the next holder. It contains the process of the adapter, the processes of its last run of OpenTofu and of the
// providers, and the start times of runs that may have left a lock of the state behind. A nil Tofu means that a run is
// being started or that none has been started yet. The zero holder describes no process and no such run.
type holder struct {
	Adapter opentofu.Process `json:"adapter"`
	// Tofu is the leader of the last run's process group. It is nil while a run is being started; meanwhile, other
	// processes must assume that the run is alive.
	Tofu *opentofu.Process `json:"tofu,omitempty"`
	// Providers are the leaders of the process groups of the providers that the adapter started for the run.
	Providers []opentofu.Process `json:"providers,omitempty"`
	// Running is the time at which the current run began; zero if there is none or if it cannot leave a lock of the
	// state behind. Left are the start times of earlier runs that did not end in order, so they may have left a lock.
	Running time.Time   `json:"running,omitzero"`
	Left    []time.Time `json:"left,omitempty"`
}

// readHolder reads the file that describes the holder of a lease, at this path. It returns a zero holder if the file is
// missing, cannot be read or is not valid JSON.
func readHolder(path string) (h holder) {
	text, err := os.ReadFile(path) //nolint:gosec // in the cache directory
	if err != nil || json.Unmarshal(text, &h) != nil {
		return holder{}
	}
	return h
}

// describeHolder describes the process that holds a lease, as text that follows the word "runs" in a message: " (of
// process 12)" for an adapter that is alive, or " (of OpenTofu, process 13, whose adapter is dead)" for an OpenTofu
// that is alive without its adapter. path is the path of the file that describes the holder. describeHolder returns ""
// if neither process is alive, or if the file cannot be read.
func describeHolder(path string) string {
	h := readHolder(path)
	switch {
	case h.Adapter.Alive():
		return fmt.Sprintf(" (of process %d)", h.Adapter.PID)
	case h.Tofu != nil && h.Tofu.Alive():
		return fmt.Sprintf(" (of OpenTofu, process %d, whose adapter is dead)", h.Tofu.PID)
	default:
		return ""
	}
}

// allDead reports whether the adapter, the OpenTofu of its last run, the providers of that run, and all other members
// of the process groups of OpenTofu and the providers are dead. A process that cannot be inspected counts as dead.
// allDead returns false if the holder records no process of OpenTofu, because a run is being started or has not been
// started yet; it therefore returns false for the zero holder.
func (h holder) allDead() bool {
	if h.Tofu == nil || h.Adapter.Alive() {
		return false
	}
	leaders := append(h.Providers, *h.Tofu)
	return !slices.ContainsFunc(leaders, func(p opentofu.Process) bool { return p.Alive() || opentofu.Orphaned(p) })
}

// replaceHolder records this process as the holder, in memory and in the file that describes the holder, in place of
// the previous one. The caller must hold the lock file of the lease. replaceHolder keeps the start times of
// earlier runs that may have left a lock of the state behind, for MayHaveLeftLock and LeftLock. A run of the previous
// holder whose end is not recorded, because its adapter died, is added to them. The previous holder's processes are
// forgotten. A missing or damaged file counts as a previous holder without runs. replaceHolder returns an error if the
// file cannot be written.
func (l *Lease) replaceHolder() error {
	former := readHolder(l.holderPath)
	l.holder = holder{Adapter: opentofu.Current(), Left: former.Left}
	if !former.Running.IsZero() {
		l.holder.Left = append(l.holder.Left, former.Running)
	}
	return l.writeHolder()
}

// RecordStart records that a run of OpenTofu is about to be started; it must be called before the run starts. Until
// RecordProcess, other processes assume that the run is alive. mayLeaveLock states whether the run could leave a lock
// of the state behind. If so, RecordEnd must be called after the run. MayHaveLeftLock and LeftLock do not count the
// run before that; if the adapter dies first, those of the next lease of the same name count it. RecordStart returns
// an error if the file that describes the holder cannot be written; this lease knows of the start nevertheless.
func (l *Lease) RecordStart(mayLeaveLock bool) error {
	l.holder.Tofu = nil
	if mayLeaveLock {
		l.holder.Running = time.Now()
	}
	return l.writeHolder()
}

// RecordProcess records the process of OpenTofu in the run that RecordStart announced. Once this adapter is dead,
// processes that wait for the lease inspect that process. If it runs for longer than Options.HungAfter, they interrupt
// and finally kill it; if it is dead, they kill the remaining processes of its group. RecordProcess returns an error if
// the file that describes the holder cannot be written; this lease knows the process nevertheless.
func (l *Lease) RecordProcess(run opentofu.Process) error {
	l.holder.Tofu = &run
	return l.writeHolder()
}

// RecordProviders records the leaders of the process groups of the providers that the next run uses, so that processes
// that wait for the lease kill these groups if they outlive both the adapter and OpenTofu. The leaders replace those of
// the last call; nil removes them. RecordProviders returns an error if the file that describes the holder cannot be
// written; this lease knows the leaders nevertheless.
func (l *Lease) RecordProviders(leaders []opentofu.Process) error {
	l.holder.Providers = leaders
	return l.writeHolder()
}

// RecordEnd records the end of a run for which the caller called RecordStart with mayLeaveLock. inOrder states whether
// the run ended by itself and released its locks. tookLock states whether the run held the lock of the state, which
// proves that no earlier run left one behind. If inOrder is false, MayHaveLeftLock returns true from now on, also for
// later leases of the same name. If inOrder and tookLock are true, MayHaveLeftLock returns false from now on. Each of
// these results applies until a later run changes it. If inOrder is true and tookLock is false, the result does not
// change. RecordEnd returns an error if the file that describes the holder cannot be written; this lease knows of the
// end nevertheless.
func (l *Lease) RecordEnd(inOrder, tookLock bool) error {
	if !inOrder {
		l.holder.Left = append(l.holder.Left, l.holder.Running)
	}
	if inOrder && tookLock {
		l.holder.Left = nil
	}
	l.holder.Running = time.Time{}
	return l.writeHolder()
}

// MayHaveLeftLock reports whether a lock of the state may remain from a run that did not end in order, under this lease
// or an earlier one of the same name. A run whose adapter died before it called RecordEnd counts as such a run. The
// result becomes false after a later run that held the lock of the state and ended in order. A run that has not ended
// yet does not count.
func (l *Lease) MayHaveLeftLock() bool { return len(l.holder.Left) > 0 }

// LeftLock reports whether a lock of the state that was created at this time may have been taken by one of the runs
// that MayHaveLeftLock counts: such a run began at that time or less than lockDelay, 10 seconds, earlier. Other
// processes of this machine that do not hold the lease can have taken such a lock as well. The result is false if
// MayHaveLeftLock returns false.
func (l *Lease) LeftLock(created time.Time) bool {
	return slices.ContainsFunc(l.holder.Left, func(began time.Time) bool {
		return !created.Before(began) && created.Before(began.Add(lockDelay))
	})
}

// writeHolder replaces the file that describes the holder by the holder of this lease, as JSON. It returns an error if
// the file cannot be written.
func (l *Lease) writeHolder() error {
	text, err := json.Marshal(l.holder)
	if err != nil {
		return err
	}
	return privatefs.WriteFile(l.holderPath, text)
}
