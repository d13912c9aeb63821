package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"service-adapter/adapter"
	"service-adapter/internal/diag"
	"service-adapter/internal/lifecycle"
)

// filter is which of all bindings or instances are meant. What its fields leave empty does not matter.
type filter struct {
	service, plan, instance string
	conditions              []string
	// older is the least age, such as "720h" or "30d"; before is the time that check makes of it.
	older, before string
	// existing is a file with ids and names of deployments: those are meant that are not among them. allowAll allows that these are all.
	existing string
	allowAll bool
}

// conditions are the conditions that a flag may name.
func conditions() []string {
	var names []string
	for _, condition := range []lifecycle.Condition{
		lifecycle.Complete, lifecycle.Creating, lifecycle.Changing, lifecycle.Importing, lifecycle.Deleting, lifecycle.Unreadable,
	} {
		names = append(names, string(condition))
	}
	return names
}

// flags adds the flags of the filter to a command.
func (f *filter) flags(command *cobra.Command) {
	command.Flags().StringVar(&f.service, "service", "", "only those of this service, by its name")
	command.Flags().StringVar(&f.plan, "plan", "", "only those of this plan, by its name")
	command.Flags().StringVar(&f.instance, "instance", "", "only those of this instance, by its id")
	command.Flags().StringSliceVar(&f.conditions, "condition", nil, "only those in these conditions: "+strings.Join(conditions(), ", "))
	command.Flags().StringVar(&f.older, "older-than", "", "only those that were made longer ago than this, such as 720h or 30d, and none whose age is not known")
	// The only error is that of a flag that does not exist.
	_ = command.RegisterFlagCompletionFunc("condition", cobra.FixedCompletions(conditions(), cobra.ShellCompDirectiveNoFileComp))
}

// existingFlags adds the flags for a list of what exists.
func (f *filter) existingFlags(command *cobra.Command) {
	command.Flags().StringVar(&f.existing, "existing", "", "only those of which this file names neither the id nor the deployment, one a line")
	command.Flags().BoolVar(&f.allowAll, "allow-all", false, "even if these are all there are")
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
		if known := conditions(); !slices.Contains(known, condition) {
			return fmt.Errorf("unknown --condition %q%s; there are %s", condition, diag.Suggest(condition, known), diag.Names(known))
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
		return 0, fmt.Errorf("--older-than %q must be a time such as 720h or 30d", text)
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
	if known = slices.Compact(known); slices.Contains(known, f.service) {
		return nil
	}
	return usageError{fmt.Errorf("unknown --service %q%s; there are %s", f.service, diag.Suggest(f.service, known), diag.Names(known))}
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
	return f.service == "" && f.plan == "" && f.instance == "" && len(f.conditions) == 0 && f.existing == "" && f.older == ""
}

// apply returns those that are meant.
func (f *filter) apply(all []lifecycle.Stored) ([]lifecycle.Stored, error) {
	exists := func(lifecycle.Stored) bool { return false }
	if f.existing != "" {
		names, err := readNames(f.existing)
		if err != nil {
			return nil, err
		}
		exists = func(stored lifecycle.Stored) bool { return names[stored.ID] || names[stored.Deployment] }
		if len(all) > 0 && !f.allowAll && !slices.ContainsFunc(all, exists) {
			return nil, fmt.Errorf("%s names none of the %d that are stored: unless it is a list of something else, or of somebody who may not see them, "+
				"name the ids or add --allow-all", f.existing, len(all))
		}
	}
	var meant []lifecycle.Stored
	for _, stored := range all {
		switch {
		case f.service != "" && stored.Service != f.service,
			f.plan != "" && stored.Plan != f.plan,
			f.instance != "" && stored.InstanceID != f.instance,
			len(f.conditions) > 0 && !slices.Contains(f.conditions, string(stored.Condition)),
			f.older != "" && (stored.CreatedAt == "" || stored.CreatedAt >= f.before),
			f.existing != "" && (stored.Deployment == "" || exists(stored)):
		default:
			meant = append(meant, stored)
		}
	}
	return meant, nil
}

// readNames reads ids and names of deployments, one a line. A file without any, or without an end to its last line, is refused: it is more
// likely that making it failed than that nothing exists.
func readNames(path string) (map[string]bool, error) {
	text, err := os.ReadFile(path) //nolint:gosec // the user names the file
	if err != nil {
		return nil, fmt.Errorf("reading what exists: %w", err)
	}
	names := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if name := strings.TrimSpace(line); name != "" {
			names[name] = true
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s names nothing: is it the output of a command that failed?", path)
	}
	if !strings.HasSuffix(string(text), "\n") {
		return nil, fmt.Errorf("%s does not end with the end of a line: is it cut off?", path)
	}
	return names, nil
}

// selection is what a command works on: those whose ids are given, or with all those that the filter leaves.
type selection struct {
	kind lifecycle.Kind
	all  bool
	// orGone says that the command has --gone as well.
	orGone bool
	filter
}

func (s *selection) flags(command *cobra.Command) {
	command.Flags().BoolVar(&s.all, "all", false, "all of them, or those that the other flags leave")
	s.filter.flags(command)
}

// check makes sure that a command line says what to work on, in one way.
func (s *selection) check(_ *cobra.Command, ids []string) error {
	switch {
	case s.all && len(ids) > 0:
		return errors.New("ids and --all exclude each other")
	case !s.all && len(ids) == 0:
		return fmt.Errorf("which %s? name their ids or set %s", plural(s.kind), s.ways())
	case !s.all && !s.empty():
		return errors.New("filters go with --all")
	}
	return s.filter.check()
}

// ways are the flags that choose without ids.
func (s *selection) ways() string {
	if s.orGone {
		return "--all or --gone"
	}
	return "--all"
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
func listed(
	ctx context.Context, streams Streams, operator *adapter.Operator, kind lifecycle.Kind, filter *filter,
) ([]lifecycle.Stored, error) {
	progress := newProgress(streams, "reading states")
	all, err := operator.List(ctx, kind, progress.report)
	progress.end()
	if err != nil {
		return nil, err
	}
	if err := filter.checkService(all, operator.Services()); err != nil {
		return nil, err
	}
	return filter.apply(all)
}
