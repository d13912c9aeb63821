package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
	"service-adapter/internal/pakdoc"
)

// newCatalog is `pak catalog PAK`.
func newCatalog(streams Streams) *cobra.Command {
	var name string
	var errands bool
	command := &cobra.Command{
		Use:   "catalog PAK",
		Short: "Print the service catalog for the on-demand broker's manifest",
		Long: `Print what an operator puts into the manifest of the on-demand broker for a service: the properties of its job broker, with
the service_catalog made from the pak. What only the operator knows begins with REPLACE_ME_.

--errands is for services whose provision template takes longer than a request may: every plan has the lifecycle errands apply-instance
and destroy-instance, and service_deployment has the release of their jobs. Where the BOSH manifest needs outputs of the template, it has
destroy-instance alone, and says what needs them. docs/deploying.md says what else the errands need.` +
			exits("0 the catalog was written", "1 the pak is wrong, has nothing to deploy, or with --errands no provision template"),
		Example: "  service-adapter pak catalog redis-0.1.0.brokerpak\n  service-adapter pak catalog --errands database-0.1.0.brokerpak",
		RunE: onPak(streams, func(pak *brokerpak.Pak) error {
			service, err := chosenService(pak, name)
			if err != nil {
				return err
			}
			render := pakdoc.Catalog
			if errands {
				render = pakdoc.CatalogWithErrands
			}
			text, err := render(service)
			if err != nil {
				return err
			}
			return write(streams, text)
		}),
	}
	command.Flags().StringVar(&name, "service", "", "the service, where the pak has several: a broker serves one")
	command.Flags().BoolVar(&errands, "errands", false, "let errands apply and destroy the provision template")
	return command
}

// chosenService finds the service that is meant: the named one, or the only one.
func chosenService(pak *brokerpak.Pak, name string) (*brokerpak.Service, error) {
	names := pak.ServiceNames()
	switch {
	case name != "":
		return pak.Service(name), oneOf("service", name, names)
	case len(pak.Services) != 1:
		return nil, usageError{fmt.Errorf("which service? set --service; the pak has: %s", diag.Names(names))}
	default:
		return pak.Services[0], nil
	}
}
