//go:build !linux

package scratch

import (
	"errors"
	"os"
)

// memoryFile returns nil and an error in every case, because files that exist only in memory are a feature of Linux.
// The function for Linux creates such a file.
func memoryFile() (*os.File, error) {
	return nil, errors.New("creating a file in memory: only Linux can do it")
}
