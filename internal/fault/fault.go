// Package fault holds the few errors that decide what the outside sees of a failed command: what the cf user may read and
// which exit code the on-demand broker gets. Every package may return them; only package adapter turns them into output.
package fault

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Errors with an exit code of their own in the service adapter protocol. Wrap them freely; they are recognised with errors.Is.
var (
	// ErrNotImplemented says that the pak has no such capability (exit code 10).
	ErrNotImplemented = errors.New("not implemented by this pak")
	// ErrBindingNotFound says that no binding of this id exists (exit code 41).
	ErrBindingNotFound = errors.New("binding not found")
	// ErrAppGUIDMissing says that a binding needs an app and the request names none (exit code 42).
	ErrAppGUIDMissing = errors.New("app_guid is required")
	// ErrBindingExists says that a complete binding of this id exists (exit code 49).
	ErrBindingExists = errors.New("binding already exists")
)

// UserError is an error whose message is safe and useful for the cf user. Everything else a command fails with is for the
// operator alone. Err, which may be nil, adds what only the operator should read.
type UserError struct {
	// Message is one sentence without secrets, as the cf user shall read it.
	Message string
	// Err is the operator's detail.
	Err error
}

// Userf returns a UserError without operator detail.
func Userf(format string, args ...any) error {
	return &UserError{Message: fmt.Sprintf(format, args...)}
}

// UserMessage returns what the cf user may read of an error: the message of a UserError in it, or of each one where errors are joined;
// "" when there is none.
func UserMessage(err error) string {
	var messages []string
	for _, message := range userMessages(err) {
		if !slices.Contains(messages, message) {
			messages = append(messages, message)
		}
	}
	return strings.Join(messages, "; ")
}

func userMessages(err error) []string {
	switch e := err.(type) { //nolint:errorlint // this is the walk that errors.As makes
	case *UserError:
		return []string{e.Message}
	case interface{ Unwrap() error }:
		return userMessages(e.Unwrap())
	case interface{ Unwrap() []error }:
		var messages []string
		for _, joined := range e.Unwrap() {
			messages = append(messages, userMessages(joined)...)
		}
		return messages
	default:
		return nil
	}
}

// Error returns the message and the operator's detail.
func (e *UserError) Error() string {
	if e.Err == nil {
		return e.Message
	}
	return e.Message + ": " + e.Err.Error()
}

// Unwrap returns the operator's detail.
func (e *UserError) Unwrap() error { return e.Err }
