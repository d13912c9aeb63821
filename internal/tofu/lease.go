package tofu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"service-adapter/internal/opentofu"
)

// lockInterval is how often a lock that another run holds is tried.
const lockInterval = 20 * time.Millisecond

// lockFile takes the lock of a file, creating it, and waits within the context while others hold it; waiting, which may be
// nil, is called before each further try. The lock belongs to the open file: whoever inherits the descriptor holds it, too.
func lockFile(ctx context.Context, path string, waiting func()) (*os.File, error) {
	for {
		if file, err := tryLock(path); file != nil || err != nil {
			return file, err
		}
		if waiting != nil {
			waiting()
		}
		select {
		case <-ctx.Done():
			return nil, opentofu.Ended(ctx)
		case <-time.After(lockInterval):
		}
	}
}

// tryLock is lockFile without waiting: nil while others hold the lock.
func tryLock(path string) (*os.File, error) {
	for {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, err
		}
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil && sameFile(file, path) {
			return file, nil
		}
		if closeErr := file.Close(); closeErr != nil {
			return nil, closeErr
		}
		switch {
		case errors.Is(err, syscall.EWOULDBLOCK):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		// The former holder removed the file between our open and our lock.
	}
}

// sameFile tells whether the open file is still the one of this name.
func sameFile(file *os.File, path string) bool {
	opened, err := file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(path)
	return err == nil && os.SameFile(opened, named)
}

// lease is the right to work on a workspace on this machine. OpenTofu and its providers inherit the lock, so it lasts until
// the last process of a run is gone, whatever became of the adapter that started it. What a template starts inherits it, too; see
// abandon.
type lease struct {
	file  *os.File
	path  string // of the lock
	owner string // path of the file that tells who holds it
	now   holder
}

// holder is what the owner's file holds.
type holder struct {
	Adapter opentofu.Process `json:"adapter"`
	// Tofu leads the process group of the last run; nil while one is being started, about which nobody can tell then.
	Tofu *opentofu.Process `json:"tofu,omitempty"`
	// Providers lead the process groups of the providers that the adapter started for it.
	Providers []opentofu.Process `json:"providers,omitempty"`
	// Running is when the run that is under way began, and Left are the beginnings of runs that may have left a lock of the state
	// behind: those that did not end in order.
	Running time.Time   `json:"running,omitzero"`
	Left    []time.Time `json:"left,omitempty"`
}

// takeLease waits for the lease. Providers that outlived both the adapter and the OpenTofu that started them are killed.
func (e *Engine) takeLease(ctx context.Context, path string) (*lease, error) {
	l := newLease(path)
	file, err := lockFile(ctx, l.path, func() {
		l.killOrphans(e)
		l.abandon(e)
	})
	if err != nil {
		return nil, err
	}
	return l, l.hold(file)
}

// freeLease takes a lease that nobody has, or only processes that a template left behind; nil when another run has it.
func (e *Engine) freeLease(path string) (*lease, error) {
	l := newLease(path)
	file, err := tryLock(l.path)
	if file == nil && err == nil {
		l.abandon(e)
		file, err = tryLock(l.path)
	}
	if file == nil {
		return nil, err
	}
	return l, l.hold(file)
}

// lockSuffix ends the names of locks; a workspace's name stands before it.
const lockSuffix = ".lock"

func newLease(path string) *lease { return &lease{path: path + lockSuffix, owner: path + ".json"} }

// hold records who has the lease now, whose locked file this is.
func (l *lease) hold(file *os.File) error {
	l.file = file
	if err := errors.Join(l.inherit(), l.removeMarks()); err != nil {
		return errors.Join(err, l.release())
	}
	return nil
}

// inherit puts this process in the place of the former holder. What remains are the beginnings of runs that did not end in order. A run
// that was under way when its adapter died counts: nobody saw its end.
func (l *lease) inherit() error {
	former := readHolder(l.owner)
	l.now = holder{Adapter: opentofu.Current(), Left: former.Left}
	if !former.Running.IsZero() {
		l.now.Left = append(l.now.Left, former.Running)
	}
	return l.record()
}

// starts records that a run is about to be started, which may leave a lock of the state behind or not, and started the run that works under
// the lease now.
func (l *lease) starts(mayLeave bool) error {
	l.now.Tofu = nil
	if mayLeave {
		l.now.Running = time.Now()
	}
	return l.record()
}

func (l *lease) started(tofu opentofu.Process) error {
	l.now.Tofu = &tofu
	return l.record()
}

// ended records how a run ended that might leave a lock: in order, and whether it had the lock, which then nobody else left there.
func (l *lease) ended(inOrder, locked bool) error {
	if !inOrder {
		l.now.Left = append(l.now.Left, l.now.Running)
	}
	if inOrder && locked {
		l.now.Left = nil
	}
	l.now.Running = time.Time{}
	return l.record()
}

// serves records the providers that the next run uses.
func (l *lease) serves(providers []opentofu.Process) error {
	l.now.Providers = providers
	return l.record()
}

func (l *lease) record() error {
	text, err := json.Marshal(l.now)
	if err != nil {
		return err
	}
	return writeFile(l.owner, text)
}

// readHolder reads an owner's file; nobody is known to hold the lease where there is none.
func readHolder(path string) (h holder) {
	text, err := os.ReadFile(path) //nolint:gosec // in the cache directory
	if err != nil || json.Unmarshal(text, &h) != nil {
		return holder{}
	}
	return h
}

// byWhom names the process that has the lease of a path, to be put after "runs"; "" when it is not known.
func byWhom(path string) string {
	h := readHolder(path + ".json")
	switch {
	case h.Adapter.Alive():
		return fmt.Sprintf(" (of process %d)", h.Adapter.PID)
	case h.Tofu != nil && h.Tofu.Alive():
		return fmt.Sprintf(" (of OpenTofu, process %d, whose adapter is dead)", h.Tofu.PID)
	default:
		return ""
	}
}

// over tells whether the adapter and its last run with its providers are known to be dead.
func (h holder) over() bool {
	if h.Tofu == nil || h.Adapter.Alive() {
		return false
	}
	return !slices.ContainsFunc(append(h.Providers, *h.Tofu), func(p opentofu.Process) bool { return p.Alive() || opentofu.Orphaned(p) })
}

// abandon gives up a lock that nobody has but processes which a template left behind: they inherited it, and may live for ever. The next
// try makes a new lock. Everybody who waits may do this, one at a time, and then the owner's file tells of a live adapter.
func (l *lease) abandon(e *Engine) {
	if !readHolder(l.owner).over() {
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
	h := readHolder(l.owner)
	if !h.over() {
		return
	}
	users := opentofu.UsersOf(l.path)
	// Seen from another container a process has another id, but has started at the same time.
	if len(users) == 0 || slices.ContainsFunc(users, func(p opentofu.Process) bool { return p.Start == h.Tofu.Start }) {
		return
	}
	e.logger.Warn("going on although processes that a template left behind keep the lock of an earlier run", "lock", l.path, "processes", users)
	if err := errors.Join(l.inherit(), remove(l.path)); err != nil {
		e.logger.Warn("giving up a lock", "lock", l.path, "error", err)
	}
}

// killOrphans kills what is left of the holder's run when both the adapter and OpenTofu are dead, and stops an OpenTofu that runs for too
// long after its adapter died.
func (l *lease) killOrphans(e *Engine) {
	h := readHolder(l.owner)
	if h.Tofu == nil || h.Adapter.Alive() {
		return
	}
	if h.Tofu.Alive() {
		if limit := e.options.StaleLock(strings.TrimSuffix(filepath.Base(l.path), lockSuffix)); limit > 0 && h.Tofu.Age() > limit {
			l.stop(e, *h.Tofu)
		}
		return
	}
	if opentofu.Orphaned(*h.Tofu) {
		e.killOrphans(*h.Tofu)
	}
	// Their supervisors kill these, unless another run killed those.
	for _, provider := range h.Providers {
		if provider.Alive() || opentofu.Orphaned(provider) {
			e.killOrphans(provider)
		}
	}
}

// stop interrupts an OpenTofu, and kills it with its providers when it had the grace. On a second interrupt it would exit without saving
// its state, so a file marks, for all who wait, that it was interrupted, and when.
func (l *lease) stop(e *Engine, run opentofu.Process) {
	mark := fmt.Sprintf("%s%s%d-%d", l.path, markSuffix, run.PID, run.Start)
	file, err := os.OpenFile(mark, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) //nolint:gosec // in the cache directory
	if err == nil {
		e.logger.Warn("interrupting an OpenTofu that hangs since its adapter died", "process", run.PID)
		if err := errors.Join(file.Close(), syscall.Kill(run.PID, syscall.SIGINT)); err != nil {
			e.logger.Warn("interrupting an OpenTofu", "process", run.PID, "error", err)
		}
		return
	}
	if info, err := os.Stat(mark); err == nil && time.Since(info.ModTime()) > e.options.Grace {
		e.killOrphans(run)
	}
}

// markSuffix and a process follow the lock's path in the names of marks.
const markSuffix = ".interrupted-"

// removeMarks removes the marks of former holders.
func (l *lease) removeMarks() error {
	marks, err := filepath.Glob(l.path + markSuffix + "*")
	for _, mark := range marks {
		err = errors.Join(err, remove(mark))
	}
	return err
}

// killOrphans kills a process group.
func (e *Engine) killOrphans(leader opentofu.Process) {
	e.logger.Warn("killing orphaned processes", "group", leader.PID)
	if err := syscall.Kill(-leader.PID, syscall.SIGKILL); err != nil {
		e.logger.Warn("killing orphaned processes", "group", leader.PID, "error", err)
	}
}

// release removes the lease's files and gives the lock back. What tells of a lock that may be left behind stays for the next holder.
func (l *lease) release() error {
	var err error
	if len(l.now.Left) == 0 {
		err = remove(l.owner)
	}
	return errors.Join(err, remove(l.path), l.file.Close())
}

// remove removes a file that may be gone.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// writeFile replaces a file as a whole, mode 0600.
func writeFile(path string, content []byte) error {
	temp := path + ".tmp"
	if err := os.WriteFile(temp, content, 0o600); err != nil {
		return err
	}
	return os.Rename(temp, path)
}
