package opentofu

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// Process identifies a process until the machine reboots, by its id and its start time. The kernel reuses process ids,
// but not with the same start time. A Start of 0 means that the process did not exist, or could not be read, when it
// was identified; such a Process is never alive. The zero value identifies no process, and is never alive either.
type Process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks between boot and start, 0 if the process did not exist
}

// status is the part of /proc/PID/stat that this package reads. A process that does not exist or cannot be read has
// dead set and the other fields zero. A zombie has dead set together with its group and its start time.
type status struct {
	dead  bool   // the process does not exist, or is a zombie
	group int    // the id of the process group
	start uint64 // clock ticks since boot, 0 if the process does not exist
}

// CheckPlatform returns an error unless goos, a value of runtime.GOOS, is "linux". On other systems the adapter cannot
// run OpenTofu safely: it finds the processes of killed commands in /proc, and uses locks that only Linux has. The
// commands that do not run OpenTofu, which are most of those for authors, need no such check.
func CheckPlatform(goos string) error {
	if goos == "linux" {
		return nil
	}
	return fmt.Errorf("the adapter runs OpenTofu on linux only, and this is %s: "+
		"bindings, provision templates and the state backend need Linux, for example in a container", goos)
}

// Current returns the identity of this process.
func Current() Process { return Identify(os.Getpid()) }

// Identify returns the identity of the process that has this id now. Its Start is 0 if no process has the id, or if
// /proc cannot be read.
func Identify(pid int) Process { return Process{PID: pid, Start: statusOf(pid).start} }

// Alive reports whether the process runs. It returns false for a zombie, for a process that has the same id and another
// start time, and if the process cannot be inspected.
func (p Process) Alive() bool {
	s := statusOf(p.PID)
	return !s.dead && s.start == p.Start
}

// Age returns the time since the process started, accurate to about a second, or 0 if the kernel does not report its
// uptime. It does not check whether the process still runs. For a Start of 0, the result is the time since the machine
// started.
func (p Process) Age() time.Duration {
	const ticks = 100 // per second, on all platforms
	uptime, ok := systemUptime()
	if !ok {
		return 0
	}
	start := time.Duration(p.Start) * time.Second / ticks //nolint:gosec // the number of ticks is small enough
	return uptime - start
}

// statusOf returns the status of the process with this id, which it reads from /proc/PID/stat. The result has the field
// dead set for a zombie, and only that field if the process does not exist, or the file cannot be read or has an
// unexpected form.
func statusOf(pid int) status {
	const state, group, start = 0, 2, 19
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if err != nil || len(fields) <= start {
		return status{dead: true}
	}
	leader, err := strconv.Atoi(string(fields[group]))
	began, startErr := strconv.ParseUint(string(fields[start]), 10, 64)
	if err != nil || startErr != nil {
		return status{dead: true}
	}
	return status{dead: fields[state][0] == 'Z' || fields[state][0] == 'X', group: leader, start: began}
}

// Orphaned reports whether the leader of a process group is dead while other members of the group still run. Zombies
// count as dead. The group is identified by leader.PID, which the kernel does not reuse as long as the group has
// members. Orphaned returns false if another process has that id now, with another start time, and if /proc cannot be
// read. If leader.Start is 0, because the caller does not know it, the leader counts as dead only if no process has its
// id, not even a zombie.
func Orphaned(leader Process) bool {
	if s := statusOf(leader.PID); s.start != 0 && (!s.dead || s.start != leader.Start) {
		return false
	}
	return slices.ContainsFunc(processIDs(), func(pid int) bool {
		s := statusOf(pid)
		return !s.dead && s.group == leader.PID
	})
}

// processIDs returns the ids of all processes in /proc, which this process is permitted to see, in no particular order.
// The result is nil if /proc cannot be read.
func processIDs() []int {
	entries, _ := os.ReadDir("/proc")
	var ids []int
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil {
			ids = append(ids, pid)
		}
	}
	return ids
}

// UsersOf returns the other processes that have the file at a path open, each once and in no particular order. UsersOf
// follows a symbolic link at the path. It leaves out processes whose open files this process is not permitted to see.
// The result is nil if the file does not exist or cannot be inspected, or if no other process has it open.
func UsersOf(path string) []Process {
	file, err := os.Stat(path)
	if err != nil {
		return nil
	}
	var users []Process
	for _, pid := range processIDs() {
		dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
		descriptors, _ := os.ReadDir(dir)
		if pid != os.Getpid() && slices.ContainsFunc(descriptors, func(descriptor fs.DirEntry) bool {
			open, err := os.Stat(filepath.Join(dir, descriptor.Name()))
			return err == nil && os.SameFile(open, file)
		}) {
			users = append(users, Identify(pid))
		}
	}
	return users
}

// String returns the process id in decimal.
func (p Process) String() string { return strconv.Itoa(p.PID) }
