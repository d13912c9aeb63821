package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/gomega" //nolint:staticcheck // gomega is designed for dot imports

	"service-adapter/internal/engine/lifecycle"
)

// damagePrepared empties or truncates files of the prepared directories, as a power loss can.
func damagePrepared(_ context.Context, t *trial, a action) {
	for _, m := range []*machine{t.broker, t.vm} {
		prepared := filepath.Join(m.cache(), "prepared")
		Expect(os.RemoveAll(prepared)).To(Succeed())
		Expect(copyTree(prepared, filepath.Join(t.store.warm, "prepared"))).To(Succeed())
		files, err := textFiles(prepared)
		Expect(err).NotTo(HaveOccurred())
		many := t.random.IntN(2) == 0
		for _, file := range files {
			if many || t.random.IntN(len(files)) == 0 {
				t.damage(file)
			}
		}
		m.set(object{"prepared_dir": ""})
	}
	t.struck = true
	if got := t.wait(a.begin(t)); got.Exit != 0 && a.kind == lifecycle.Binding && !a.destroys {
		t.settle()
		t.stuck = "a damaged prepared directory failed " + a.name + ": " + firstError(got.Stderr)
	}
}

// damage truncates a file to nothing or to half of its size.
func (t *trial) damage(file string) {
	info, err := os.Lstat(file)
	Expect(err).NotTo(HaveOccurred())
	size := info.Size() / 2 * int64(t.random.IntN(2))
	t.note(fmt.Sprintf("cutting %s to %d of %d bytes", strings.TrimPrefix(file, t.dir), size, info.Size()))
	Expect(os.Truncate(file, size)).To(Succeed())
}

// copyTree copies a directory. Programs are linked, because they are never damaged.
func copyTree(to, from string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, relative)
		switch {
		case entry.IsDir():
			return os.MkdirAll(target, 0o700)
		case entry.Type()&fs.ModeSymlink != 0:
			link, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(link, target)
		}
		text, err := os.ReadFile(path) //nolint:gosec // the run wrote it
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if info.Mode()&executable != 0 {
			return os.Link(path, target)
		}
		return os.WriteFile(target, text, info.Mode().Perm())
	})
}

// executable contains the execute permissions of programs.
const executable = 0o111

// textFiles returns the paths of the regular files below a directory, except programs.
func textFiles(dir string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.Mode()&executable == 0 {
			files = append(files, path)
		}
		return err
	})
	return files, err
}
