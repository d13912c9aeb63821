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

// Error is the failure of a run of OpenTofu that ended with an exit status other than 0 or by a signal. It describes
// the run's first error diagnostic, or the last line of the output if the output has no diagnostic. Further fields
// identify some causes: a state backend that failed, the lock of another run, an own lock that OpenTofu could not
// release, a provider that ended in the middle of a change, and a race between two machines that create the tables of
// pg. Secrets are masked in Summary, Detail and Address. If the context of the run had ended before the run failed,
// the run counts as interrupted, and the Error wraps the error of ctxio.Err: the cause of the context if that wraps
// the context's error, and otherwise the context's error itself. Runner.Run returns an *Error, never an Error.
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

// Resource returns the address of the resource or provider that the diagnostic concerns, such as random_string.name[0],
// as it is in the state, or "" if the diagnostic has no address or the output has no diagnostic. Unlike the field
// Address it is not masked and may contain secrets, so it must not be shown.
func (e *Error) Resource() string { return e.unmasked.Address }

// InEvaluation reports whether OpenTofu exited because it could not evaluate the configuration or read a data source.
// It returns false if the diagnostic has the address of a managed resource, if a provider failed (see OfProvider), if
// Backend or HeldLock is set, and if the run was interrupted or ended by a signal. It assumes one of the two causes
// in all other cases, also if the diagnostic has no address, and for the exit status of a plan that contains changes;
// see FoundChanges.
func (e *Error) InEvaluation() bool {
	address := e.Resource()
	ofData := regexp.MustCompile(`^(module\.[^.\[]+(\[[^\]]*\])?\.)*data\.`).MatchString(address)
	return e.ExitCode > 0 && e.cause == nil && e.Backend == "" && e.HeldLock == nil && !e.OfProvider() &&
		(address == "" || ofData)
}

// OfProvider reports whether a provider could not be started, reached or configured, for example because its server is
// down or refuses the login, or whether its process ended during the run. It uses the first diagnostic only: it returns
// true if the diagnostic has the address of a provider, or a text of OpenTofu about a failed provider process.
func (e *Error) OfProvider() bool {
	return strings.HasPrefix(e.Resource(), "provider[") ||
		regexp.MustCompile(pluginFailed).MatchString(e.unmasked.Summary+" "+e.unmasked.Detail)
}

// Error returns the failure as one line with masked texts: the subcommand, the exit status or "a signal", the reason of
// an interrupt, the backend, the location, the summary and the detail of the diagnostic, and the number of further
// errors. Parts that do not apply are omitted. An example is "OpenTofu apply ended with exit status 1: random_string.a
// (main.tf:3): Invalid length: it must be positive (2 more errors)".
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

// location returns the masked address of the resource and the position in the configuration as "ADDRESS (FILE:LINE)".
// An unknown part is omitted, so the result may also be "ADDRESS (FILE)", "ADDRESS", "FILE:LINE" or "FILE". It is "" if
// the diagnostic has neither an address nor a file.
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

// message is a line of OpenTofu's -json output, with the fields that this package reads. Type is the type of the
// message, such as "apply_start". Diagnostic is nil if the message contains none. Hook contains the planned action,
// such as "create", and the address of the resource instance that the message concerns; it is zero if there is none.
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

// diagnostic is an error or warning of OpenTofu, decoded from the -json output or parsed from human-readable text. Its
// texts are not masked. An unknown text is empty, and Range is nil if the position is unknown.
type diagnostic struct {
	Severity string       `json:"severity"`
	Summary  string       `json:"summary"`
	Detail   string       `json:"detail"`
	Address  string       `json:"address"`
	Range    *sourceRange `json:"range"`
}

// sourceRange is the position of a diagnostic in a configuration file: the file's name, as OpenTofu reports it, and the
// line, counted from 1.
type sourceRange struct {
	Filename string `json:"filename"`
	Start    struct {
		Line int `json:"line"`
	} `json:"start"`
}

// FoundChanges reports whether err is, or wraps, an *Error with the exit status 2, with which "plan -detailed-exitcode"
// reports that the plan contains changes. Such a run has not failed. FoundChanges returns false for nil and for any
// other error. The caller must pass the error of such a plan, because FoundChanges does not check the command.
func FoundChanges(err error) bool {
	var run *Error
	return errors.As(err, &run) && run.ExitCode == 2
}

// interruption returns the reason why the run was interrupted: the text of the context's error, or "its time limit was
// reached" if that is context.DeadlineExceeded itself and not an error that wraps it. It panics if the run was not
// interrupted.
func (e *Error) interruption() string {
	if e.cause == context.DeadlineExceeded { //nolint:errorlint // an error that wraps it has a text of its own
		return "its time limit was reached"
	}
	return e.cause.Error()
}

// explain sets Summary, Detail, Address, File, Line, More, ProviderDied, HeldLock, NotReleased and SetupRace from the
// output of the failed run; see explainLock for the last three. It masks the secrets of mask, which may be nil, in
// Summary, Detail and Address. It does not set Backend.
//
// The diagnostic is the first error in the -json messages on stdout, and More is the number of the others. Without such
// a message, the diagnostic is the first error in the human-readable text on stderr, or the last line of that text if
// it contains no error, and More is 0. If stderr contains no such text, the text on stdout is used in the same way.
// ProviderDied is set if any error in the -json messages says that a provider ended in the middle of a change.
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

// Mask sets Summary, Detail, Address, File and Line again from OpenTofu's diagnostic, of which the Error keeps the
// unmasked text. It masks the secrets of mask in the first three, and no secrets that only an earlier call of Mask
// received. A nil mask masks only values that a text itself labels as secret, such as password=…. Summary and Detail
// become one line each; a line longer than 1500 bytes is cut off there and ends with an ellipsis. Detail is rewritten
// if a local-exec command failed; see causeFirst. File and Line stay as they are if the diagnostic has no position.
// The caller calls Mask once more when it has learnt more secrets, such as the sensitive values in the state. Mask
// undoes ReplaceText.
func (e *Error) Mask(mask *redact.Secrets) {
	e.Summary, e.Address = oneLine(mask.Clean(e.unmasked.Summary)), mask.Clean(e.unmasked.Address)
	e.Detail = oneLine(causeFirst(mask.Clean(e.unmasked.Detail)))
	if e.unmasked.Range != nil {
		e.File, e.Line = filepath.Base(e.unmasked.Range.Filename), e.unmasked.Range.Start.Line
	}
}

// ReplaceText replaces Summary by the text why and clears Detail, so that the error shows no part of OpenTofu's
// diagnostic except the address and the position. It does not change the results of Resource, InEvaluation and
// OfProvider, which use the unmasked diagnostic. A later call of Mask undoes ReplaceText, because it sets Summary and
// Detail from that diagnostic.
func (e *Error) ReplaceText(why string) { e.Summary, e.Detail = why, "" }

// commandFailed matches the detail of a failed local-exec command: the whole script, the exit status, and the command's
// output.
const commandFailed = `(?s)^Error running command '.*': ([^']*?)\. Output: (.*)$`

// causeFirst rewrites the detail of a diagnostic about a failed local-exec command. The result is "OUTPUT (the command
// ended with STATUS)", where OUTPUT is the command's output without white space at its ends. Of a longer output only
// the last 750 bytes are kept, after an ellipsis, because the end usually contains the cause. If OUTPUT is empty, the
// result is "the command ended with STATUS and wrote nothing". The script of the command, which the detail repeats, is
// omitted. Any other detail is returned unchanged.
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
// "Error: …". The range is the position in the configuration if that is the next line that is not empty, and nil
// otherwise. The detail consists of the other lines up to the next error, joined by spaces, without the lines of the
// configuration that are quoted after the position. The severity and the address are always empty. If the output has no
// line "Error: …", the summary is the last line that is not empty and does not begin with a brace as -json messages do,
// and the rest is empty. Without such a line the result is zero.
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

// oneLine returns a text as one line: it reduces all white space, including line ends, to single spaces and removes
// it at both ends. If the line is then longer than 1500 bytes, it cuts off the rest and appends an ellipsis, which is
// not counted. Finally it removes one final period. It returns "" for a text of white space.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > longestMessage {
		text = strings.ToValidUTF8(text[:longestMessage], "") + "…"
	}
	return strings.TrimSuffix(text, ".")
}

// explainEncryption replaces OpenTofu's diagnostic by a message that names the setting to change if it reports one of
// these causes: a state encrypted with an unknown key, an encrypted state without a configured encryption, or an
// unencrypted state with one. explainEncryption sets Summary to the message and clears Detail, also in the unmasked
// diagnostic, so that later calls of Mask keep the message. It leaves any other diagnostic unchanged. explain must have
// been called.
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

// explainLock sets HeldLock and SetupRace according to the diagnostic, which explain has set, and NotReleased according
// to the whole output. HeldLock describes the lock of another run that caused the failure. It stays nil if no such lock
// did, if NotReleased is set, or if the time in the description of the holder has an unknown form. It is empty, but not
// nil, if another run took or released the lock before OpenTofu could read its holder.
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

// isBackendFault reports whether the state backend caused the failure, according to the text of the diagnostic or,
// without one, to the last line of the output. explain must have set both. It returns false for a diagnostic with an
// address or a position, because such a diagnostic concerns a resource, a provider or the configuration.
func (e *Error) isBackendFault() bool {
	return e.Address == "" && e.File == "" && regexp.MustCompile(backendFault).MatchString(e.Summary+" "+e.Detail)
}
