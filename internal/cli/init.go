package cli

import (
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"service-adapter/internal/pakbuild"
)

const initHelp = `Write a small complete pak into a directory, which must be empty or not exist: a manifest, a service definition with a BOSH manifest
and a bind template, an example and a test case. It can be validated, tested and built as it is. The service is named after the
directory.

EXIT STATUS
  0 the pak was written, 2 wrong usage, 3 anything else`

// newInit is `pak init DIR`.
func newInit(streams Streams) *cobra.Command {
	return &cobra.Command{
		Use:               "init DIR",
		Short:             "Write a new pak",
		Long:              initHelp,
		Example:           "  service-adapter pak init mail",
		Args:              exactly("DIR"),
		ValidArgsFunction: cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs),
		RunE: func(_ *cobra.Command, args []string) error {
			dir := filepath.Clean(args[0])
			files, err := pakbuild.Init(dir)
			if err != nil {
				return err
			}
			if _, err := fmt.Fprint(streams.Out, dir+"\n"+listing(files)); err != nil {
				return err
			}
			say(streams, "next: service-adapter pak validate "+dir)
			return nil
		},
	}
}

// listing draws sorted files as an indented tree.
func listing(files []string) string {
	var out strings.Builder
	shown := "."
	for _, file := range files {
		dir, name := path.Split(file)
		if dir = path.Clean(dir); dir != "." && dir != shown {
			fmt.Fprintf(&out, "  %s/\n", dir)
			shown = dir
		}
		indent := "  "
		if dir != "." {
			indent = "    "
		}
		fmt.Fprintf(&out, "%s%s\n", indent, name)
	}
	return out.String()
}
