package outfile_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"service-adapter/internal/outfile"
)

// The kinds of files that a path can name are tested with the commands that write them, in cmd/service-adapter.

func product(to io.Writer) error {
	_, err := io.WriteString(to, "new")
	return err
}

func create(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func expect(t *testing.T, path, want string) {
	t.Helper()
	if text, err := os.ReadFile(path); err != nil || string(text) != want {
		t.Errorf("%s contains %q, want %q: %v", path, text, want, err)
	}
}

// TestWriteEndsWithContext shows that a command which waits for the reader of a pipe can be interrupted.
func TestWriteEndsWithContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := outfile.Write(ctx, path, 0o600, product); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// TestWriteFailsWhole shows that a product which is not complete leaves the old file and nothing else.
func TestWriteFailsWhole(t *testing.T) {
	dir := t.TempDir()
	path := create(t, filepath.Join(dir, "file"), "old")
	broken := errors.New("broken")
	err := outfile.Write(t.Context(), path, 0o600, func(to io.Writer) error { return errors.Join(product(to), broken) })
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	expect(t, path, "old")
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

func TestKeepPrevious(t *testing.T) {
	dir := t.TempDir()
	path, kept := filepath.Join(dir, "file"), filepath.Join(dir, "kept")
	output, err := outfile.Resolve(path)
	if err != nil {
		t.Fatal(err)
	}
	keep := func(want ...string) {
		t.Helper()
		if err := output.KeepPrevious(kept); err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != len(want) {
			t.Errorf("%v, want %q: %v", entries, want, err)
		}
	}
	keep()
	create(t, path, "first")
	keep("file", "kept")
	keep("file", "kept") // both names are links of one file
	expect(t, path, "first")
	expect(t, kept, "first")
	if err := output.Write(t.Context(), 0o600, product); err != nil {
		t.Fatal(err)
	}
	expect(t, kept, "first")
	keep("file", "kept")
	expect(t, kept, "new")

	if err := errors.Join(os.Remove(kept), os.Symlink("elsewhere", kept)); err != nil {
		t.Fatal(err)
	}
	if err := output.KeepPrevious(kept); err == nil {
		t.Error("a link was replaced")
	}
	expect(t, path, "new")
}
