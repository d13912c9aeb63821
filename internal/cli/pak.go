package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"service-adapter/adapter/session"
	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
)

// newPak returns the command group `pak` for authors of brokerpaks, with completion of paks, services and plans.
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

// isPakCommand reports whether a command belongs directly to the group `pak`, so that finish treats an error in a pak
// as a finding. It returns false for the group itself.
func isPakCommand(command *cobra.Command) bool {
	return command.HasParent() && command.Parent().Name() == "pak"
}

// withPak opens the pak at path, a directory or a zip, adds the plans of the environment variables
// GSB_SERVICE_<NAME>_PLANS to its services, and calls work with it. It closes the pak afterwards, so work must not keep
// it. withPak returns the error of opening the pak, which is a diag.Errors if the pak is invalid, of the plans, or of
// work.
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

// withPaks opens the paks at paths as withPak does, and calls work with all of them, in the order of paths. Without
// paths, it calls work with nil. It closes the paks afterwards. It returns the first error of opening a pak, without
// calling work, or the error of work.
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

// runOnPak returns the RunE of a command whose first argument is the path of a pak. RunE calls work with the open pak;
// see withPak for the errors.
func runOnPak(streams Streams, work func(*brokerpak.Pak) error) func(*cobra.Command, []string) error {
	return func(_ *cobra.Command, args []string) error { return withPak(streams, args[0], work) }
}

// selectService returns the service of a pak that is called name, or the only service if name is "". It returns a usage
// error, which lists the services, if there is no such service, or if name is "" and the pak does not have exactly one
// service.
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
