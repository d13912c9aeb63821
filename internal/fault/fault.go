// Package fault defines the errors that decide what a failed command shows to the outside: the text for the end user of
// Cloud Foundry and the exit code for the on-demand broker. Every package may return them; only package adapter turns
// them into output.
package fault

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Errors that have an exit code of their own in the service adapter protocol. They may be wrapped; package adapter
// recognises them with errors.Is.
var (
	// ErrNotImplemented means that the pak does not offer the requested capability (exit code 10).
	ErrNotImplemented = errors.New("not implemented by this pak")
	// ErrBindingNotFound means that no binding with the requested id exists (exit code 41).
	ErrBindingNotFound = errors.New("binding not found")
	// ErrAppGUIDMissing means that the binding needs an app and the request contains no app_guid (exit code 42).
	ErrAppGUIDMissing = errors.New("app_guid is required")
	// ErrBindingExists means that a complete binding with the requested id exists (exit code 49).
	ErrBindingExists = errors.New("binding already exists")
)

// A UserError is an error with a message that is safe and useful for the end user. It also states whether only the
// operator can fix the cause, and may wrap an error with the detail for the operator, which the end user does not see.
// The end user sees the text of no other error, except of a BudgetError.
type UserError struct {
	// Message is one sentence without secrets, for the end user.
	Message string
	// Operator reports whether only the operator can fix the cause. The end user is then asked to contact the operator.
	Operator bool
	// Err is the detail for the operator, which the end user does not see. It may be nil.
	Err error
}

// Operatorf returns a *UserError whose message is formatted from format and args as by fmt.Sprintf, for a cause that
// only the operator can fix, such as a missing release. UserMessage shows the message to the end user as well, after a
// request to contact the operator, so it must not contain secrets. The error has no operator detail and wraps no other
// error; the verb %w is not supported.
func Operatorf(format string, args ...any) error {
	return &UserError{Message: fmt.Sprintf(format, args...), Operator: true}
}

// contactOperator precedes the messages of errors that only the operator can fix. The example adapters of the on-demand
// services SDK use the same words.
const contactOperator = "Contact your operator, service configuration issue occurred: "

// Userf returns a *UserError whose message is formatted from format and args as by fmt.Sprintf, for a cause that the
// end user can fix. UserMessage shows the message to the end user, so it must not contain secrets. The error has no
// operator detail and wraps no other error; the verb %w is not supported.
func Userf(format string, args ...any) error {
	return &UserError{Message: fmt.Sprintf(format, args...)}
}

// UserMessage returns the text that the end user may read about an error: the messages of the UserErrors that err is,
// wraps or joins, separated by "; ". The messages of causes that the end user can fix come first. Those of causes
// that only the operator can fix come last, and the words "Contact your operator, service configuration issue
// occurred: " precede them, even if there are no other messages. Each of the two lists contains a message once. The
// message of a UserError that another UserError wraps is left out. UserMessage returns "" if err is nil or contains
// no UserError. It does not consider BudgetError, which has a UserMessage of its own.
func UserMessage(err error) string {
	var messages, operators []string
	for _, userErr := range userErrors(err) {
		list := &messages
		if userErr.Operator {
			list = &operators
		}
		if !slices.Contains(*list, userErr.Message) {
			*list = append(*list, userErr.Message)
		}
	}
	if len(operators) > 0 {
		messages = append(messages, contactOperator+strings.Join(operators, "; "))
	}
	return strings.Join(messages, "; ")
}

// OnlyForOperator reports whether an error contains no UserError that the end user can fix: none, or only those whose
// field Operator is true. It therefore returns true for an error without any UserError, and for nil. A UserError that
// another UserError wraps is ignored.
func OnlyForOperator(err error) bool {
	return !slices.ContainsFunc(userErrors(err), func(e *UserError) bool { return !e.Operator })
}

// userErrors returns the UserErrors in the tree of an error and the errors that it wraps or joins, in the order of the
// tree, without those that another UserError wraps. It returns nil if the tree contains no UserError, and for a nil
// error.
func userErrors(err error) []*UserError {
	switch e := err.(type) { //nolint:errorlint // this walks the tree as errors.As does, but collects all matches
	case *UserError:
		return []*UserError{e}
	case interface{ Unwrap() error }:
		return userErrors(e.Unwrap())
	case interface{ Unwrap() []error }:
		var all []*UserError
		for _, joined := range e.Unwrap() {
			all = append(all, userErrors(joined)...)
		}
		return all
	default:
		return nil
	}
}

// Error returns the message for the end user, followed by ": " and the operator's detail if the error has one. The text
// may contain details that the end user must not see, so it is for the operator.
func (e *UserError) Error() string {
	if e.Err == nil {
		return e.Message
	}
	return e.Message + ": " + e.Err.Error()
}

// Unwrap returns the error that is the operator's detail, or nil if the UserError has none.
func (e *UserError) Unwrap() error { return e.Err }

// A BudgetError means that a command used up the time that the configuration allows it: the budget of a request or the
// limit of an errand. It contains this time, which of the two it is and, if a part of it was reserved for undoing the
// work, the time that was available for the work itself. errors.Is reports it as equal to context.DeadlineExceeded.
type BudgetError struct {
	// Budget is the whole time of the command.
	Budget time.Duration
	// Work is the part of Budget that was available for the work itself, if the rest was reserved for undoing it. Zero
	// means that nothing was reserved.
	Work time.Duration
	// Errand reports whether Budget is the errand_limit instead of the budget of a request.
	Errand bool
}

// Error returns the message for the operator, in one line: which limit was reached, its duration, and the setting to
// raise, which is errand_limit if Errand is set and otherwise budget. The message about a budget also contains Work,
// unless it is 0.
func (e *BudgetError) Error() string {
	if e.Errand {
		return fmt.Sprintf("the errand_limit of %s is used up: raise it in the adapter's configuration; a repeated "+
			"errand continues the work", e.Budget)
	}
	part := ""
	if e.Work > 0 {
		part = fmt.Sprintf(", of which %s are for the work and the rest for its rollback,",
			e.Work.Round(time.Second/10))
	}
	return fmt.Sprintf("the budget of %s%s is used up: raise `budget` in the adapter's configuration, "+
		"below the time that the platform allows for a request, or reduce the work of the template", e.Budget, part)
}

// Is reports whether target is context.DeadlineExceeded. errors.Is calls it, so that a BudgetError counts as that
// error.
func (*BudgetError) Is(target error) bool { return target == context.DeadlineExceeded }

// UserMessage returns the message for the end user: two complete sentences that state the time and ask the end user to
// try again later and, if that fails, to inform the operations team. They call Budget the time of a request, even if
// Errand is set.
func (e *BudgetError) UserMessage() string {
	return fmt.Sprintf("The service did not finish within the %s that it has for a request. Try again later, "+
		"and tell your operations team if it happens again.", e.Budget)
}
