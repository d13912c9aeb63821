package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"service-adapter/internal/ctxio"
)

// maxInput is the largest size of a file of --input in bytes.
const maxInput = 1 << 20

// addInputFlag adds the flag --input NAME=FILE to a command. It supplies the value of the ephemeral input NAME, which
// is not stored with the item, as the content of FILE, and can be repeated. The values of the flag are stored in r when
// the command line is parsed.
func (r *removal) addInputFlag(command *cobra.Command) {
	command.Flags().StringArrayVar(&r.inputs, "input", nil,
		"the file with the value of an ephemeral input, as `NAME=FILE`; can be repeated")
}

// checkInputs returns an error if a value of --input is not NAME=FILE, with neither of them empty, or if two values
// have the same name. It returns nil if the flag is not set. The files are not inspected, and the existence of the
// inputs is not checked. The errors are plain errors, which setArgumentChecks turns into usageErrors.
func (r *removal) checkInputs() error {
	names := map[string]bool{}
	for _, argument := range r.inputs {
		name, path, _ := strings.Cut(argument, "=")
		switch {
		case name == "" || path == "":
			return fmt.Errorf("--input %q must be NAME=FILE: the name of an input and a file", argument)
		case names[name]:
			return fmt.Errorf("--input %s is set twice", name)
		}
		names[name] = true
	}
	return nil
}

// readInputs reads the files of --input and returns their texts by the name of the input, each without one line break
// (LF, CRLF or CR) at its end. It returns nil without the flag. checkInputs must have been called before. readInputs
// returns an error, which names the input, if a file cannot be read, is larger than 1 MiB, is not text in UTF-8 or is
// accessible to users other than its owner and group, or if ctx ends, for example while it reads a pipe.
func (r *removal) readInputs(ctx context.Context) (map[string]string, error) {
	if len(r.inputs) == 0 {
		return nil, nil
	}
	texts := map[string]string{}
	for _, argument := range r.inputs {
		name, path, _ := strings.Cut(argument, "=") // checkInputs has checked the form
		text, err := ctxio.Await(ctx, func() ([]byte, error) { return readInput(path) })
		if err != nil {
			return nil, fmt.Errorf("--input %s: %w", name, err)
		}
		texts[name] = strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	}
	return texts, nil
}

// readInput returns the complete content of the file at path, which is one of --input and may be a pipe, for which it
// waits. It returns an error if the file does not exist or cannot be read, is larger than maxInput, 1 MiB, is not text
// in UTF-8, or is accessible to users other than its owner and group.
func readInput(path string) (text []byte, err error) {
	if err := checkSecretFile("the file", path); err != nil {
		return nil, err
	}
	file, err := os.Open(path) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // only read
	text, err = io.ReadAll(io.LimitReader(file, maxInput+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxInput:
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxInput)
	case !utf8.Valid(text):
		return nil, fmt.Errorf("%s is not a UTF-8 text", path)
	}
	return text, nil
}
