package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// hold pauses the provider at a point (before-create, after-create, before-destroy, after-destroy, and for claims also
// taking) if a test requests it. If the file <dir>/.hold-<point> exists, hold writes its process id to
// <dir>/.at-<point>. It returns when <dir>/.go-<point> exists, or when the first file has been removed, as at the end
// of a test. It ignores cancellation, so that a cancelled run waits as for a slow service.
func hold(dir, point string) error {
	if !exists(filepath.Join(dir, ".hold-"+point)) {
		return nil
	}
	temp := filepath.Join(dir, ".at-"+point+".tmp")
	if err := os.WriteFile(temp, []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		return err
	}
	if err := os.Rename(temp, filepath.Join(dir, ".at-"+point)); err != nil {
		return err
	}
	for exists(filepath.Join(dir, ".hold-"+point)) && !exists(filepath.Join(dir, ".go-"+point)) {
		time.Sleep(5 * time.Millisecond)
	}
	return nil
}

// exists reports whether a file exists.
func exists(name string) bool {
	_, err := os.Stat(name)
	return !errors.Is(err, fs.ErrNotExist)
}
