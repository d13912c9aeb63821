package cli

import (
	"cmp"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"

	"service-adapter/brokerpak"
	"service-adapter/internal/author/bill"
	"service-adapter/internal/fault"
)

// billFlag adds the flag --bom to a command and stores its value in asBill.
func billFlag(command *cobra.Command, asBill *bool) {
	command.Flags().BoolVar(asBill, "bom", false, "write the bill of materials, in the format CycloneDX (JSON)")
}

// excludeFormats returns a usage error if both --json and --bom are set, and nil otherwise.
func excludeFormats(asJSON, asBill bool) error {
	if asJSON && asBill {
		return usageError{errors.New("--json and --bom exclude each other")}
	}
	return nil
}

// writePakBill writes the bill of materials of a pak to standard output. It returns a *fault.UserError, which says how
// to get a bill, if the pak has none, and another error if the bill cannot be read or written.
func writePakBill(streams Streams, pak *brokerpak.Pak) error {
	text, err := pak.Bill()
	switch {
	case err != nil:
		return err
	case text != nil:
		return write(streams.Stdout, string(text))
	}
	reason := "an earlier version of service-adapter built it; build it again from its source"
	if !pak.IsZip() {
		reason = "only service-adapter pak build writes one, into the .brokerpak file, and pak unpack keeps it"
	}
	return &fault.UserError{Message: fmt.Sprintf("%s has no bill of materials (%s): %s",
		pak.Path, brokerpak.BillName, reason)}
}

// writeProgramBill writes the bill of materials of this program to standard output. It returns an error if the program
// has no build information, or if the bill cannot be written.
func writeProgramBill(streams Streams) error {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return errors.New("this program was built without build information, from which the bill of materials is made")
	}
	text, err := bill.ForProgram(cmp.Or(streams.Release, "development"), streams.Commit, info)
	if err != nil {
		return err
	}
	return write(streams.Stdout, string(text))
}
