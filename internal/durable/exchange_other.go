//go:build !linux

package durable

import "syscall"

// exchangeInOneStep returns syscall.ENOSYS, because only Linux exchanges two directories in one step on every common
// file system.
func exchangeInOneStep(string, string) error { return syscall.ENOSYS }
