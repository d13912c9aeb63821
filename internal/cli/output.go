package cli

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// documentFormat is the version of the JSON documents that commands write. Its major number changes when a program that
// reads older documents could misunderstand newer ones.
const documentFormat = "1.0"

// say writes a line to standard error. It is for everything that is not the product of a command, such as progress,
// warnings and summaries. text has no line break at its end, and may consist of several lines. A failed write is
// ignored.
func say(streams Streams, text string) {
	_, _ = fmt.Fprintln(streams.Stderr, text) // an error could only be reported to the same stream
}

// write writes text, which is part of the product of a command, unchanged to a writer, which is usually standard
// output. It returns an error that begins with "writing the output" if the write fails, and nil otherwise.
func write(to io.Writer, text string) error {
	if _, err := io.WriteString(to, text); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	return nil
}

// writeJSON writes a document as JSON, indented by two spaces, and a line break at the end. It does not escape the HTML
// characters <, > and &. It returns an error if the document cannot be encoded or the write fails.
func writeJSON(to io.Writer, document any) error {
	encoder := json.NewEncoder(to)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(document); err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	return nil
}

// jsonFlag adds the flag --json to a command. It sets *asJSON to false; when the command line is parsed, *asJSON
// becomes the value of the flag. asJSON must not be nil.
func jsonFlag(command *cobra.Command, asJSON *bool) {
	command.Flags().BoolVar(asJSON, "json", false, "write JSON instead of text")
}

// writeEither writes the product of a command that has the flag --json to standard output: the document as JSON if
// asJSON is set, and otherwise the text, which is written unchanged. It returns an error if the document cannot be
// encoded or the output cannot be written.
func writeEither(streams Streams, asJSON bool, document any, text string) error {
	if asJSON {
		return writeJSON(streams.Stdout, document)
	}
	return write(streams.Stdout, text)
}

// counted returns a number with its noun, such as "1 error", "2 errors" or "0 errors". noun is the singular; for every
// count except 1, an "s" is appended to it.
func counted(count int, noun string) string {
	if count == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", count, noun)
}

// useColours reports whether standard output may contain colours: it is a terminal, and the environment variable
// NO_COLOR is unset or empty (see https://no-color.org).
func useColours(streams Streams) bool {
	text, _ := streams.Getenv("NO_COLOR")
	return streams.Terminal && text == ""
}

// A progress reports on standard error how many items of a command have been processed. On a terminal it overwrites one
// line when the percentage changes. Elsewhere it writes a line for every 500 items (logInterval), and only if the
// command has more than 1,000 items (quietItems). newProgress returns one; the zero value must not be used.
type progress struct {
	streams Streams
	// activity is the beginning of the line, such as "reading states". If it is "", nothing is reported.
	activity string
	// shownPercent is the percentage on the terminal's line, -1 if the line is empty.
	shownPercent int
}

// Limits of the progress that is written to a stream other than a terminal.
const (
	// quietItems is the largest number of items for which no progress is reported.
	quietItems = 1000
	// logInterval is the number of items from one line to the next.
	logInterval = 500
)

// newProgress returns a progress that has reported no item yet. activity, such as "reading states", is the beginning of
// its line, as in "reading states: 5 of 20". A progress with an empty activity reports nothing. The line is written to
// streams.Stderr; streams.ErrTerminal selects how. newProgress itself writes nothing.
func newProgress(streams Streams, activity string) *progress {
	return &progress{streams: streams, activity: activity, shownPercent: -1}
}

// report reports that done of total items have been processed, as in "reading states: 5 of 20". Callers must call it
// after each item, and not concurrently. total must not be 0, which panics. On a terminal report overwrites the line
// on standard error if the percentage has changed; the line stays, also after the last item, until end erases it.
// Elsewhere report writes a line if total is larger than quietItems (1,000) and done is a multiple of logInterval
// (500). It writes nothing if the progress has no activity. A failed write is ignored.
func (p *progress) report(done, total int) {
	const whole = 100
	text, percent := fmt.Sprintf("%s: %d of %d", p.activity, done, total), done*whole/total
	switch {
	case p.activity == "":
	case p.streams.ErrTerminal && percent != p.shownPercent:
		p.shownPercent = percent
		_, _ = fmt.Fprint(p.streams.Stderr, "\r"+text) // an error could only be reported to the same stream
	case !p.streams.ErrTerminal && total > quietItems && done%logInterval == 0:
		say(p.streams, text)
	}
}

// end erases the line of the progress from the terminal, so that other text can be written. The next report writes the
// line again. end does nothing if no line is shown, which is always so if standard error is not a terminal. A failed
// write is ignored.
func (p *progress) end() {
	if p.shownPercent >= 0 {
		_, _ = fmt.Fprint(p.streams.Stderr, "\r\x1b[K") // an error could only be reported to the same stream
	}
	p.shownPercent = -1
}
