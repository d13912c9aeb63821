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

// A holder describes who holds a lease. It is stored in a file next to the lock file, for the processes that wait.
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

// readHolder reads the file that describes the holder of a lease. It returns a zero holder if the file is missing or
// damaged.
func readHolder(path string) (h holder) {
	text, err := os.ReadFile(path) //nolint:gosec // in the cache directory
	if err != nil || json.Unmarshal(text, &h) != nil {
		return holder{}
	}
	return h
}

// describeHolder describes the process that holds a lease, as a phrase that follows the word "runs". The path is that
// of the file that describes the holder. It returns "" if no live process is known.
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

// allDead reports whether the adapter, its last run and the providers of the run are known to be dead, with all members
// of the process groups of the run and the providers. It is false if the last run is not known.
func (h holder) allDead() bool {
	if h.Tofu == nil || h.Adapter.Alive() {
		return false
	}
	leaders := append(h.Providers, *h.Tofu)
	return !slices.ContainsFunc(leaders, func(p opentofu.Process) bool { return p.Alive() || opentofu.Orphaned(p) })
}

// replaceHolder records this process as the holder, in place of the previous one. The caller must hold the lock file of
// the lease or, if only processes that a template started hold that, the lock of its directory; see
// discardAbandonedLock. replaceHolder keeps the start times of earlier runs that may have left a lock of the state
// behind, for MayHaveLeftLock and LeftLock. A run of the previous holder whose end is not recorded, because its adapter
// died, is added to them. The previous holder's processes are forgotten. replaceHolder returns an error if the file
// that describes the holder cannot be written.
func (l *Lease) replaceHolder() error {
	former := readHolder(l.holderPath)
	l.holder = holder{Adapter: opentofu.Current(), Left: former.Left}
	if !former.Running.IsZero() {
		l.holder.Left = append(l.holder.Left, former.Running)
	}
	return l.writeHolder()
}

// RecordStart records that a run is about to be started; it must be called before the run starts. mayLeaveLock states
// whether the run could leave a lock of the state behind; if so, RecordEnd must be called after the run. Until
// RecordProcess, other processes assume that the run is alive. RecordStart returns an error if the file that describes
// the holder cannot be written.
func (l *Lease) RecordStart(mayLeaveLock bool) error {
	l.holder.Tofu = nil
	if mayLeaveLock {
		l.holder.Running = time.Now()
	}
	return l.writeHolder()
}

// RecordProcess records the process of the run that RecordStart announced. Processes that wait for the lease inspect it
// and, if this adapter is dead, end it once it hangs; see Options. RecordProcess returns an error if the file that
// describes the holder cannot be written.
func (l *Lease) RecordProcess(run opentofu.Process) error {
	l.holder.Tofu = &run
	return l.writeHolder()
}

// RecordProviders records the leaders of the process groups of the providers that the next run uses, so that processes
// that wait for the lease kill these groups if they outlive both the adapter and OpenTofu. They replace those of the
// last call; nil removes them. RecordProviders returns an error if the file that describes the holder cannot be
// written.
func (l *Lease) RecordProviders(leaders []opentofu.Process) error {
	l.holder.Providers = leaders
	return l.writeHolder()
}

// RecordEnd records the end of a run for which RecordStart was called with mayLeaveLock. inOrder states whether the run
// ended by itself and released its locks. If it is false, MayHaveLeftLock returns true from now on, also for later
// leases of the same name. tookLock states whether the run held the lock of the state, which proves that no earlier run
// left one behind. If inOrder and tookLock are true, MayHaveLeftLock returns false from now on. Otherwise its result
// does not change. RecordEnd returns an error if the file that describes the holder cannot be written; this lease knows
// of the end nevertheless.
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

// MayHaveLeftLock reports whether a run under this lease, or an earlier one of the same name, did not end in order, so
// that it may have left a lock of the state behind.
func (l *Lease) MayHaveLeftLock() bool { return len(l.holder.Left) > 0 }

// LeftLock reports whether one of the runs of which MayHaveLeftLock knows can have taken a lock that was created at
// this time, because the run began at most lockDelay earlier. Other processes of this machine that do not hold the
// lease can have taken such a lock as well.
func (l *Lease) LeftLock(created time.Time) bool {
	return slices.ContainsFunc(l.holder.Left, func(began time.Time) bool {
		return !created.Before(began) && created.Before(began.Add(lockDelay))
	})
}

// writeHolder writes the file that describes the holder. It returns an error if the file cannot be written.
func (l *Lease) writeHolder() error {
	text, err := json.Marshal(l.holder)
	if err != nil {
		return err
	}
	return privatefs.WriteFile(l.holderPath, text)
}
