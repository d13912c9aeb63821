package opentofu

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"service-adapter/internal/redact"
	"service-adapter/internal/statestore"
)

// longestMessage is the length in bytes at which an error's detail is cut.
const longestMessage = 1500

// providerDied is how OpenTofu reports that a provider crashed or was killed in the middle of a change.
const providerDied = `(?s)Plugin did not respond.*ApplyResourceChange|ApplyResourceChange.*(code = Unavailable|EOF|connection refused)`

// Error says why a run of OpenTofu failed: its first error diagnostic. Its texts hold no secrets that the engine knows.
// After a cancelled context it satisfies errors.Is with the context's error.
type Error struct {
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
	Held         *statestore.HeldError // another run else's lock is why it failed
	NotReleased  bool                  // a lock stays although the run is over
	SetupRace    bool                  // two machines made the tables of pg at once

	cause error
	said  diagnostic // not masked
}

// Resource is the address of the resource as the state has it, "" when there is none. It is for programs: it may hold a value.
func (e *Error) Resource() string { return e.said.Address }

// Error renders the failure as one sentence.
func (e *Error) Error() string {
	var text strings.Builder
	text.WriteString("OpenTofu " + e.Command + " ended with ")
	if e.ExitCode < 0 {
		text.WriteString("a signal")
	} else {
		fmt.Fprintf(&text, "exit status %d", e.ExitCode)
	}
	if e.cause != nil {
		text.WriteString(" after it was interrupted (" + e.why() + ")")
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
func (e *Error) Unwrap() error { return e.cause }

func (e *Error) place() string {
	file := e.File
	if file != "" && e.Line > 0 {
		file = fmt.Sprintf("%s:%d", file, e.Line)
	}
	if e.Address != "" && file != "" {
		return e.Address + " (" + file + ")"
	}
	return e.Address + file
}

// message is a line of OpenTofu's -json output, as far as it matters here.
type message struct {
	Type       string      `json:"type"`
	Diagnostic *diagnostic `json:"diagnostic"`
	Hook       struct {
		Action   string `json:"action"`
		Resource struct {
			Address string `json:"addr"`
		} `json:"resource"`
	} `json:"hook"`
}

type diagnostic struct {
	Severity string       `json:"severity"`
	Summary  string       `json:"summary"`
	Detail   string       `json:"detail"`
	Address  string       `json:"address"`
	Range    *sourceRange `json:"range"`
}

type sourceRange struct {
	Filename string `json:"filename"`
	Start    struct {
		Line int `json:"line"`
	} `json:"start"`
}

// why tells why the run was interrupted.
func (e *Error) why() string {
	if e.cause == context.DeadlineExceeded { //nolint:errorlint // an error with a text of its own is shown
		return "its time was over"
	}
	return e.cause.Error()
}

// explain finds the first error diagnostic in the output of a run: in its -json messages, else in its text for people.
func (e *Error) explain(stdout, stderr []byte, mask *redact.Secrets) {
	var found []diagnostic
	for line := range bytes.Lines(stdout) {
		var m message
		if json.Unmarshal(line, &m) == nil && m.Diagnostic != nil && m.Diagnostic.Severity == "error" {
			found = append(found, *m.Diagnostic)
			e.ProviderDied = e.ProviderDied || regexp.MustCompile(providerDied).MatchString(m.Diagnostic.Summary+" "+m.Diagnostic.Detail)
		}
	}
	if len(found) > 0 {
		e.said, e.More = found[0], len(found)-1
	} else {
		e.said = errorText(stderr)
		if e.said.Summary == "" {
			e.said = errorText(stdout)
		}
	}
	e.readLock(stdout, stderr)
	e.Hide(mask)
}

// Hide shows what OpenTofu said without the secrets that are known by now.
func (e *Error) Hide(mask *redact.Secrets) {
	e.Summary, e.Address = sentence(mask.Clean(e.said.Summary)), mask.Clean(e.said.Address)
	e.Detail = sentence(causeFirst(mask.Clean(e.said.Detail)))
	if e.said.Range != nil {
		e.File, e.Line = filepath.Base(e.said.Range.Filename), e.said.Range.Start.Line
	}
}

// Withhold puts a reason in the place of what OpenTofu said.
func (e *Error) Withhold(why string) { e.Summary, e.Detail = why, "" }

// commandFailed is how local-exec reports a command that failed: the whole script, and what it wrote after that.
const commandFailed = `(?s)^Error running command '.*': ([^']*?)\. Output: (.*)$`

// causeFirst turns the report of a command around: its last words tell the cause, and the script stands in the template.
func causeFirst(detail string) string {
	parts := regexp.MustCompile(commandFailed).FindStringSubmatch(detail)
	if parts == nil {
		return detail
	}
	how, output := parts[1], strings.TrimSpace(parts[2])
	if output == "" {
		return "the command ended with " + how + " and wrote nothing"
	}
	if len(output) > longestMessage/2 {
		output = "…" + strings.ToValidUTF8(output[len(output)-longestMessage/2:], "")
	}
	return output + " (the command ended with " + how + ")"
}

// place is how OpenTofu's text for people tells where an error is; lines of the source follow.
const (
	textPlace  = `^on (\S+) line (\d+)(, in .*)?:?$`
	textSource = `^\d+: `
)

// errorText finds the first error in output for people: the rest of the line "Error: …", the place, and the paragraphs after it. Without
// such a line it is the last line.
func errorText(output []byte) diagnostic {
	var said diagnostic
	var last string
	var details []string
	for line := range strings.Lines(string(output)) {
		line = strings.TrimSpace(strings.Trim(strings.TrimSpace(line), "│╷╵"))
		rest, isError := strings.CutPrefix(line, "Error: ")
		if isError && said.Summary != "" {
			break
		}
		at := regexp.MustCompile(textPlace).FindStringSubmatch(line)
		switch {
		case isError:
			said.Summary = rest
		case said.Summary == "" || line == "":
		case at != nil && said.Range == nil && len(details) == 0:
			said.Range = &sourceRange{Filename: at[1]}
			said.Range.Start.Line, _ = strconv.Atoi(at[2]) // 0 is shown as no line
		case said.Range != nil && len(details) == 0 && regexp.MustCompile(textSource).MatchString(line):
		default:
			details = append(details, line)
		}
		if line != "" && !strings.HasPrefix(line, "{") { // a -json message that is no error says nothing
			last = line
		}
	}
	if said.Summary == "" {
		said.Summary = last
	}
	said.Detail = strings.Join(details, " ")
	return said
}

// sentence puts a text on one line, cuts it and takes its final period away.
func sentence(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > longestMessage {
		text = strings.ToValidUTF8(text[:longestMessage], "") + "…"
	}
	return strings.TrimSuffix(text, ".")
}

// Created reads from the messages of "apply -json" which resources were created, or were being created at the end.
func Created(output []byte) []string {
	var addresses []string
	for line := range bytes.Lines(output) {
		var m message
		address := &m.Hook.Resource.Address
		if json.Unmarshal(line, &m) != nil || m.Hook.Action != "create" || *address == statestore.GuardAddress || *address == statestore.CompleteAddress {
			continue
		}
		switch m.Type {
		case "apply_start":
			addresses = append(addresses, *address)
		case "apply_errored":
			addresses = slices.DeleteFunc(addresses, func(started string) bool { return started == *address })
		}
	}
	return addresses
}

// explainEncryption replaces OpenTofu's words about states that it must not or cannot decrypt by what to do. Texts that it does not
// know stay as they are.
func (e *Error) explainEncryption() {
	said := e.Summary + " " + e.Detail
	instead := regexp.MustCompile(`(?s)` + statestore.AnotherKey + `.*?(` + regexp.QuoteMeta(statestore.AddKey) + `|$)`).FindString(said)
	switch {
	case strings.Contains(said, "is encrypted and can not be read without an encryption configuration"):
		instead = "the state is encrypted; set state.encryption"
	case strings.Contains(said, "unencrypted payload without unencrypted method"):
		instead = "the state is not encrypted although state.encryption is set; encrypt the existing states first"
	}
	if instead != "" {
		e.Summary, e.Detail, e.said.Summary, e.said.Detail = instead, "", instead, ""
	}
}

// The places of locks in OpenTofu's texts. These expressions are compiled when a run failed: that takes a millisecond.
const (
	lockInfo = `Lock Info: ID: (\S*) ?Path: (?:.*?) ?Operation: (.*?) ?Who: (.*?) ?Version: \S* ?Created: (\S+ \S+ \S+ \S+) Info:`
	// lockRace is when the lock was taken or released between OpenTofu's try and its look who holds it.
	lockRace = `(?i)lock.*(PreconditionFailed|ConditionalRequestConflict|StatusCode: 409|resource temporarily unavailable)`
	// notReleased is when a lock stays although the run is over.
	notReleased = `(?i)releasing the state lock|error unlocking|unlocking the state file`
	// setupRace is when two machines make the tables of pg at the same moment.
	setupRace = `duplicate key value violates unique constraint "?pg_|tuple concurrently updated|` +
		`(type|relation) "(states|states_by_name|global_states_id_seq)" already exists`
	// backendFault is how OpenTofu reports what a backend cannot do. Resources and providers have an address or a file.
	backendFault = `(?i)dial tcp|connection refused|connection reset|broken pipe|bad connection|no such host|i/o timeout|` +
		`^EOF|unexpected EOF|request send failed|pq: |error (loading|refreshing|saving) (the )?(state|workspaces)|` +
		`error (acquiring|releasing) the state lock|listing workspaces failed|` +
		`failed to (load (the )?state|get existing workspaces|save (the )?state|persist|refresh (the )?state|lock|fetch the state|upload state)`
)

// readLock reads what the first error of a run says about locks, and looks for others in its output.
func (e *Error) readLock(stdout, stderr []byte) {
	said := strings.Join(strings.Fields(e.said.Summary+" "+e.said.Detail), " ")
	e.NotReleased = regexp.MustCompile(notReleased).Match(stdout) || regexp.MustCompile(notReleased).Match(stderr)
	e.SetupRace = regexp.MustCompile(setupRace).MatchString(said)
	info := regexp.MustCompile(lockInfo).FindStringSubmatch(said)
	switch {
	case e.NotReleased:
	case info != nil:
		created, err := time.Parse("2006-01-02 15:04:05.999999999 -0700 MST", info[4])
		if err == nil {
			e.Held = &statestore.HeldError{ID: info[1], Operation: info[2], Who: info[3], Created: created}
		}
	case regexp.MustCompile(lockRace).MatchString(said):
		e.Held = &statestore.HeldError{}
	}
}

// ofBackend tells whether the state backend is what failed.
func (e *Error) ofBackend() bool {
	return e.Address == "" && e.File == "" && regexp.MustCompile(backendFault).MatchString(e.Summary+" "+e.Detail)
}
