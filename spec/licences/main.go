// Command licences writes the licences of the modules that are linked into Go programs, as a text for those who receive
// the programs:
//
//	go run ./spec/licences [-dir DIRECTORY] [-os OS] [-arch ARCHITECTURE] PACKAGE… > THIRD_PARTY_LICENSES
//
// The packages are those of the programs, in the module of the directory. The text contains the standard library and,
// sorted by path, each module with a linked package: its path, its version, and the files with its licence and notices.
// The module of the programs themselves is left out. The same versions of modules and of Go result in the same bytes.
//
// The exit status is 1, and the text is empty, if the licence of a linked package is missing.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := command(ctx, os.Args[1:], os.Stdout)
	stop()
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "licences:", err)
		os.Exit(1)
	}
}

// command writes the text for the programs that the arguments name to out. If it returns an error other than that of
// writing, it has written nothing.
func command(ctx context.Context, arguments []string, out io.Writer) error {
	flags := flag.NewFlagSet("licences", flag.ContinueOnError)
	dir := flags.String("dir", ".", "a directory of the module that contains the programs")
	goos := flags.String("os", runtime.GOOS, "the operating system for which the programs are built")
	goarch := flags.String("arch", runtime.GOARCH, "the architecture for which the programs are built")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errors.New("name at least one package, such as ./cmd/service-adapter")
	}
	packages, err := linked(ctx, *dir, *goos, *goarch, flags.Args())
	if err != nil {
		return err
	}
	components, err := componentsOf(packages)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := write(&text, components); err != nil {
		return err
	}
	_, err = out.Write(text.Bytes())
	return err
}
