package cli

import (
	"github.com/spf13/cobra"

	"service-adapter/internal/pakbuild"
)

const unpackHelp = `Unpack a brokerpak into a directory, with binaries that can be executed. The adapter runs from such a directory without a place to
unpack to. DIR must be empty or not exist; it holds the whole pak or nothing. --platform leaves out the binaries of others.`

// newUnpack is `pak unpack PAK DIR`.
func newUnpack(streams Streams) *cobra.Command {
	var platform string
	command := &cobra.Command{
		Use:     "unpack PAK DIR",
		Short:   "Unpack a .brokerpak file",
		Long:    unpackHelp + exits("0 the pak was unpacked", "1 the pak is wrong"),
		Example: "  service-adapter pak unpack redis-0.1.0.brokerpak ${BOSH_INSTALL_TARGET} --platform linux/amd64",
		RunE: func(command *cobra.Command, args []string) error {
			wanted, err := platformFlag("--platform", platform)
			if err != nil {
				return usageError{err}
			}
			if err := pakbuild.Unpack(command.Context(), args[0], args[1], wanted); err != nil {
				return err
			}
			return write(streams, args[1]+"\n")
		},
	}
	command.Flags().StringVar(&platform, "platform", "", "only the binaries of this platform, OS/ARCH or current")
	return command
}
