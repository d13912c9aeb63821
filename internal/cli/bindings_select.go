package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"service-adapter/adapter"
	"service-adapter/internal/lifecycle"
)

// filter is which of all bindings or instances are meant. What its fields leave empty does not matter.
type filter struct {
	service, plan, instance string
	conditions              []string
	// older is the least age, such as "720h" or "30d"; before is the time that check makes of it.
	older, before string
}

// conditions are the conditions that a flag may name.
func conditions() []string {
	return []string{
		string(lifecycle.Complete), string(lifecycle.Creating), string(lifecycle.Changing), string(lifecycle.Importing),
		string(lifecycle.Deleting), string(lifecycle.Unreadable),
	}
}

// flags adds the flags of the filter to a command, which refuses what makes no sense in them.
func (f *filter) flags(command *cobra.Command) {
	command.Flags().StringVar(&f.service, "service", "", "only those of this service, by its name")
	command.Flags().StringVar(&f.plan, "plan", "", "only those of this plan, by its name")
	command.Flags().StringVar(&f.instance, "instance", "", "only those of this instance, by its id")
	command.Flags().StringSliceVar(&f.conditions, "condition", nil, "only those in these conditions: "+strings.Join(conditions(), ", "))
	command.Flags().StringVar(&f.older, "older-than", "", "only those that were made longer ago than this, such as 720h or 30d, and none whose age is not known")
	completeFlag(command, "condition", cobra.FixedCompletions(conditions(), cobra.ShellCompDirectiveNoFileComp))
	command.PreRunE = func(*cobra.Command, []string) error { return f.check() }
}

// check refuses conditions that do not exist, and what is no age.
func (f *filter) check() error {
	if f.older != "" {
		age, err := parseAge(f.older)
		if err != nil {
			return err
		}
		f.before = lifecycle.Time(time.Now().Add(-age))
	}
	for _, condition := range f.conditions {
		if err := oneOf("condition", condition, conditions()); err != nil {
			return err
		}
	}
	return nil
}

// parseAge reads a duration of Go, or days, such as 30d.
func parseAge(text string) (time.Duration, error) {
	number, unit := text, time.Duration(1)
	if days, found := strings.CutSuffix(text, "d"); found {
		number, unit = days+"h", 24
	}
	age, err := time.ParseDuration(number)
	if err != nil || age <= 0 || age > math.MaxInt64/unit {
		return 0, usageError{fmt.Errorf("--older-than %q must be a time such as 720h or 30d", text)}
	}
	return age * unit, nil
}

// checkService refuses a service that neither a pak nor anything that is stored has.
func (f *filter) checkService(all []lifecycle.Stored, known []string) error {
	if f.service == "" {
		return nil
	}
	for _, stored := range all {
		if stored.Service != "" {
			known = append(known, stored.Service)
		}
	}
	slices.Sort(known)
	return oneOf("service", f.service, slices.Compact(known))
}

// only are the conditions that are meant.
func (f *filter) only() []lifecycle.Condition {
	var only []lifecycle.Condition
	for _, condition := range f.conditions {
		only = append(only, lifecycle.Condition(condition))
	}
	return only
}

func (f *filter) empty() bool {
	return f.service == "" && f.plan == "" && f.instance == "" && len(f.conditions) == 0 && f.older == ""
}

// means tells whether something is meant, as far as it alone tells.
func (f *filter) means(stored *lifecycle.Stored) bool {
	return (f.service == "" || stored.Service == f.service) &&
		(f.plan == "" || stored.Plan == f.plan) &&
		(f.instance == "" || stored.InstanceID == f.instance) &&
		(len(f.conditions) == 0 || slices.Contains(f.conditions, string(stored.Condition))) &&
		(f.older == "" || stored.CreatedAt != "" && stored.CreatedAt < f.before)
}

// selection is what a command works on: those whose ids are given, or with all those that the filter leaves.
type selection struct {
	kind lifecycle.Kind
	all  bool
	ways string // the flags that choose without ids
	filter
}

func (s *selection) flags(command *cobra.Command) {
	command.Args, s.ways = s.check, cmp.Or(s.ways, "--all")
	command.Flags().BoolVar(&s.all, "all", false, "all of them, or those that the other flags leave")
	s.filter.flags(command)
}

// check makes sure that a command line says what to work on, in one way.
func (s *selection) check(_ *cobra.Command, ids []string) error {
	switch {
	case s.all && len(ids) > 0:
		return errors.New("ids and --all exclude each other")
	case !s.all && len(ids) == 0:
		return fmt.Errorf("which %s? name their ids or set %s", plural(s.kind), s.ways)
	case !s.all && !s.empty():
		return errors.New("filters go with --all")
	}
	return nil
}

// items returns what to work on. What an id names is not read, so only its id is known.
func (s *selection) items(ctx context.Context, streams Streams, operator *adapter.Operator, ids []string) ([]lifecycle.Stored, error) {
	if s.all {
		return listed(ctx, streams, operator, s.kind, &s.filter)
	}
	slices.Sort(ids)
	var named []lifecycle.Stored
	for _, id := range slices.Compact(ids) {
		named = append(named, lifecycle.Stored{Entry: lifecycle.Entry{Kind: s.kind, ID: id}})
	}
	return named, nil
}

// listed reads all of a kind and returns those that a filter leaves.
func listed(ctx context.Context, streams Streams, operator *adapter.Operator, kind lifecycle.Kind, f *filter) ([]lifecycle.Stored, error) {
	progress := newProgress(streams, "reading states")
	all, err := operator.List(ctx, kind, progress.report)
	progress.end()
	if err == nil {
		err = f.checkService(all, operator.Services())
	}
	return slices.DeleteFunc(all, func(stored lifecycle.Stored) bool { return !f.means(&stored) }), err
}
