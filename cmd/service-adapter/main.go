// Command service-adapter turns a brokerpak into a complete on-demand broker service adapter.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"golang.org/x/term"

	"service-adapter/adapter"
	"service-adapter/internal/cli"
	"service-adapter/internal/tofu"
)

// garbage is how much garbage, in percent of what is in use, may be there until it is collected. A command ends before it has made
// much: with Go's 100 it collects several times, which is a fifth of the time of generate-manifest, and is no smaller.
const garbage = 400

func main() {
	debug.SetGCPercent(garbage)
	os.Exit(run())
}

// run executes the command line. The first SIGINT or SIGTERM ends the work in an orderly way.
func run() int {
	if len(os.Args) == 3 && os.Args[1] == adapter.KeyCommand {
		return serveKey(os.Args[2])
	}
	program, err := os.Executable()
	if err != nil {
		program = "" // where states are encrypted, it is missed
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// Where nobody reads the standard output, the failed write is an error to report and no signal to die of.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	if len(os.Args) > 1 && cli.Has(os.Args[1]) {
		return cli.Run(ctx, cli.Streams{
			In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.LookupEnv, Program: program,
			Terminal: term.IsTerminal(int(os.Stdout.Fd())), ErrTerminal: term.IsTerminal(int(os.Stderr.Fd())),
		}, os.Args[1:])
	}
	return adapter.Run(ctx, adapter.Invocation{
		Args: os.Args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.LookupEnv, Program: program,
	})
}

// serveKey answers OpenTofu, which shows what stands on standard error.
func serveKey(path string) int {
	if err := tofu.ServeKey(os.Stdin, os.Stdout, path); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err) // nobody is left to tell
		return 1
	}
	return 0
}
