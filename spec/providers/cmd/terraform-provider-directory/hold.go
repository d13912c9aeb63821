package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// hold waits at a point (before-create, after-create, before-destroy, after-destroy, of claims also taking) while a
// test wants it to: when the file <dir>/.hold-<point> exists, hold writes its process id to <dir>/.at-<point> and
// returns once <dir>/.go-<point> exists or the first file is gone, as it is when the test ended. It looks at nothing
// else, so a cancelled run waits as a slow service would.
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

func exists(name string) bool {
	_, err := os.Stat(name)
	return !errors.Is(err, fs.ErrNotExist)
}
