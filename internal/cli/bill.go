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

// billFlag adds the boolean flag --bom to a command. Its value is stored in asBill when the command line is parsed; the
// default is false.
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

// writePakBill writes the bill of materials of a pak, a JSON text in the format CycloneDX, to standard output. If the
// pak has no bill, it writes nothing and returns a *fault.UserError, which says how to get one. It returns another
// error if the bill cannot be read, is larger than 64 MB, or cannot be written.
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

// writeProgramBill writes the bill of materials of this program, a JSON text in the format CycloneDX, to standard
// output. The version of the program in the bill is streams.Release, or "development" if that is ""; the bill also
// contains streams.Commit. It returns an error if the program was built without Go's build information, or if the bill
// cannot be encoded or written.
func writeProgramBill(streams Streams) error {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return errors.New("this program was built without build information, " +
			"so the bill of materials cannot be generated")
	}
	text, err := bill.ForProgram(cmp.Or(streams.Release, "development"), streams.Commit, info)
	if err != nil {
		return err
	}
	return write(streams.Stdout, string(text))
}
