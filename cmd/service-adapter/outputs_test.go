package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"service-adapter/spec/kit"
)

// outputCommands returns the commands that write a file whose path the user enters, OUT in these command lines, with
// the permissions of the file.
func outputCommands() map[string]os.FileMode {
	return map[string]os.FileMode{
		"service-adapter bindings export OUT":                                             0o600,
		"service-adapter bindings state pull b1 --output OUT":                             0o600,
		"service-adapter instance state pull i1 --output OUT":                             0o600,
		"service-adapter pak docs pak --output OUT":                                       0o644,
		"service-adapter pak build redis -t current --binary tofu=/bin/true --output OUT": 0o644,
	}
}

// TestOutputFiles runs each command that has an output file against every kind of file that a path can name.
func TestOutputFiles(t *testing.T) {
	kit.Root(t, "create devices and mount file systems")
	site := newOperatorsSite(t)
	site.exist(t)
	if err := os.Symlink(filepath.Join(repository(t), "spec", "parity", "pak"),
		filepath.Join(site.dir, "redis")); err != nil {
		t.Fatal(err)
	}
	for command, mode := range outputCommands() {
		t.Run(command, func(t *testing.T) {
			o := outputCommand{operatorsSite: site, command: command, mode: mode}
			t.Run("a device", o.writesDevice)
			t.Run("a full device", o.failsOnFullDevice)
			t.Run("a pipe", o.writesPipe)
			t.Run("a descriptor", o.appendsToDescriptor)
			t.Run("a regular file", o.replacesFile)
			t.Run("links", o.followsLinks)
			t.Run("a dangling link", o.createsTargetOfLink)
			t.Run("a directory", o.rejectsDirectory)
			t.Run("a read-only file system", o.keepsFileOnReadOnlyDisk)
			t.Run("a full disk", o.keepsFileOnFullDisk)
		})
	}
}

// An outputCommand is a command with an output file, and the permissions of that file.
type outputCommand struct {
	operatorsSite
	command string
	mode    os.FileMode
}

// to runs the command with a path. redirect, such as ">file", is added to its command line.
func (o outputCommand) to(path, redirect string) (string, error) {
	output, err := o.run(strings.ReplaceAll(o.command, "OUT", path)+redirect, "")
	return string(output), err
}

// succeeds runs the command with a path and fails the test if the command fails.
func (o outputCommand) succeeds(t *testing.T, path, redirect string) {
	t.Helper()
	if output, err := o.to(path, redirect); err != nil {
		t.Fatalf("%s: %v\n%s", path, err, output)
	}
}

// fails runs the command with a path and fails the test unless the command reports the path and the reason.
func (o outputCommand) fails(t *testing.T, path, reason string) {
	t.Helper()
	output, err := o.to(path, "")
	if err == nil || !strings.Contains(output, path) || !strings.Contains(output, reason) {
		t.Fatalf("%v, want an error that names %s and %q:\n%s", err, path, reason, output)
	}
}

// device creates a device like /dev/null or /dev/full.
func device(t *testing.T, minor int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "device")
	if err := syscall.Mknod(path, syscall.S_IFCHR|0o666, 1<<8|minor); err != nil {
		t.Fatal(err)
	}
	return path
}

// expectMode fails the test unless the file at a path, or the link itself, has this type and these permissions.
func expectMode(t *testing.T, path string, want os.FileMode) {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != want {
		t.Errorf("%s has the mode %s, want %s", path, info.Mode(), want)
	}
}

// expectProduct fails the test unless a regular file contains the product of the command.
func (o outputCommand) expectProduct(t *testing.T, path string) {
	t.Helper()
	expectMode(t, path, o.mode)
	if text := content(t, path); len(text) < 100 || strings.Contains(text, "before") {
		t.Errorf("%s contains %q", path, text)
	}
}

// content returns the content of a file, and fails the test if it cannot be read.
func content(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// expectOnly fails the test unless a directory contains exactly these names.
func expectOnly(t *testing.T, dir string, want ...string) {
	t.Helper()
	if got := kit.Names(t, dir); strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("%s contains %q, want %q", dir, got, want)
	}
}

// writesDevice: a device receives the product, and no other file is created.
func (o outputCommand) writesDevice(t *testing.T) {
	path := device(t, 3)
	o.succeeds(t, path, "")
	expectMode(t, path, os.ModeDevice|os.ModeCharDevice|0o666&^umask())
	expectOnly(t, filepath.Dir(path), "device")
}

// failsOnFullDevice: a device that cannot be written is an error, and the device stays.
func (o outputCommand) failsOnFullDevice(t *testing.T) {
	path := device(t, 7)
	o.fails(t, path, "no space left on device")
	expectMode(t, path, os.ModeDevice|os.ModeCharDevice|0o666&^umask())
}

// writesPipe: the reader of a pipe receives the product, and no other file is created.
func (o outputCommand) writesPipe(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	received := filepath.Join(t.TempDir(), "received")
	reader := fmt.Sprintf("timeout 10 cat %s >%s & ", path, received)
	command := strings.ReplaceAll(o.command, "OUT", path)
	if output, err := o.run(reader+command+"; exit=$?; wait; exit $exit", ""); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	expectMode(t, path, os.ModeNamedPipe|0o600)
	if text := content(t, received); len(text) < 100 {
		t.Errorf("the reader received %q", text)
	}
	expectOnly(t, dir, "pipe")
}

// appendsToDescriptor: a file that the shell has opened for appending keeps its content.
func (o outputCommand) appendsToDescriptor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("before\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	o.succeeds(t, "/dev/fd/9", " 9>>"+path)
	expectMode(t, path, 0o640)
	if text := content(t, path); !strings.HasPrefix(text, "before\n") || len(text) < 100 {
		t.Errorf("%s contains %q", path, text)
	}
	expectOnly(t, filepath.Dir(path), "log")
}

// replacesFile: a regular file is replaced by a new one, so that a hard link to it keeps the old content.
func (o outputCommand) replacesFile(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "file"), filepath.Join(dir, "other")
	if err := os.WriteFile(path, []byte("before"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(path, other); err != nil {
		t.Fatal(err)
	}
	o.succeeds(t, path, "")
	o.expectProduct(t, path)
	if content(t, other) != "before" {
		t.Error("the file was overwritten in place")
	}
}

// followsLinks: the file that several symbolic links lead to is replaced, and the links stay.
func (o outputCommand) followsLinks(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "link")
	for _, err := range []error{
		os.MkdirAll(filepath.Join(dir, "real", "below"), 0o700),
		os.WriteFile(filepath.Join(dir, "real", "file"), []byte("before"), 0o600),
		os.Symlink("real/below", filepath.Join(dir, "short")),
		os.Symlink("../file", filepath.Join(dir, "real", "below", "second")), // the kernel resolves it from real/below
		os.Symlink("short/second", path),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	o.succeeds(t, path, "")
	expectMode(t, path, os.ModeSymlink|0o777)
	expectMode(t, filepath.Join(dir, "real", "below", "second"), os.ModeSymlink|0o777)
	o.expectProduct(t, filepath.Join(dir, "real", "file"))
	expectOnly(t, dir, "link", "real", "short")
}

// createsTargetOfLink: the missing target of a symbolic link is created.
func (o outputCommand) createsTargetOfLink(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "link")
	if err := os.Symlink("target", path); err != nil {
		t.Fatal(err)
	}
	o.succeeds(t, path, "")
	expectMode(t, path, os.ModeSymlink|0o777)
	o.expectProduct(t, filepath.Join(dir, "target"))
}

// rejectsDirectory: a directory, a loop of links and a file in a missing directory are errors.
func (o outputCommand) rejectsDirectory(t *testing.T) {
	dir := t.TempDir()
	o.fails(t, dir, "is a directory")
	expectOnly(t, dir)
	loop := filepath.Join(dir, "loop")
	if err := os.Symlink("loop", loop); err != nil {
		t.Fatal(err)
	}
	o.fails(t, loop, "too many levels of symbolic links")
	o.fails(t, filepath.Join(dir, "missing", "file"), "no such file or directory")
}

// keepsFileOnReadOnlyDisk: a file that cannot be replaced keeps its content.
func (o outputCommand) keepsFileOnReadOnlyDisk(t *testing.T) {
	dir := t.TempDir()
	mountMemory(t, dir, "size=64k")
	path := filepath.Join(dir, "file")
	if err := os.WriteFile(path, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	o.fails(t, path, "read-only file system")
	if content(t, path) != "before" {
		t.Error("the file was changed")
	}
}

// keepsFileOnFullDisk: without space for the new file, the file keeps its content and no other file is left.
func (o outputCommand) keepsFileOnFullDisk(t *testing.T) {
	dir := t.TempDir()
	mountMemory(t, dir, "size=8k")
	path := filepath.Join(dir, "file")
	if err := os.WriteFile(path, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	_ = os.WriteFile(filepath.Join(dir, "filler"), make([]byte, 1<<16), 0o600) // fills the disk
	o.fails(t, path, "no space left on device")
	if content(t, path) != "before" {
		t.Error("the file was changed")
	}
	expectOnly(t, dir, "file", "filler")
}

// mountMemory mounts a file system in memory over a directory until the end of the test.
func mountMemory(t *testing.T, dir, options string) {
	t.Helper()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		kit.Missing(t, "mounting a tmpfs: "+err.Error())
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
}

// umask returns the umask of this process.
func umask() os.FileMode {
	mask := syscall.Umask(0)
	syscall.Umask(mask)
	return os.FileMode(mask) //nolint:gosec // at most 0o777
}
