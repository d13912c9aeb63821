package cli

import (
	"context"

	"github.com/spf13/cobra"

	"service-adapter/internal/operate/states"
)

// newMetrics returns the command `metrics`, which prints metrics of bindings, instances, locks, paks, certificates
// and commands to standard output, in the text format of OpenMetrics. It reads all states, and with --broker-config
// also asks the broker's Director for certificates. Reading may delete empty workspaces and wait for a run that holds
// a lock; see states.Operator.Metrics. If no pak can be read, the metrics of states, locks and certificates are
// missing.
//
// The command fails if the adapter cannot be opened with its configuration, if the broker's configuration cannot be
// read or is invalid, if paks can be read but none has a usable OpenTofu, if the states, the locks, the audit log or
// its counts cannot be read, or if the output cannot be written. Unreadable paks, single unreadable states and failed
// requests to the Director are not errors but are counted in metrics.
func newMetrics(streams Streams) *cobra.Command {
	command := &cobra.Command{
		Use:   "metrics",
		Short: "Print metrics for Prometheus",
		Long: `Print metrics in the text format of OpenMetrics, which Prometheus and the textfile collector of its
node_exporter read:

  - the numbers of bindings and instances by service, plan and condition, and the age of the oldest unfinished one
  - the locks that are held, for the backends local and pg
  - the paks that cannot be read
  - when the first of the certificates in the credentials of bindings and in the outputs of instances expires, and with
    --broker-config also the first of those that the Director reports
  - the time of the last run of each command and its result, and the number of runs by result, if audit_log is
    configured

The command reads all states, as "bindings list" does. If no pak can be read, the metrics of states are missing.
docs/operations/monitoring.md has the line for cron and the alerts.` + exitStatus("0 the metrics were written"),
		Example: "  service-adapter metrics > metrics.tmp && " +
			"mv metrics.tmp /var/lib/node_exporter/service_adapter.prom",
	}
	var brokerConfig string
	command.Flags().StringVar(&brokerConfig, "broker-config", "",
		"the configuration of the broker, broker.yml of its job, whose Director is asked for certificates")
	options := &states.Options{WithoutPaks: true}
	work := func(ctx context.Context, operator *states.Operator, _ []string) error {
		fleet, err := brokerFleet(operator, brokerConfig)
		if err != nil {
			return err
		}
		text, err := operator.Metrics(ctx, fleet)
		if err != nil {
			return err
		}
		return write(streams.Stdout, text)
	}
	return withOperator(command, streams, options, work)
}
