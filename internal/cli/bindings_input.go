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

// addInputFlag adds the flag --input, which supplies the values of ephemeral inputs.
func (r *removal) addInputFlag(command *cobra.Command) {
	command.Flags().StringArrayVar(&r.inputs, "input", nil,
		"the file with the value of an ephemeral input, as `NAME=FILE`; can be repeated")
}

// checkInputs returns an error if an argument of --input is not NAME=FILE or repeats a name.
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

// readInputs returns the texts of --input by the name of the input, and nil without the flag. It returns an error if a
// file cannot be read, is larger than maxInput or is not text, and if all users can access it.
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

// readInput reads a file of --input, which may be a pipe. See removal.readInputs for the errors.
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
