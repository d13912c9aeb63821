package cli

import (
	"context"

	"github.com/spf13/cobra"

	"service-adapter/adapter"
)

// newMetrics is `metrics`.
func newMetrics(streams Streams) *cobra.Command {
	command := &cobra.Command{
		Use:   "metrics",
		Short: "Print metrics for Prometheus",
		Long: `Print metrics in the text format of OpenMetrics, which Prometheus and the textfile collector of its node_exporter read: bindings and
instances by service, plan and condition, the age of the oldest that is not finished, the locks that are held (of the backends local
and pg), and, where audit_log is configured, when each command last ended with which result.

All states are read, as bindings list does. docs/operations.md has the line for cron and the alerts.` + exits("0 printed"),
		Example: "  service-adapter metrics > metrics.tmp && mv metrics.tmp /var/lib/node_exporter/service_adapter.prom",
	}
	return withOperator(command, streams, &adapter.OperatorOptions{}, func(ctx context.Context, operator *adapter.Operator, _ []string) error {
		text, err := operator.Metrics(ctx)
		if err != nil {
			return err
		}
		return write(streams, text)
	})
}
