package scratch

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// memoryFile returns a new file that exists only in memory and ends with the last process that has it open. It is not
// inherited by other processes unless it is passed to them.
func memoryFile() (*os.File, error) {
	descriptor, err := unix.MemfdCreate("service-adapter", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("creating a file in memory: %w", err)
	}
	return os.NewFile(uintptr(descriptor), "memory"), nil
}
