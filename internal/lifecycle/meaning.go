package lifecycle

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"service-adapter/brokerpak"
	"service-adapter/internal/fault"
	"service-adapter/internal/opentofu"
)

// Meaning maps a failure of a template to what the `errors` of its action say that it means. Only errors of these commands of OpenTofu,
// which run the template, are looked at, and none of the state backend: the rules are about what providers and commands answer.
func Meaning(err error, rules []brokerpak.ErrorRule, commands ...string) error {
	var run *opentofu.Error
	if !errors.As(err, &run) || !slices.Contains(commands, run.Command) || run.Backend != "" {
		return err
	}
	for _, rule := range rules {
		pattern, compileErr := regexp.Compile(rule.Match)
		if compileErr != nil || !pattern.MatchString(run.Error()) {
			continue
		}
		switch rule.Exit {
		case "41":
			return fmt.Errorf("%w: %w", fault.ErrBindingNotFound, err)
		case "49":
			return fmt.Errorf("%w: %w", fault.ErrBindingExists, err)
		default:
			said := strings.TrimSuffix(run.Summary+": "+run.Detail, ": ")
			return &fault.UserError{Message: cmp.Or(rule.Message, said), Err: err}
		}
	}
	return err
}
