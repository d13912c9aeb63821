package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
	"service-adapter/internal/pakdoc"
)

const catalogHelp = `Print what an operator puts into the manifest of the on-demand broker for a service: the properties of its job broker, with
the service_catalog made from the pak. What only the operator knows begins with REPLACE_ME_.

EXIT STATUS
  0 the catalog was written, 1 the pak is wrong or has nothing to deploy, 2 wrong usage, 3 anything else`

// newCatalog is `pak catalog PAK`.
func newCatalog(streams Streams) *cobra.Command {
	var name string
	command := &cobra.Command{
		Use:     "catalog PAK",
		Short:   "Print the service catalog for the on-demand broker's manifest",
		Long:    catalogHelp,
		Example: "  service-adapter pak catalog redis-0.1.0.brokerpak",
		Args:    exactly("PAK"),
		RunE: func(_ *cobra.Command, args []string) error {
			return withPak(streams, args[0], func(pak *brokerpak.Pak) error {
				service, err := chosenService(pak, name)
				if err != nil {
					return err
				}
				text, err := pakdoc.Catalog(service)
				if err != nil {
					return err
				}
				if _, err := io.WriteString(streams.Out, text); err != nil {
					return fmt.Errorf("writing the catalog: %w", err)
				}
				return nil
			})
		},
	}
	command.Flags().StringVar(&name, "service", "", "the service, where the pak has several: a broker serves one")
	return command
}

// chosenService finds the service that is meant: the named one, or the only one.
func chosenService(pak *brokerpak.Pak, name string) (*brokerpak.Service, error) {
	var names []string
	for _, service := range pak.Services {
		names = append(names, service.Name)
	}
	switch service := pak.Service(name); {
	case service != nil:
		return service, nil
	case name != "":
		return nil, usageError{fmt.Errorf("--service %q is not in the pak%s; it has: %s", name, diag.Suggest(name, names), diag.Names(names))}
	case len(pak.Services) != 1:
		return nil, usageError{fmt.Errorf("which service? set --service; the pak has: %s", diag.Names(names))}
	default:
		return pak.Services[0], nil
	}
}
