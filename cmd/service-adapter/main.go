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

func main() {
	debug.SetGCPercent(garbage)
	os.Exit(run())
}

// run executes the command line. The first SIGINT or SIGTERM ends the work in an orderly way.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// Where nobody reads the standard output, the failed write is an error to report and no signal to die of.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	if len(os.Args) > 1 && cli.Has(os.Args[1]) {
		return cli.Run(ctx, cli.Streams{
			In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.LookupEnv,
			Terminal: term.IsTerminal(int(os.Stdout.Fd())), ErrTerminal: term.IsTerminal(int(os.Stderr.Fd())),
		}, os.Args[1:])
	}
	return adapter.Run(ctx, adapter.Invocation{
		Args: os.Args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.LookupEnv,
	})
}
