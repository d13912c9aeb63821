// Command service-adapter turns a brokerpak into a complete on-demand broker service adapter.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"golang.org/x/term"

	"service-adapter/adapter"
	"service-adapter/internal/cli"
)

// garbage is how much garbage, in percent of what is in use, may be there until it is collected. A command ends before it has made
// much: with Go's 100 it collects several times, which is a fifth of the time of generate-manifest, and is no smaller.
const garbage = 400

// release is the version of the release that this program is part of, commit that of its sources.
var release, commit string //nolint:gochecknoglobals // the linker sets them

func main() {
	debug.SetGCPercent(garbage)
	os.Exit(run())
}

// run executes the command line.
func run() int {
	// A core dump would hold keys and credentials. What this program starts inherits the limit; to lower it is always allowed.
	_ = syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{})
	// Where nobody reads the standard output, the failed write is an error to report and no signal to die of.
	signal.Ignore(syscall.SIGPIPE)
	invocation := adapter.Invocation{Args: os.Args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.LookupEnv}
	if len(os.Args) > 1 && cli.Has(os.Args[1]) {
		return cli.Run(interruptible(context.Background()), cli.Streams{
			Invocation: invocation, Release: release, Commit: commit,
			Terminal: term.IsTerminal(int(os.Stdout.Fd())), ErrTerminal: term.IsTerminal(int(os.Stderr.Fd())),
		}, os.Args[1:])
	}
	invocation.Interruptible = interruptible
	return adapter.Run(context.Background(), invocation)
}

// interruptible makes the first SIGINT or SIGTERM end the context, and none the process. OpenTofu and its providers would inherit that
// SIGPIPE is ignored; to be notified of it replaces that.
func interruptible(ctx context.Context) context.Context {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, _ = signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM) // until the process ends
	return ctx
}
