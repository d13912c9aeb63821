package cli

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/value"
)

// itemFilter holds the flags that restrict --all to a part of the bindings or service instances. The zero value matches
// every item.
type itemFilter struct {
	// service and plan are names, and instance is the id of a service instance. "" matches every value.
	service, plan, instance string
	// conditions are the allowed conditions. An empty list allows every condition.
	conditions []string
	// olderThan is the minimum age as the user wrote it, such as "720h" or "30d"; "" means no limit. check sets
	// createdUntil from it: an item matches if it was created before that time, in the format of records.
	olderThan, createdUntil string
}

// conditions returns the values that the flag --condition accepts, in a fixed order.
func conditions() []string {
	return []string{
		string(lifecycle.Complete), string(lifecycle.Creating), string(lifecycle.Changing), string(lifecycle.Importing),
		string(lifecycle.Deleting), string(lifecycle.Unreadable),
	}
}

// addFlags adds the flags of the filter to a command, with the completion of --condition, and sets the command's
// PreRunE to check. It replaces a PreRunE that the command already has.
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

// check sets createdUntil from olderThan and the current time. It returns a usage error if --condition names an unknown
// condition or --older-than is not an age; see parseAge.
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

// parseAge parses the value of a flag such as --older-than: a duration in Go's syntax, or a number of days such as 30d.
// It returns a usage error, which names the flag, for any other text, and for an age that is not positive or too large
// for a time.Duration. flag is the flag's name without the dashes.
func parseAge(flag, text string) (time.Duration, error) {
	number, unit := text, time.Duration(1)
	if days, found := strings.CutSuffix(text, "d"); found {
		number, unit = days+"h", 24
	}
	age, err := time.ParseDuration(number)
	if err != nil || age <= 0 || age > math.MaxInt64/unit {
		return 0, usageError{fmt.Errorf("--%s %q must be a time such as 720h or 30d", flag, text)}
	}
	return age * unit, nil
}

// isSet reports whether a flag of the filter is set, so that some items may not match.
func (f *itemFilter) isSet() bool {
	return f.service != "" || f.plan != "" || f.instance != "" || len(f.conditions) > 0 || f.olderThan != ""
}

// allowedConditions returns the conditions of --condition, for methods that take the allowed conditions as arguments.
// An empty result means that every condition is allowed.
func (f *itemFilter) allowedConditions() []lifecycle.Condition {
	typed := func(condition string) lifecycle.Condition { return lifecycle.Condition(condition) }
	return value.Convert(f.conditions, typed)
}

// matches reports whether an item passes all filters. Filters that are not set match every item. An item of unknown age
// never passes --older-than. check must have been called before.
func (f *itemFilter) matches(stored *lifecycle.Stored) bool {
	return (len(f.conditions) == 0 || slices.Contains(f.conditions, string(stored.Condition))) &&
		f.matchesInAnyCondition(stored)
}

// matchesInAnyCondition reports whether an item passes all filters except --condition, which it ignores; see matches.
func (f *itemFilter) matchesInAnyCondition(stored *lifecycle.Stored) bool {
	return (f.service == "" || stored.Service == f.service) &&
		(f.plan == "" || stored.Plan == f.plan) &&
		(f.instance == "" || stored.InstanceID == f.instance) &&
		(f.olderThan == "" || stored.CreatedAt != "" && stored.CreatedAt < f.createdUntil)
}
