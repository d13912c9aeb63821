package opentofu

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"service-adapter/internal/engine/statestore"
	"service-adapter/internal/redact"
)

// longestMessage is the length in bytes to which a summary or a detail is truncated.
const longestMessage = 1500

// providerDied matches OpenTofu's diagnostics about a provider that crashed or was killed in the middle of a change.
const providerDied = `(?s)Plugin did not respond.*ApplyResourceChange|` +
	`ApplyResourceChange.*(code = Unavailable|EOF|connection refused)`

// pluginFailed matches OpenTofu's diagnostics about a provider whose process ended, could not be started or could not
// be reached.
const pluginFailed = `(?i)plugin did not respond|reattachment process not found|could not load plugin|` +
	`failed to (instantiate|load) (provider|plugin)|unavailable desc`

// Error is the failure of a run of OpenTofu. It describes the run's first error diagnostic, or the last line of the
// output if there is no diagnostic. Secrets are masked in Summary, Detail and Address. If the run was interrupted
// because a context ended, the Error satisfies errors.Is with the context's error.
type Error struct {
	Command  string // the subcommand, such as "apply"
	Summary  string // one line without a final period, as is Detail
	Detail   string
	Address  string // the address of the resource or provider concerned, "" if there is none
	File     string // the base name of the configuration file, "" if there is none
	Line     int    // the line in File, 0 if unknown
	More     int    // the number of further error diagnostics
	ExitCode int    // OpenTofu's exit status, -1 if a signal ended it
	// Backend is the type of the state backend if the backend caused the failure, and "" otherwise.
	Backend string
	// ProviderDied reports that a provider ended in the middle of a change. The resource that it was creating may exist
	// without being in the state.
	ProviderDied bool
	// HeldLock describes the lock of another run that caused the failure. It is nil if no lock did.
	HeldLock *statestore.HeldError
	// NotReleased reports that OpenTofu could not release its own lock, which therefore outlives the run.
	NotReleased bool
	// SetupRace reports that another machine created the tables of the backend pg at the same moment. The run may be
	// repeated.
	SetupRace bool

	cause    error      // the error of the context that interrupted the run, nil without an interrupt
	unmasked diagnostic // the diagnostic with its secrets
}

// Resource returns the address of the resource that the diagnostic concerns, as it is in the state, or "" if there is
// none. Unlike Address it is not masked and may contain secrets, so it must not be shown.
func (e *Error) Resource() string { return e.unmasked.Address }

// InEvaluation reports whether OpenTofu exited because it could not evaluate the configuration or read a data source.
// It assumes so if the failure has none of the other causes that this package recognises: it is false for errors about
// managed resources, providers, state backends and locks, and for runs that were interrupted or ended by a signal.
func (e *Error) InEvaluation() bool {
	address := e.Resource()
	ofData := strings.HasPrefix(address, "data.") || strings.Contains(address, ".data.")
	return e.ExitCode > 0 && e.cause == nil && e.Backend == "" && e.HeldLock == nil && !e.OfProvider() &&
		(address == "" || ofData)
}

// OfProvider reports whether a provider could not be started, reached or configured, for example because its server is
// down or refuses the login. Such an error says nothing about the resources.
func (e *Error) OfProvider() bool {
	return strings.HasPrefix(e.Resource(), "provider[") ||
		regexp.MustCompile(pluginFailed).MatchString(e.unmasked.Summary+" "+e.unmasked.Detail)
}

// Error returns the failure as one line: the subcommand, the exit status, the interrupt, the backend, the location, and
// the diagnostic, as far as they apply.
func (e *Error) Error() string {
	var text strings.Builder
	text.WriteString("OpenTofu " + e.Command + " ended with ")
	if e.ExitCode < 0 {
		text.WriteString("a signal")
	} else {
		fmt.Fprintf(&text, "exit status %d", e.ExitCode)
	}
	if e.cause != nil {
		text.WriteString(" after it was interrupted (" + e.interruption() + ")")
	}
	if e.Backend != "" {
		text.WriteString(": the state backend " + e.Backend + " cannot be used")
	}
	for _, part := range []string{e.location(), e.Summary, e.Detail} {
		if part != "" {
			text.WriteString(": " + part)
		}
	}
	if e.More > 0 {
		fmt.Fprintf(&text, " (%d more errors)", e.More)
	}
	return text.String()
}

// Unwrap returns the error of the context that interrupted the run, or nil if the run was not interrupted.
func (e *Error) Unwrap() error { return e.cause }

// location returns the masked address of the resource and the position in the configuration, as far as they are known.
// It returns "" if neither is.
func (e *Error) location() string {
	file := e.File
	if file != "" && e.Line > 0 {
		file = fmt.Sprintf("%s:%d", file, e.Line)
	}
	if e.Address != "" && file != "" {
		return e.Address + " (" + file + ")"
	}
	return e.Address + file
}

// message is a line of OpenTofu's -json output, with the fields that this package reads.
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

// diagnostic is an error or warning of OpenTofu.
type diagnostic struct {
	Severity string       `json:"severity"`
	Summary  string       `json:"summary"`
	Detail   string       `json:"detail"`
	Address  string       `json:"address"`
	Range    *sourceRange `json:"range"`
}

// sourceRange is the position of a diagnostic in a configuration file.
type sourceRange struct {
	Filename string `json:"filename"`
	Start    struct {
		Line int `json:"line"`
	} `json:"start"`
}

// FoundChanges reports whether an error is the exit status with which "plan -detailed-exitcode" reports that the plan
// contains changes. Such a run has not failed. It is false for nil. The run must have been such a plan.
func FoundChanges(err error) bool {
	var run *Error
	return errors.As(err, &run) && run.ExitCode == 2
}

// interruption returns the reason why the run was interrupted: the text of the context's error, or "its time was over"
// if that is context.DeadlineExceeded itself. It may be called only if there was an interrupt.
func (e *Error) interruption() string {
	if e.cause == context.DeadlineExceeded { //nolint:errorlint // an error that wraps it has a text of its own
		return "its time was over"
	}
	return e.cause.Error()
}

// explain sets the fields that are read from the output of the run, except Backend, and masks those that may contain
// secrets. The diagnostic is the first error in the -json messages on stdout. Without one, it is the first error in the
// human-readable text on stderr, or else on stdout, and More is 0. ProviderDied is set if any of the -json messages
// says so.
func (e *Error) explain(stdout, stderr []byte, mask *redact.Secrets) {
	var diagnostics []diagnostic
	died := regexp.MustCompile(providerDied)
	for line := range bytes.Lines(stdout) {
		var m message
		if json.Unmarshal(line, &m) == nil && m.Diagnostic != nil && m.Diagnostic.Severity == "error" {
			diagnostics = append(diagnostics, *m.Diagnostic)
			e.ProviderDied = e.ProviderDied || died.MatchString(m.Diagnostic.Summary+" "+m.Diagnostic.Detail)
		}
	}
	if len(diagnostics) > 0 {
		e.unmasked, e.More = diagnostics[0], len(diagnostics)-1
	} else {
		e.unmasked = parseErrorText(stderr)
		if e.unmasked.Summary == "" {
			e.unmasked = parseErrorText(stdout)
		}
	}
	e.explainLock(stdout, stderr)
	e.Mask(mask)
}

// Mask sets Summary, Detail, Address, File and Line again from OpenTofu's diagnostic. The first three are masked with
// these secrets, none if mask is nil, and Summary and Detail are shortened to one line. File and Line stay as they are
// if the diagnostic has no position. It is called once more when the caller has learnt more secrets, such as the
// sensitive values in the state. It undoes ReplaceText.
func (e *Error) Mask(mask *redact.Secrets) {
	e.Summary, e.Address = oneLine(mask.Clean(e.unmasked.Summary)), mask.Clean(e.unmasked.Address)
	e.Detail = oneLine(causeFirst(mask.Clean(e.unmasked.Detail)))
	if e.unmasked.Range != nil {
		e.File, e.Line = filepath.Base(e.unmasked.Range.Filename), e.unmasked.Range.Start.Line
	}
}

// ReplaceText replaces Summary by the text why and clears Detail, so that the error shows no part of OpenTofu's
// diagnostic except the address and the position. The methods that interpret the diagnostic still use OpenTofu's text,
// and so does a later call of Mask.
func (e *Error) ReplaceText(why string) { e.Summary, e.Detail = why, "" }

// commandFailed matches the detail of a failed local-exec command: the whole script, the exit status, and the command's
// output.
const commandFailed = `(?s)^Error running command '.*': ([^']*?)\. Output: (.*)$`

// causeFirst rewrites the detail of a diagnostic about a failed local-exec command. The result is the end of the
// command's output, which usually contains the cause and is shortened to half of longestMessage, followed by the exit
// status. If the command wrote nothing, the result says so. The script, which the template contains, is omitted. Any
// other detail is returned unchanged.
func causeFirst(detail string) string {
	parts := regexp.MustCompile(commandFailed).FindStringSubmatch(detail)
	if parts == nil {
		return detail
	}
	status, output := parts[1], strings.TrimSpace(parts[2])
	if output == "" {
		return "the command ended with " + status + " and wrote nothing"
	}
	if len(output) > longestMessage/2 {
		output = "…" + strings.ToValidUTF8(output[len(output)-longestMessage/2:], "")
	}
	return output + " (the command ended with " + status + ")"
}

// These expressions match lines of a human-readable diagnostic, without the frame.
const (
	// positionLine matches the line with the configuration file and the line number.
	positionLine = `^on (\S+) line (\d+)(, in .*)?:?$`
	// sourceLine matches a line of the configuration, which follows the position.
	sourceLine = `^\d+: `
)

// parseErrorText returns the first error in human-readable output without colours. The summary is the rest of the line
// "Error: …", the range is the position, nil if there is none, and the detail is the text after the position and the
// lines of the configuration. The severity and the address are always empty. If the output has no such line, the
// summary is its last line that is not a -json message, and the rest is empty.
func parseErrorText(output []byte) diagnostic {
	var result diagnostic
	var last string // the last line that may serve as a summary
	var details []string
	for line := range strings.Lines(string(output)) {
		line = strings.TrimSpace(strings.Trim(strings.TrimSpace(line), "│╷╵"))
		rest, isError := strings.CutPrefix(line, "Error: ")
		if isError && result.Summary != "" {
			break
		}
		position := regexp.MustCompile(positionLine).FindStringSubmatch(line)
		switch {
		case isError:
			result.Summary = rest
		case result.Summary == "" || line == "":
		case position != nil && result.Range == nil && len(details) == 0:
			result.Range = &sourceRange{Filename: position[1]}
			result.Range.Start.Line, _ = strconv.Atoi(position[2]) // the expression matches digits only
		case result.Range != nil && len(details) == 0 && regexp.MustCompile(sourceLine).MatchString(line):
		default:
			details = append(details, line)
		}
		// A -json message that is not an error does not explain the failure.
		if line != "" && !strings.HasPrefix(line, "{") {
			last = line
		}
	}
	if result.Summary == "" {
		result.Summary = last
	}
	result.Detail = strings.Join(details, " ")
	return result
}

// oneLine joins the lines of a text, reduces white space to single spaces, truncates the result to longestMessage with
// an ellipsis, and removes a final period.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > longestMessage {
		text = strings.ToValidUTF8(text[:longestMessage], "") + "…"
	}
	return strings.TrimSuffix(text, ".")
}

// explainEncryption replaces OpenTofu's diagnostic, if that is about the state encryption, by a message that names the
// setting to change. It clears Detail then. Later calls of Mask keep the message. Other diagnostics are unchanged.
func (e *Error) explainEncryption() {
	text := e.Summary + " " + e.Detail
	unknownKey := `(?s)` + statestore.AnotherKey + `.*?(` + regexp.QuoteMeta(statestore.AddKey) + `|$)`
	explanation := regexp.MustCompile(unknownKey).FindString(text)
	switch {
	case strings.Contains(text, "is encrypted and can not be read without an encryption configuration"):
		explanation = "the state is encrypted; set state.encryption"
	case strings.Contains(text, "unencrypted payload without unencrypted method"):
		explanation = "the state is not encrypted although state.encryption is set; encrypt the existing states first"
	}
	if explanation != "" {
		e.Summary, e.Detail, e.unmasked.Summary, e.unmasked.Detail = explanation, "", explanation, ""
	}
}

// These expressions match OpenTofu's diagnostics about locks and backends. They are compiled only after a run failed,
// which takes a millisecond.
const (
	// lockInfo matches the description of the lock holder.
	lockInfo = `Lock Info: ID: (\S*) ?Path: (?:.*?) ?Operation: (.*?) ?Who: (.*?) ?Version: \S* ?` +
		`Created: (\S+ \S+ \S+ \S+) Info:`
	// lockRace matches the diagnostic of a lock that another run took or released after OpenTofu failed to take it and
	// before OpenTofu read its holder.
	lockRace = `(?i)lock.*(PreconditionFailed|ConditionalRequestConflict|StatusCode: 409|` +
		`resource temporarily unavailable)`
	// notReleased matches the diagnostic of a lock that OpenTofu could not release.
	notReleased = `(?i)releasing the state lock|error unlocking|unlocking the state file`
	// setupRace matches the errors of PostgreSQL when two machines create the tables of the backend pg at the same
	// moment.
	setupRace = `duplicate key value violates unique constraint "?pg_|tuple concurrently updated|` +
		`(type|relation) "(states|states_by_name|global_states_id_seq)" already exists`
	// backendFault matches diagnostics about a state backend that failed. Diagnostics of resources and providers can
	// match it as well, but have an address or a file.
	backendFault = `(?i)dial tcp|connection refused|connection reset|broken pipe|bad connection|no such host|` +
		`i/o timeout|^EOF|unexpected EOF|request send failed|pq: |` +
		`error (loading|refreshing|saving) (the )?(state|workspaces)|` +
		`error (acquiring|releasing) the state lock|listing workspaces failed|` +
		`failed to (load (the )?state|get existing workspaces|save (the )?state|persist|refresh (the )?state|` +
		`lock|fetch the state|upload state)`
)

// explainLock sets HeldLock and SetupRace according to the diagnostic, and NotReleased according to the whole output.
// HeldLock stays nil if no lock of another run caused the failure, if NotReleased is set, or if the time in the
// description of the holder has an unknown form. It is empty, but not nil, if another run took or released the lock
// before OpenTofu could read its holder.
func (e *Error) explainLock(stdout, stderr []byte) {
	text := strings.Join(strings.Fields(e.unmasked.Summary+" "+e.unmasked.Detail), " ")
	e.NotReleased = regexp.MustCompile(notReleased).Match(stdout) || regexp.MustCompile(notReleased).Match(stderr)
	e.SetupRace = regexp.MustCompile(setupRace).MatchString(text)
	info := regexp.MustCompile(lockInfo).FindStringSubmatch(text)
	switch {
	case e.NotReleased:
	case info != nil:
		created, err := time.Parse("2006-01-02 15:04:05.999999999 -0700 MST", info[4])
		if err == nil {
			e.HeldLock = &statestore.HeldError{ID: info[1], Operation: info[2], Who: info[3], Created: created}
		}
	case regexp.MustCompile(lockRace).MatchString(text):
		e.HeldLock = &statestore.HeldError{}
	}
}

// isBackendFault reports whether the state backend caused the failure, according to the diagnostic or, without one, to
// the last line of the output; see explain, which must have been called. A diagnostic with an address or a position is
// never about the backend.
func (e *Error) isBackendFault() bool {
	return e.Address == "" && e.File == "" && regexp.MustCompile(backendFault).MatchString(e.Summary+" "+e.Detail)
}
