package fault

import (
	"context"
	"fmt"
	"time"
)

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
