package durable

import "golang.org/x/sys/unix"

// exchangeInOneStep gives two directories each other's path, so that both paths exist at every moment. Both must exist.
// It returns the error of the system call renameat2, which is syscall.EINVAL, syscall.ENOSYS or syscall.EOPNOTSUPP if
// the kernel or the file system cannot do that. After any error both directories are unchanged.
func exchangeInOneStep(from, to string) error {
	return unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_EXCHANGE)
}
