package main

import (
	"crypto/sha256"
	"os"
	"syscall"
	"time"
)

// The minimum size in bytes at which weigh has an effect, and the duration of the simulated start.
const (
	heavy = 100 << 20
	work  = time.Second
)

// weigh makes this provider behave like large public providers, if many bytes were appended to its executable: it reads
// all of the file into memory and works for a second before it serves.
func weigh() {
	path, err := os.Executable()
	if err != nil {
		return
	}
	file, err := os.Open(path)
	if err != nil {
		return
	}
	defer func() { _ = file.Close() }() // it is only read
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
