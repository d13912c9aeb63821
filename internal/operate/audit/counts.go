package audit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"service-adapter/internal/filelock"
	"service-adapter/internal/privatefs"
)

const (
	// countsSuffix follows the path of the audit log in the path of the file that contains the counts. The patterns by
	// which logrotate finds logs do not match it, so the counts survive the rotation of the log.
	countsSuffix = ".results"
	// largestCounts is the size, in bytes, above which a file of counts is damaged. Counts take about one kilobyte.
	largestCounts = 64 << 10
	// countingLimit is the time that counting one result may take, including the wait for other processes.
	countingLimit = time.Second
)

// errDamaged reports that a file does not contain counts.
var errDamaged = errors.New("the file does not contain counts of results")

// A resultCounts contains the numbers of changes that ended with a result, by the name of the command, such as
// "create-binding", and then by the result, such as "done". It is the JSON content of the file of the counts. A nil or
// empty map means that no result has been counted.
type resultCounts map[string]map[string]uint64

// Counts returns how many changes of bindings and service instances ended with each result, by command and result,
// since the audit log at the path auditLog was first written. It reads the file <auditLog>.results, which is
// independent of the rotation or deletion of the log. Changes are not counted if their process was killed or if the
// file could not be written. The map is empty, and not nil, if the file does not exist, is empty or is damaged; a
// damaged file is replaced with the next result, and the counts then start again from zero. Counts returns nil and an
// error if the file is not a regular file or cannot be read.
func Counts(auditLog string) (map[Result]uint64, error) {
	counts := map[Result]uint64{}
	// O_NONBLOCK: opening a pipe without a writer must not block.
	file, err := os.OpenFile(auditLog+countsSuffix, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return counts, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // the file was only read
	stored, err := readCounts(file)
	if err != nil && !errors.Is(err, errDamaged) {
		return nil, err
	}
	for command, results := range stored {
		for result, count := range results {
			counts[Result{Command: command, Result: result}] = count
		}
	}
	return counts, nil
}

// countResult adds one to the count of a result, such as "done", of the command l.Command in the file <l.Path>.results,
// which it creates if it is missing. It does nothing if l.Path is "". It replaces the file while it holds the file's
// lock. The end of ctx does not stop it, but it waits at most one second (countingLimit) for another process that holds
// the lock. Any error is only logged, because counting must not affect the command.
func (l *Log) countResult(ctx context.Context, result string) {
	if l.Path == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), countingLimit)
	defer cancel()
	path := l.Path + countsSuffix
	locked, err := filelock.Lock(ctx, path, nil)
	if err == nil {
		err = cmp.Or(l.addResult(path, locked, result), locked.Close())
	}
	if err != nil {
		l.Logger.Warn("a result was not added to the counts for metrics", "file", path, "error", err)
	}
}

// addResult adds one to the count of a result of l.Command in the file of the counts, and replaces the file at path.
// The caller holds the lock of the file; locked is the file, opened for reading at its beginning. A damaged file is
// replaced by new counts, with a warning in the log. The new file is not synced to the disk, so a power loss may lose
// counts.
//
// addResult returns an error, and the file is unchanged, if the file is not a regular file, cannot be read or cannot be
// written. It also returns an error if root cannot give the new file the owner of the audit log (see keepOwner); the
// result has been counted then.
func (l *Log) addResult(path string, locked *os.File, result string) error {
	counts, err := readCounts(locked)
	if errors.Is(err, errDamaged) {
		l.Logger.Warn("the counts of results for metrics start again from zero", "file", path, "error", err)
		counts, err = resultCounts{}, nil
	}
	if err != nil {
		return err
	}
	if counts[l.Command] == nil {
		counts[l.Command] = map[string]uint64{}
	}
	counts[l.Command][result]++
	text, err := json.Marshal(counts)
	if err == nil {
		err = privatefs.WriteFile(path, append(text, '\n'))
	}
	if err != nil {
		return err
	}
	return keepOwner(path, l.Path)
}

// keepOwner gives the file at path the owner and the group of the file auditLog if this process runs as root and
// auditLog belongs to another user, so that this user can still replace the file. Otherwise, and if auditLog does not
// exist or cannot be inspected, it changes nothing and returns nil. It returns an error if the owner cannot be changed.
func keepOwner(path, auditLog string) error {
	info, err := os.Stat(auditLog)
	if err != nil {
		return nil //nolint:nilerr // writing the event has reported that there is no log
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok && os.Geteuid() == 0 && owner.Uid != 0 {
		return os.Chown(path, int(owner.Uid), int(owner.Gid))
	}
	return nil
}

// readCounts reads the counts from the current position of an open file. An empty file, and the JSON text null, contain
// none; the map is then empty. The error is errDamaged if the content is larger than 64 KB (largestCounts) or is not a
// JSON object of counts. It is another error if the file is not a regular file or cannot be read. The map is nil if and
// only if there is an error.
func readCounts(file *os.File) (resultCounts, error) {
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", file.Name())
	}
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(file, largestCounts+1))
	if err != nil {
		return nil, err
	}
	counts := resultCounts{}
	if len(text) > largestCounts || len(text) > 0 && json.Unmarshal(text, &counts) != nil {
		return nil, errDamaged
	}
	if counts == nil { // the text is "null"
		counts = resultCounts{}
	}
	return counts, nil
}
