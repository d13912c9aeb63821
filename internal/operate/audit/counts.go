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

// A resultCounts contains, by command and then by result, how many commands ended with that result.
type resultCounts map[string]map[string]uint64

// Counts returns how many commands ended with each result since the audit log at a path was first written. Rotating
// or deleting the log does not change the counts. Commands that were killed, or whose result could not be written to
// the disk, are not counted. The map is empty if no result has been counted, and if the file of the counts is damaged:
// the next result then begins the counts anew. Counts returns an error if the file cannot be read.
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

// countResult adds one to the count of a result of the command, unless Path is "". It replaces the file of the counts
// as a whole, under the lock of the file. An error, or another process that holds the lock for longer than
// countingLimit, is only logged, because counting must not affect the command. The cancellation of ctx does not end it.
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

// addResult adds one to the count of a result in the file at a path, whose lock is held by the open file locked. A
// damaged file is replaced with a warning in the log. The file is not synced to the disk: a power loss may lose counts,
// but a command must not wait for the disk. addResult returns an error if the file cannot be read, written or given its
// owner.
func (l *Log) addResult(path string, locked *os.File, result string) error {
	counts, err := readCounts(locked)
	if errors.Is(err, errDamaged) {
		l.Logger.Warn("the counts of results for metrics begin anew", "file", path, "error", err)
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

// keepOwner gives the file at a path the owner of the audit log if this process is root and the audit log belongs to
// another user, so that the user of the broker can still replace the file. It does nothing if the audit log cannot be
// inspected, and returns an error if the owner cannot be changed.
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

// readCounts decodes the counts in an open file. An empty file contains none. The error wraps errDamaged if the content
// of the file is not that of counts, and is another one if the file is not a regular file or cannot be read. Without an
// error the map is not nil.
func readCounts(file *os.File) (resultCounts, error) {
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", file.Name())
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
