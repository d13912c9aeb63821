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

--errands is for services whose provision template takes longer than a request may: every plan has the lifecycle errands apply-instance
and destroy-instance, and service_deployment has the release of their jobs. Where the BOSH manifest needs outputs of the template, it has
destroy-instance alone, and says what needs them. docs/deploying.md says what else the errands need.

EXIT STATUS
  0 the catalog was written, 1 the pak is wrong, has nothing to deploy, or with --errands no provision template, 2 wrong usage, 3 anything
  else`

// newCatalog is `pak catalog PAK`.
func newCatalog(streams Streams) *cobra.Command {
	var name string
	var errands bool
	command := &cobra.Command{
		Use:     "catalog PAK",
		Short:   "Print the service catalog for the on-demand broker's manifest",
		Long:    catalogHelp,
		Example: "  service-adapter pak catalog redis-0.1.0.brokerpak\n  service-adapter pak catalog --errands database-0.1.0.brokerpak",
		Args:    exactly("PAK"),
		RunE: func(_ *cobra.Command, args []string) error {
			return withPak(streams, args[0], func(pak *brokerpak.Pak) error {
				service, err := chosenService(pak, name)
				if err != nil {
					return err
				}
				write := pakdoc.Catalog
				if errands {
					write = pakdoc.CatalogWithErrands
				}
				text, err := write(service)
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
	command.Flags().BoolVar(&errands, "errands", false, "let errands apply and destroy the provision template")
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
