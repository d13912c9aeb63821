package main

import (
	"archive/zip"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"service-adapter/brokerpak"
	"service-adapter/spec/kit"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"service-adapter": main})
}

// TestScripts runs testdata/script/*.txtar with the function main of this program as the program service-adapter. In
// addition to the commands of testscript, the scripts have these commands:
//
//	exits CODE PROGRAM [ARGUMENT…]
//		runs a program, which must end with this exit code
//	hollow SOURCE ZIP FILES BYTES
//		zips a pak with this number of additional empty files, and with one file in bin/linux/amd64 whose header
//		states this number of bytes
//	backdate STATE AGE
//		changes the time of creation in a local state to this age, such as 2h, or removes it if AGE is "unknown"
//	pak SOURCE TARGET
//		copies a pak, such as $REPOSITORY/spec/parity/pak, and adds the binaries of its manifest
//
// The condition "all" holds if the slow specs run as well; see kit.All. "[!all] skip" and "[!all] stop" leave out a
// script or its remainder.
func TestScripts(t *testing.T) {
	root := repository(t)
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("REPOSITORY", root)
			return nil
		},
		Condition: func(name string) (bool, error) {
			if name != "all" {
				return false, fmt.Errorf("there is no condition %q", name)
			}
			return kit.All(), nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"backdate": backdate,
			"exits":    exits,
			"hollow":   hollow,
			"pak":      func(ts *testscript.TestScript, neg bool, args []string) { makePak(ts, root, neg, args) },
		},
	})
}

// repository returns the absolute path of the root of this repository.
func repository(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// exits implements the command exits of TestScripts.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARGUMENT…]")
	}
	wanted, err := strconv.Atoi(args[0])
	ts.Check(err)
	code := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("running %s: %v", args[1], err)
		}
		code = exit.ExitCode()
	}
	if code != wanted {
		ts.Fatalf("exit code %d, wanted %d", code, wanted)
	}
}

// hollow implements the command hollow of TestScripts.
func hollow(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: hollow SOURCE ZIP FILES BYTES")
	}
	count, err := strconv.Atoi(args[2])
	ts.Check(err)
	size, err := strconv.ParseUint(args[3], 10, 64)
	ts.Check(err)
	file, err := os.Create(ts.MkAbs(args[1]))
	ts.Check(err)
	writer := zip.NewWriter(file)
	ts.Check(writer.AddFS(os.DirFS(ts.MkAbs(args[0]))))
	for i := range count {
		_, err := writer.Create(fmt.Sprintf("notes/%d", i))
		ts.Check(err)
	}
	_, err = writer.CreateRaw(&zip.FileHeader{Name: "bin/linux/amd64/more", UncompressedSize64: size})
	ts.Check(errors.Join(err, writer.Close(), file.Close()))
}

// makePak implements the command pak of TestScripts. root is the root of this repository.
func makePak(ts *testscript.TestScript, root string, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: pak SOURCE TARGET")
	}
	source, target := ts.MkAbs(args[0]), ts.MkAbs(args[1])
	ts.Check(os.CopyFS(target, os.DirFS(source)))
	ts.Check(addBinaries(root, target))
}

// addBinaries adds links to the binaries that `make tools` built to the directory of a pak, for all entries of its
// manifest. root is the root of this repository. It returns an error if a binary was not built or exists in the pak.
func addBinaries(root, dir string) error {
	pak, err := brokerpak.Open(dir)
	if err != nil {
		return err
	}
	defer pak.Close() // it was only read, so closing cannot lose data
	bin := filepath.Join(dir, "bin", runtime.GOOS, runtime.GOARCH)
	for _, binary := range pak.Manifest.Binaries {
		from := filepath.Join(root, "build", "providers", binary.Name)
		to := filepath.Join(bin, binary.Name+"_v"+binary.Version)
		if binary.Kind() == brokerpak.Tofu {
			from = filepath.Join(root, "build", "tofu", binary.Version, "tofu")
			to = filepath.Join(bin, binary.Version, "tofu")
		}
		if _, err := os.Stat(from); err != nil {
			return fmt.Errorf("%w: run `make tools` first", err)
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), os.Symlink(from, to)); err != nil {
			return err
		}
	}
	return nil
}
