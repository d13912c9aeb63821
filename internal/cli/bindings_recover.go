package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"service-adapter/adapter"
)

const recoverHelp = `Save the states that could not be saved while the state backend was down. The next command for the same binding does so too, where it
has the same cache directory; this saves all that are left in one, such as that of the broker's container.`

// newRecover is `bindings recover`.
func newRecover(streams Streams) *cobra.Command {
	var options adapter.OperatorOptions
	command := &cobra.Command{
		Use:     "recover [--cache-dir DIR]",
		Short:   "Save the states of bindings and instances that could not be saved",
		Long:    recoverHelp + exits("0 all are saved, or there were none", "1 something could not be saved"),
		Example: "  service-adapter bindings recover --cache-dir /var/vcap/data/broker/tmp/service-adapter-1000",
	}
	command.Flags().StringVar(&options.CacheDir, "cache-dir", "", "the directory to look in; default: the configuration's cache_dir")
	return withOperator(command, streams, &options, func(ctx context.Context, operator *adapter.Operator, _ []string) error {
		names, err := operator.Unsaved()
		if err != nil {
			return err
		}
		failed := 0
		for _, name := range names {
			if err := operator.Save(ctx, name); err != nil {
				failed++
				say(streams, fmt.Sprintf("%s: %s", name, err))
				continue
			}
			if err := write(streams, name+"\n"); err != nil {
				return err
			}
		}
		say(streams, fmt.Sprintf("%d of %d saved", len(names)-failed, len(names)))
		return findings(failed > 0)
	})
}
