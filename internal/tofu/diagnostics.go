package tofu

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"service-adapter/internal/redact"
)

// longestMessage is the length in bytes at which an error's detail is cut.
const longestMessage = 1500

// providerDied is how OpenTofu reports that a provider crashed or was killed in the middle of a change.
const providerDied = `(?s)Plugin did not respond.*ApplyResourceChange|ApplyResourceChange.*(code = Unavailable|EOF|connection refused)`

// RunError says why a run of OpenTofu failed: its first error diagnostic. Its texts hold no secrets that the engine knows.
// After a cancelled context it satisfies errors.Is with the context's error.
type RunError struct {
	Command  string // such as "apply"
	Summary  string
	Detail   string
	Address  string // of the resource, "" when there is none
	File     string // name of the configuration file, "" when there is none
	Line     int
	More     int // further errors
	ExitCode int // -1 when a signal ended OpenTofu
	// Backend is the type of the state backend when it was that which failed, "" otherwise.
	Backend string
	// ProviderDied tells that a provider ended while it was asked for something: what it was making may exist, and no state tells.
	ProviderDied bool

	cause    error
	lock     lockReport
	resource string // the address, not masked
}

// Resource is the address of the resource as the state has it, "" when there is none. It is for programs: it may hold a value.
func (e *RunError) Resource() string { return e.resource }

// Error renders the failure as one sentence.
func (e *RunError) Error() string {
	var text strings.Builder
	text.WriteString("OpenTofu " + e.Command + " ended with ")
	if e.ExitCode < 0 {
		text.WriteString("a signal")
	} else {
		fmt.Fprintf(&text, "exit status %d", e.ExitCode)
	}
	if e.cause != nil {
		text.WriteString(" after it was interrupted (" + e.cause.Error() + ")")
	}
	if e.Backend != "" {
		text.WriteString(": the state backend " + e.Backend + " cannot be used")
	}
	for _, part := range []string{e.place(), e.Summary, e.Detail} {
		if part != "" {
			text.WriteString(": " + part)
		}
	}
	if e.More > 0 {
		fmt.Fprintf(&text, " (%d more errors)", e.More)
	}
	return text.String()
}

// Unwrap returns the error of the context that interrupted the run, if one did.
func (e *RunError) Unwrap() error { return e.cause }

func (e *RunError) place() string {
	file := e.File
	if file != "" && e.Line > 0 {
		file = fmt.Sprintf("%s:%d", file, e.Line)
	}
	switch {
	case e.Address != "" && file != "":
		return e.Address + " (" + file + ")"
	case e.Address != "":
		return e.Address
	default:
		return file
	}
}

// message is a line of OpenTofu's -json output, as far as it matters here.
type message struct {
	Type       string      `json:"type"`
	Diagnostic *diagnostic `json:"diagnostic"`
}

type diagnostic struct {
	Severity string `json:"severity"`
	Summary  string `json:"summary"`
	Detail   string `json:"detail"`
	Address  string `json:"address"`
	Range    *struct {
		Filename string `json:"filename"`
		Start    struct {
			Line int `json:"line"`
		} `json:"start"`
	} `json:"range"`
}

// explain finds the first error diagnostic in the output of a run: in its -json messages, else in its text for people.
func (e *RunError) explain(stdout, stderr []byte, mask *redact.Secrets) {
	found := false
	lines := bufio.NewReader(bytes.NewReader(stdout))
	for {
		line, err := lines.ReadBytes('\n')
		var m message
		if json.Unmarshal(line, &m) == nil && m.Diagnostic != nil && m.Diagnostic.Severity == "error" {
			if found {
				e.More++
			} else {
				e.take(m.Diagnostic)
			}
			found = true
			e.ProviderDied = e.ProviderDied || regexp.MustCompile(providerDied).MatchString(m.Diagnostic.Summary+" "+m.Diagnostic.Detail)
		}
		if err != nil {
			break
		}
	}
	if !found {
		e.Summary, e.Detail = errorText(stderr)
		if e.Summary == "" {
			e.Summary, e.Detail = errorText(stdout)
		}
	}
	e.lock = readLock(e.Summary+" "+e.Detail, stdout, stderr)
	e.resource = e.Address
	e.Summary, e.Detail, e.Address = sentence(e.Summary, mask), sentence(e.Detail, mask), mask.Clean(e.Address)
}

func (e *RunError) take(d *diagnostic) {
	e.Summary, e.Detail, e.Address = d.Summary, d.Detail, d.Address
	if d.Range != nil {
		e.File, e.Line = filepath.Base(d.Range.Filename), d.Range.Start.Line
	}
}

// errorText finds the first error in output for people: the rest of the line "Error: …" and the paragraphs after it. Without
// such a line it is the last line.
func errorText(output []byte) (summary, detail string) {
	var last string
	var details []string
	for line := range strings.Lines(string(output)) {
		line = strings.TrimSpace(strings.Trim(strings.TrimSpace(line), "│╷╵"))
		rest, isError := strings.CutPrefix(line, "Error: ")
		switch {
		case isError && summary != "":
			return summary, strings.Join(details, " ")
		case isError:
			summary = rest
		case summary != "" && line != "":
			details = append(details, line)
		}
		if line != "" && !strings.HasPrefix(line, "{") { // a -json message that is no error says nothing
			last = line
		}
	}
	if summary == "" {
		return last, ""
	}
	return summary, strings.Join(details, " ")
}

// sentence masks secrets, puts a text on one line, cuts it and takes its final period away.
func sentence(text string, mask *redact.Secrets) string {
	text = strings.Join(strings.Fields(mask.Clean(text)), " ")
	if len(text) > longestMessage {
		text = strings.ToValidUTF8(text[:longestMessage], "") + "…"
	}
	return strings.TrimSuffix(text, ".")
}
