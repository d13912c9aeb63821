package cli

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/value"
)

// An itemFilter holds the flags that restrict --all and --gone to a part of the bindings or service instances:
// --service, --plan, --instance, --condition and --older-than. The zero value matches every item. check must be
// called after the flags were parsed and before items are matched. selection.checkArgs sets conditions if the command
// removes the items that the platform does not have and --condition is not set.
type itemFilter struct {
	// service and plan are names, and instance is the id of a service instance. "" matches every value.
	service, plan, instance string
	// conditions are the allowed conditions. An empty list allows every condition.
	conditions []string
	// olderThan is the minimum age as the user wrote it, such as "720h" or "30d"; "" means no limit. check sets
	// createdUntil from it: an item matches if it was created before that time, in the format of records.
	olderThan, createdUntil string
}

// conditions returns the six values that the flag --condition accepts, from "complete" to "unreadable", in a fixed
// order. Each call returns a new slice.
func conditions() []string {
	return []string{
		string(lifecycle.Complete), string(lifecycle.Creating), string(lifecycle.Changing), string(lifecycle.Importing),
		string(lifecycle.Deleting), string(lifecycle.Unreadable),
	}
}

// addFlags adds the flags of the filter to a command: --service, --plan, --instance, --condition, which accepts a list,
// and --older-than. It also adds the completion of --condition, and sets the command's PreRunE to check, which replaces
// a PreRunE that the command already has. The values are stored in f when the command line is parsed.
func (f *itemFilter) addFlags(command *cobra.Command) {
	command.Flags().StringVar(&f.service, "service", "", "only those of the service with this name")
	command.Flags().StringVar(&f.plan, "plan", "", "only those of the plan with this name")
	command.Flags().StringVar(&f.instance, "instance", "", "only those of the service instance with this id")
	command.Flags().StringSliceVar(&f.conditions, "condition", nil,
		"only those in these conditions: "+strings.Join(conditions(), ", "))
	command.Flags().StringVar(&f.olderThan, "older-than", "",
		"only those that were created longer ago than this, such as 720h or 30d; excludes those of unknown age")
	completeFlag(command, "condition", cobra.FixedCompletions(conditions(), cobra.ShellCompDirectiveNoFileComp))
	command.PreRunE = func(*cobra.Command, []string) error { return f.check() }
}

// check validates the values of the flags, and sets createdUntil to the current time minus olderThan if that is set. It
// returns a usageError if --condition names an unknown condition or if --older-than is not a positive age such as
// "720h" or "30d", and nil otherwise. The names of services, plans and instances are not checked.
func (f *itemFilter) check() error {
	if f.olderThan != "" {
		age, err := parseAge("older-than", f.olderThan)
		if err != nil {
			return err
		}
		f.createdUntil = lifecycle.FormatTime(time.Now().Add(-age))
	}
	for _, condition := range f.conditions {
		if err := checkOneOf("condition", condition, conditions()); err != nil {
			return err
		}
	}
	return nil
}

// parseAge parses the value of a flag such as --older-than: a duration in Go's syntax, such as "720h", or a number of
// days, such as "30d" or "1.5d". It returns 0 and a usageError, which names the flag, for "" and for text in another
// form, and for an age that is not positive or is too large for a time.Duration. flag is the flag's name without the
// dashes, and is used only in the message.
func parseAge(flag, text string) (time.Duration, error) {
	number, unit := text, time.Duration(1)
	// Days cannot be combined with other units.
	if days, found := strings.CutSuffix(text, "d"); found && !strings.ContainsFunc(days, unicode.IsLetter) {
		number, unit = days+"h", 24
	}
	age, err := time.ParseDuration(number)
	if err != nil || age <= 0 || age > math.MaxInt64/unit {
		return 0, usageError{fmt.Errorf("--%s %q must be a time such as 720h or 30d", flag, text)}
	}
	return age * unit, nil
}

// isSet reports whether at least one flag of the filter is set, so that some items may not match. It returns false for
// the zero value.
func (f *itemFilter) isSet() bool {
	return f.service != "" || f.plan != "" || f.instance != "" || len(f.conditions) > 0 || f.olderThan != ""
}

// allowedConditions returns f.conditions with another type, for methods that take the allowed conditions as arguments.
// These are the conditions of --condition. Without that flag they are those that selection.checkArgs sets with
// --existing or --gone, or else none: an empty result means that every condition is allowed. The values are not
// checked; check does that.
func (f *itemFilter) allowedConditions() []lifecycle.Condition {
	typed := func(condition string) lifecycle.Condition { return lifecycle.Condition(condition) }
	return value.Convert(f.conditions, typed)
}

// matches reports whether an item passes all filters that are set; a filter that is not set matches every item.
// Service, plan and instance are compared exactly. An item without a time of creation never passes --older-than. check
// must have been called before, because it computes the time for --older-than.
func (f *itemFilter) matches(stored *lifecycle.Stored) bool {
	return (len(f.conditions) == 0 || slices.Contains(f.conditions, string(stored.Condition))) &&
		f.matchesInAnyCondition(stored)
}

// matchesInAnyCondition reports whether an item passes all filters except --condition, which it ignores. Filters that
// are not set match every item, and an item without a time of creation never passes --older-than. check must have been
// called before.
func (f *itemFilter) matchesInAnyCondition(stored *lifecycle.Stored) bool {
	return (f.service == "" || stored.Service == f.service) &&
		(f.plan == "" || stored.Plan == f.plan) &&
		(f.instance == "" || stored.InstanceID == f.instance) &&
		(f.olderThan == "" || stored.CreatedAt != "" && stored.CreatedAt < f.createdUntil)
}
