//go:build !linux

package scratch

import (
	"errors"
	"os"
)

// memoryFile returns an error, because files that exist only in memory are a feature of Linux.
func memoryFile() (*os.File, error) {
	return nil, errors.New("creating a file in memory: only Linux can do it")
}
