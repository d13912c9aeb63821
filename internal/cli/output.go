package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

// documentFormat is the version of the JSON documents. Its first number changes when a consumer could misread a newer one.
const documentFormat = "1.0"

// say tells something besides the product.
func say(streams Streams, text string) {
	_, _ = fmt.Fprintln(streams.Stderr, text) // there is nowhere else to report it
}

// write writes the product of a command.
func write(to io.Writer, text string) error {
	if _, err := io.WriteString(to, text); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	return nil
}

// writeJSON writes one document.
func writeJSON(to io.Writer, document any) error {
	encoder := json.NewEncoder(to)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(document); err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	return nil
}

// jsonFlag adds --json to a command.
func jsonFlag(command *cobra.Command, asJSON *bool) {
	command.Flags().BoolVar(asJSON, "json", false, "write JSON")
}

// writeEither writes the product of a command that has --json.
func writeEither(streams Streams, asJSON bool, document any, text string) error {
	if asJSON {
		return writeJSON(streams.Stdout, document)
	}
	return write(streams.Stdout, text)
}

// writeFile replaces a file as a whole, so that an interrupted run leaves the old one.
func writeFile(path string, mode fs.FileMode, write func(to io.Writer) error) error {
	temporary, err := os.CreateTemp(filepath.Dir(path), ".new-")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	defer func() { _ = os.Remove(temporary.Name()) }() // gone already after the rename
	err = errors.Join(write(temporary), temporary.Chmod(mode), temporary.Sync(), temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

func counted(count int, thing string) string {
	if count == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", count, thing)
}

// colours tells whether the product may be coloured: see https://no-color.org.
func colours(streams Streams) bool {
	text, _ := streams.Getenv("NO_COLOR")
	return streams.Terminal && text == ""
}

// progress tells on standard error how far something has got: in place where that is a terminal, else only of what is long.
type progress struct {
	streams Streams
	doing   string // "" for what tells nothing
	shown   int    // the percentage that a terminal shows, -1 for nothing
}

// Where it is no terminal, longest items are worked on without a word, and then a line comes with each step of them.
const (
	longest = 1000
	step    = 500
)

func newProgress(streams Streams, doing string) *progress {
	return &progress{streams: streams, doing: doing, shown: -1}
}

// report is called after each item, by one at a time.
func (p *progress) report(done, total int) {
	const whole = 100
	text, percent := fmt.Sprintf("%s: %d of %d", p.doing, done, total), done*whole/total
	switch {
	case p.doing == "":
	case p.streams.ErrTerminal && percent != p.shown:
		p.shown = percent
		_, _ = fmt.Fprint(p.streams.Stderr, "\r"+text) // there is nowhere else to report it
	case !p.streams.ErrTerminal && total > longest && done%step == 0:
		say(p.streams, text)
	}
}

// end takes what a terminal shows away.
func (p *progress) end() {
	if p.shown >= 0 {
		_, _ = fmt.Fprint(p.streams.Stderr, "\r\x1b[K") // there is nowhere else to report it
	}
	p.shown = -1
}
