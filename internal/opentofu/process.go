package opentofu

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// Process identifies a process for ever: process ids are used again, together with the start time they are not.
type Process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks since boot
}

// status is what /proc tells about a process.
type status struct {
	dead  bool // it does not exist, or it ended and nobody waited for it yet
	group int
	start uint64 // 0 when it does not exist
}

// Current returns this process.
func Current() Process { return Identify(os.Getpid()) }

// Identify returns the process with this id; its Start is 0 when there is none.
func Identify(pid int) Process { return Process{PID: pid, Start: statusOf(pid).start} }

// Alive tells whether the process still runs.
func (p Process) Alive() bool {
	s := statusOf(p.PID)
	return !s.dead && s.start == p.Start
}

// Age is how long ago the process started, 0 where the kernel does not tell.
func (p Process) Age() time.Duration {
	const ticks = 100 // a second, on all platforms
	var system syscall.Sysinfo_t
	if err := syscall.Sysinfo(&system); err != nil {
		return 0
	}
	return time.Duration(system.Uptime)*time.Second - time.Duration(p.Start)*time.Second/ticks //nolint:gosec // it is no negative number
}

// statusOf reads /proc/PID/stat. Its second field, the program's name, may hold anything, so fields count from its end.
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

// Orphaned tells whether the leader of a process group is dead while members of it still run. As long as it has members the
// kernel gives its number to no other process.
func Orphaned(leader Process) bool {
	if s := statusOf(leader.PID); s.start != 0 && (!s.dead || s.start != leader.Start) {
		return false
	}
	return slices.ContainsFunc(running(), func(pid int) bool {
		s := statusOf(pid)
		return !s.dead && s.group == leader.PID
	})
}

// running are the ids of all processes.
func running() []int {
	entries, _ := os.ReadDir("/proc")
	var ids []int
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil {
			ids = append(ids, pid)
		}
	}
	return ids
}

// UsersOf returns the processes other than this one that have a file open, as far as one may see that.
func UsersOf(path string) []Process {
	file, err := os.Stat(path)
	if err != nil {
		return nil
	}
	var users []Process
	for _, pid := range running() {
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

// String is the id.
func (p Process) String() string { return strconv.Itoa(p.PID) }
