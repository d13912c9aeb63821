package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"service-adapter/adapter/session"
	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
)

// newPak returns the command group `pak` with all its commands, which are for authors of brokerpaks. The arguments of
// the commands and the flags for services and plans have shell completions. Without a command, `pak` prints its help.
// streams are the standard streams and the environment of all commands.
func newPak(streams Streams) *cobra.Command {
	pak := newGroup(
		&cobra.Command{
			Use: "pak", Short: "Create, check, build and test brokerpaks",
			Long: `Create, check, build and test brokerpaks. A brokerpak, or pak, is a directory or a zip file with a
manifest.yml and a definition of each service. "pak init" writes a new one, and docs/tutorial.md explains it.`,
		},
		newBuild(streams),
		newCatalog(streams),
		newDiff(streams),
		newDocs(streams),
		newEvaluate(streams),
		newInfo(streams),
		newInit(streams),
		newLock(streams),
		newManifest(streams),
		newSchema(streams),
		newTest(streams),
		newUnpack(streams),
		newValidate(streams),
	)
	completePaks(streams, pak.Commands())
	return pak
}

// isPakCommand reports whether the parent of a command is the group `pak`, as for `pak build`. The exit code for an
// error in a pak is then exitFindings instead of exitInternal. It returns false for the group itself and for a command
// without a parent.
func isPakCommand(command *cobra.Command) bool {
	return command.HasParent() && command.Parent().Name() == "pak"
}

// withPak opens the pak at path, a directory or a zip file, adds the plans of the environment variables
// GSB_SERVICE_<NAME>_PLANS of streams to its services, calls work with it once, and closes it. work must not keep the
// pak. withPak returns the error of work. It returns an error without calling work if the pak does not exist or
// cannot be read, if the pak is invalid, or if one of the variables or of its plans is invalid. The error for an
// invalid pak is a diag.Errors with all its errors and no warnings.
func withPak(streams Streams, path string, work func(*brokerpak.Pak) error) error {
	pak, err := brokerpak.Open(path)
	if err != nil {
		return err
	}
	defer pak.Close() //nolint:errcheck // it was only read, so closing cannot lose data
	if err := session.AddPlans(pak, streams.Getenv); err != nil {
		return err
	}
	return work(pak)
}

// withPaks opens the paks at paths one after the other, as withPak does, calls work once with all of them in the order
// of paths, and closes them. If paths is empty, it calls work with nil. It returns the error of work, or without
// calling work the error for the first pak that cannot be opened, is invalid, or whose plans from the environment
// variables GSB_SERVICE_<NAME>_PLANS are invalid.
func withPaks(streams Streams, paths []string, work func([]*brokerpak.Pak) error) error {
	if len(paths) == 0 {
		return work(nil)
	}
	return withPak(streams, paths[0], func(first *brokerpak.Pak) error {
		return withPaks(streams, paths[1:], func(others []*brokerpak.Pak) error {
			return work(append([]*brokerpak.Pak{first}, others...))
		})
	})
}

// runOnPak returns the RunE of a command whose first argument is the path of a pak, a directory or a zip file; without
// arguments RunE panics. RunE opens the pak, calls work with it, and closes it. RunE returns the error of work, or
// without calling work an error if the pak cannot be read, if it is invalid (a diag.Errors), or if the plans of the
// environment variables GSB_SERVICE_<NAME>_PLANS are invalid.
func runOnPak(streams Streams, work func(*brokerpak.Pak) error) func(*cobra.Command, []string) error {
	return func(_ *cobra.Command, args []string) error { return withPak(streams, args[0], work) }
}

// selectService returns the service of a pak that is called name, or the only service if name is "". It returns nil and
// a usageError, which lists at most nine names of services, if no service has that name, or if name is "" and the pak
// does not have exactly one service.
func selectService(pak *brokerpak.Pak, name string) (*brokerpak.Service, error) {
	names := pak.ServiceNames()
	switch {
	case name != "":
		return pak.Service(name), checkOneOf("service", name, names)
	case len(pak.Services) != 1:
		return nil, usageError{fmt.Errorf("which service? set --service; the pak has: %s", diag.Names(names))}
	default:
		return pak.Services[0], nil
	}
}
