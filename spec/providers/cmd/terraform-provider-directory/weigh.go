package main

import (
	"crypto/sha256"
	"os"
	"syscall"
	"time"
)

// Of a provider with so many bytes, and how long it works when it starts.
const (
	heavy = 100 << 20
	work  = time.Second
)

// weigh makes this provider one as large public ones are, where somebody wrote that much behind its executable: it has
// all of it in memory and works for a second before it serves.
func weigh() {
	path, err := os.Executable()
	if err != nil {
		return
	}
	file, err := os.Open(path)
	if err != nil {
		return
	}
	defer func() { _ = file.Close() }() // only read
	info, err := file.Stat()
	if err != nil || info.Size() < heavy {
		return
	}
	all, err := syscall.Mmap(int(file.Fd()), 0, int(info.Size()), syscall.PROT_READ, syscall.MAP_PRIVATE)
	if err != nil {
		return
	}
	const step = 1 << 20
	sum := sha256.New()
	for begin, at := time.Now(), 0; at < len(all) || time.Since(begin) < work; at += step {
		sum.Write(all[at%len(all) : min(at%len(all)+step, len(all))])
	}
}
