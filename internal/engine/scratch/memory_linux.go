package scratch

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// memoryFile returns a new empty file, open for reading and writing, that exists only in memory and ends with the last
// process that has it open. It is not inherited by other processes unless it is passed to them. The caller must close
// it. memoryFile returns nil and an error if the kernel cannot create the file.
func memoryFile() (*os.File, error) {
	descriptor, err := unix.MemfdCreate("service-adapter", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("creating a file in memory: %w", err)
	}
	return os.NewFile(uintptr(descriptor), "memory"), nil
}
