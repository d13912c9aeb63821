package scratch

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"service-adapter/internal/engine/templates"
	"service-adapter/internal/hclfile"
	"service-adapter/internal/value"
)

// longestFileName is the length in bytes of the longest file name that file systems accept.
const longestFileName = 255

// writeCommandInputs writes the input files of a template that runs a command (a hclfile.CommandTemplate), from which
// the command reads its inputs. dir is the path of the working directory; the template in it is such a template if it
// contains a file hclfile.CommandFile. For any other template, writeCommandInputs does nothing. vars are the variables
// of the run by name. Those that the adapter adds are left out: templates.RecordVariable, templates.NonceVariable, and
// those of the template's outputs, whose names begin with hclfile.OutputVariable. Only this user can read the files,
// and existing ones are replaced.
//
// The file bind-inputs.json (hclfile.CommandInputs) contains the inputs as a JSON object. The directory bind-inputs
// (hclfile.CommandInputsDir) contains a file or a directory for each input, named after the input, in the form of
// writeInputFile. writeCommandInputs returns an error if a file cannot be removed or written, or if dir cannot be
// inspected.
func writeCommandInputs(dir string, vars map[string]any) error {
	_, err := os.Lstat(filepath.Join(dir, hclfile.CommandFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	inputs := maps.Clone(vars) // json.Marshal has accepted them for OpenTofu, so that they can be encoded
	maps.DeleteFunc(inputs, func(name string, _ any) bool {
		return name == templates.RecordVariable || name == templates.NonceVariable ||
			strings.HasPrefix(name, hclfile.OutputVariable)
	})
	files := filepath.Join(dir, hclfile.CommandInputsDir)
	if err := errors.Join(
		os.WriteFile(filepath.Join(dir, hclfile.CommandInputs), append(value.MustJSON(inputs), '\n'), 0o600),
		os.RemoveAll(files), os.Mkdir(files, 0o700),
	); err != nil {
		return err
	}
	for name, input := range inputs {
		if err := writeInputFile(filepath.Join(files, name), input); err != nil {
			return fmt.Errorf("writing input %q of the command: %w", name, err)
		}
	}
	return nil
}

// writeInputFile writes an input for shell scripts to the path, at which no directory may exist and, for an object, no
// file either. A scalar is a file with its text, which is empty for null. A list is a file with a line for each
// element, as inputLine returns it. An object is a directory with a file for each entry, which contains the text of a
// scalar and JSON for any other value. The name of that file is the key as entryName escapes it; an entry whose key is
// empty or whose name exceeds 255 bytes is left out. Only this user can read the files. writeInputFile returns an error
// if a file or the directory cannot be written.
func writeInputFile(path string, input any) error {
	switch item := input.(type) {
	case map[string]any:
		err := os.Mkdir(path, 0o700)
		for key, element := range item {
			if name := entryName(key); name != "" && len(name) <= longestFileName {
				err = errors.Join(err, os.WriteFile(filepath.Join(path, name), []byte(value.Text(element)), 0o600))
			}
		}
		return err
	case []any:
		var lines strings.Builder
		for _, element := range item {
			lines.WriteString(inputLine(element) + "\n")
		}
		return os.WriteFile(path, []byte(lines.String()), 0o600)
	default:
		return os.WriteFile(path, []byte(value.Text(input)), 0o600)
	}
}

// entryName returns the name of the file for the entry of an object with this key: the key as url.PathEscape escapes
// it, and with "%2E" instead of a period at the beginning, so that "a/b" becomes "a%2Fb" and ".x" becomes "%2Ex". It is
// "" for an empty key, and may be too long for a file name. The period is escaped because "." and ".." are not file
// names and shell patterns skip hidden files.
func entryName(key string) string {
	name := url.PathEscape(key)
	if rest, hidden := strings.CutPrefix(name, "."); hidden {
		return "%2E" + rest
	}
	return name
}

// inputLine returns an element of a list as one line without a line break at the end: the text of a scalar, and compact
// JSON for a list, for an object and for a text that contains a line break. The result is "" for null.
func inputLine(element any) string {
	line := value.Text(element)
	if strings.ContainsAny(line, "\r\n") {
		return string(value.MustJSON(element))
	}
	return line
}
