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

// gcPercent is the growth of the heap, in percent, after which garbage is collected. A command ends before it has
// allocated much memory. With Go's default of 100 it collects garbage several times, which takes a fifth of the time
// of generate-manifest and does not reduce the memory in use.
const gcPercent = 400

// release is the version of the release that contains this program, "" for a development build. commit is the commit of
// its sources, which ends with "-dirty" if they had other changes, and "" if it is unknown.
var release, commit string //nolint:gochecknoglobals // the linker sets them

// main runs the command line of the process, and ends the process with the exit code of the command. It first lets the
// heap grow further than by default between two garbage collections.
func main() {
	debug.SetGCPercent(gcPercent)
	os.Exit(run())
}

// run executes the command line of the process, os.Args, and returns the exit code. Package cli runs the commands
// that it handles, and package adapter all others and a command line without a command.
//
// The first SIGINT or SIGTERM cancels the context of a command of package cli, and the second one ends the process. A
// command of package adapter is ended by the first signal, unless it has called interruptible before; it does so
// before work that must not be left half done.
//
// run disables core dumps for this process and its children, and makes this process ignore SIGPIPE, so that writing to
// a closed pipe returns an error.
func run() int {
	// A core dump would contain keys and credentials. Child processes inherit the limit. Lowering it cannot fail.
	_ = syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{})
	// If no process reads standard output, the write must return an error, which is reported. SIGPIPE would end this
	// process instead.
	signal.Ignore(syscall.SIGPIPE)
	invocation := adapter.Invocation{
		Args: os.Args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.LookupEnv,
		Release: release,
	}
	if len(os.Args) > 1 && cli.Handles(os.Args[1]) {
		return cli.Run(interruptible(context.Background()), cli.Streams{
			Invocation: invocation, Commit: commit,
			Terminal: term.IsTerminal(int(os.Stdout.Fd())), ErrTerminal: term.IsTerminal(int(os.Stderr.Fd())),
		}, os.Args[1:])
	}
	invocation.Interruptible = interruptible
	return adapter.Run(context.Background(), invocation)
}

// interruptible returns a context derived from ctx that is cancelled by the first SIGINT or SIGTERM, without ending the
// process. A second signal ends the process, so that work that ignores the context can be ended too. The signals are
// also no longer caught after ctx itself has ended.
//
// OpenTofu and its providers would inherit that SIGPIPE is ignored. interruptible therefore catches and drops SIGPIPE
// in this process for good, because child processes do not inherit that.
func interruptible(ctx context.Context) context.Context {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx
}
