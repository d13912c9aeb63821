// Package fault holds the few errors that decide what the outside sees of a failed command: what the cf user may read and
// which exit code the on-demand broker gets. Every package may return them; only package adapter turns them into output.
package fault

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
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
	// Operator says that only the operator can mend it: the user is asked to pass the message on.
	Operator bool
	// Err is the operator's detail.
	Err error
}

// Operatorf returns a UserError that only the operator can mend, such as a release that is missing.
func Operatorf(format string, args ...any) error {
	return &UserError{Message: fmt.Sprintf(format, args...), Operator: true}
}

// contactOperator begins what the user reads of an error that only the operator can mend. The example adapters of the on-demand
// services SDK use these words.
const contactOperator = "Contact your operator, service configuration issue occurred: "

// Userf returns a UserError without operator detail.
func Userf(format string, args ...any) error {
	return &UserError{Message: fmt.Sprintf(format, args...)}
}

// UserMessage returns what the cf user may read of an error: the message of a UserError in it, or of each one where errors are joined;
// "" when there is none.
func UserMessage(err error) string {
	var messages, operators []string
	for _, found := range userErrors(err) {
		list := &messages
		if found.Operator {
			list = &operators
		}
		if !slices.Contains(*list, found.Message) {
			*list = append(*list, found.Message)
		}
	}
	if len(operators) > 0 {
		messages = append(messages, contactOperator+strings.Join(operators, "; "))
	}
	return strings.Join(messages, "; ")
}

// OfOperator tells whether an error has nothing that the user can mend.
func OfOperator(err error) bool {
	return !slices.ContainsFunc(userErrors(err), func(e *UserError) bool { return !e.Operator })
}

func userErrors(err error) []*UserError {
	switch e := err.(type) { //nolint:errorlint // this is the walk that errors.As makes
	case *UserError:
		return []*UserError{e}
	case interface{ Unwrap() error }:
		return userErrors(e.Unwrap())
	case interface{ Unwrap() []error }:
		var found []*UserError
		for _, joined := range e.Unwrap() {
			found = append(found, userErrors(joined)...)
		}
		return found
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

// BudgetError says that a command used up the time that the configuration gives it. It is a context.DeadlineExceeded.
type BudgetError struct {
	// Budget is the whole time.
	Budget time.Duration
	// Work is the part of it that was for the work, when the rest was kept for undoing it; else 0.
	Work time.Duration
	// Errand says that it was the errand_limit.
	Errand bool
}

// Error is for the operator: what it was, and the way out.
func (e *BudgetError) Error() string {
	if e.Errand {
		return fmt.Sprintf("the errand_limit of %s is used up: raise it in the adapter's configuration; a repeat goes on", e.Budget)
	}
	part := ""
	if e.Work > 0 {
		part = fmt.Sprintf(", of which %s are for the work and the rest for undoing it,", e.Work.Round(time.Second/10))
	}
	return fmt.Sprintf("the budget of %s%s is used up: raise `budget` in the adapter's configuration, below the time that the platform gives "+
		"a request, or make what runs faster", e.Budget, part)
}

// Is tells that this is how a context ended.
func (*BudgetError) Is(target error) bool { return target == context.DeadlineExceeded }

// UserMessage is for the cf user.
func (e *BudgetError) UserMessage() string {
	return fmt.Sprintf("The service did not finish within the %s that it has for a request. Try again later, and tell your operations team "+
		"if it happens again.", e.Budget)
}
