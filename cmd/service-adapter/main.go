// Command service-adapter turns a brokerpak into a complete on-demand broker service adapter.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"service-adapter/adapter"
)

func main() { os.Exit(run()) }

// run executes the command line. The first SIGINT or SIGTERM ends the work in an orderly way.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return adapter.Run(ctx, adapter.Invocation{
		Args: os.Args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.LookupEnv,
	})
}
