package cli

import (
	"cmp"
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
	"service-adapter/internal/director"
	"service-adapter/internal/lifecycle"
	"service-adapter/internal/value"
)

// selection is what a command works on: those whose ids are given, or of all those that its flags leave.
type selection struct {
	kind lifecycle.Kind
	all  bool
	ways string // the flags that choose without ids
	// What these leave empty does not matter.
	service, plan, instance string
	conditions              []string
	// older is the least age, such as "720h" or "30d"; before is the time that it means.
	older, before string
	// existing is a file with ids and names of deployments: those are meant that are not there. With gone those are meant whose
	// deployments the Director does not have that the file director says how to reach. allowAll allows that these are all.
	existing, director string
	gone, allowAll     bool
	// wait is how long the broker may take to deploy what was created; a dry run does not wait.
	wait   time.Duration
	dryRun bool
	// forget lets the resources exist of what is removed.
	forget bool
	// careful tells of what is left alone, because what does not exist is about to be removed.
	careful bool
}

// conditions are the conditions that a flag may name.
func conditions() []string {
	return []string{
		string(lifecycle.Complete), string(lifecycle.Creating), string(lifecycle.Changing), string(lifecycle.Importing),
		string(lifecycle.Deleting), string(lifecycle.Unreadable),
	}
}

// filterFlags adds the flags that leave some of all.
func (s *selection) filterFlags(command *cobra.Command) {
	command.Flags().StringVar(&s.service, "service", "", "only those of this service, by its name")
	command.Flags().StringVar(&s.plan, "plan", "", "only those of this plan, by its name")
	command.Flags().StringVar(&s.instance, "instance", "", "only those of this instance, by its id")
	command.Flags().StringSliceVar(&s.conditions, "condition", nil, "only those in these conditions: "+strings.Join(conditions(), ", "))
	command.Flags().StringVar(&s.older, "older-than", "", "only those that were made longer ago than this, such as 720h or 30d, and none whose age is not known")
	completeFlag(command, "condition", cobra.FixedCompletions(conditions(), cobra.ShellCompDirectiveNoFileComp))
	command.PreRunE = func(*cobra.Command, []string) error { return s.checkFilter() }
}

// flags adds the flags that choose without ids.
func (s *selection) flags(command *cobra.Command) {
	command.Args, s.ways = s.check, cmp.Or(s.ways, "--all")
	command.Flags().BoolVar(&s.all, "all", false, "all of them, or those that the other flags leave")
	s.filterFlags(command)
}

// existingFlags adds the flags for what the platform does not know.
func (s *selection) existingFlags(command *cobra.Command) {
	command.Flags().StringVar(&s.existing, "existing", "", "only those of which this file names neither the id nor the deployment, one a line")
	command.Flags().BoolVar(&s.allowAll, "allow-all", false, "even if these are all there are")
}

// removalFlags adds the flags of commands that remove things.
func (s *selection) removalFlags(command *cobra.Command) {
	s.flags(command)
	s.existingFlags(command)
	command.Flags().BoolVar(&s.forget, "forget", false, "let its resources exist and forget them")
	command.Flags().BoolVar(&s.dryRun, "dry-run", false, "only tell what would become of them")
}

// checkFilter refuses conditions that do not exist, and what is no age.
func (s *selection) checkFilter() error {
	if s.older != "" {
		age, err := parseAge(s.older)
		if err != nil {
			return err
		}
		s.before = lifecycle.Time(time.Now().Add(-age))
	}
	for _, condition := range s.conditions {
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

// checkExisting refuses what makes no sense in the flags that compare with what exists, such as a file without a name.
func (s *selection) checkExisting(command *cobra.Command, ids []string) error {
	switch {
	case command.Flags().Changed("existing") && s.existing == "": // of a variable that is not set: else it would be all of them
		return errors.New("--existing must name a file")
	case s.allowAll && s.existing == "" && !s.gone:
		return errors.New("--allow-all goes with --existing")
	case !s.gone && s.director != "":
		return errors.New("--director goes with --gone")
	case !s.gone:
		return nil
	case len(ids) > 0 || s.all || s.existing != "":
		return errors.New("--gone excludes ids, --all and --existing")
	case s.director == "":
		return errors.New("--gone needs --director FILE")
	case s.wait < 0:
		return errors.New("--wait must not be negative")
	}
	return nil
}

// check makes sure that a command line says what to work on, in one way.
func (s *selection) check(command *cobra.Command, ids []string) error {
	filters := s.service != "" || s.plan != "" || s.instance != "" || len(s.conditions) > 0 || s.older != "" || s.existing != ""
	switch err := s.checkExisting(command, ids); {
	case err != nil:
		return err
	case s.all && len(ids) > 0:
		return errors.New("ids and --all exclude each other")
	case !s.gone && !s.all && len(ids) == 0:
		return fmt.Errorf("which %s? name their ids or set %s", plural(s.kind), s.ways)
	case !s.gone && !s.all && filters:
		return errors.New("filters go with --all")
	}
	if s.careful = s.gone || s.existing != ""; s.careful && len(s.conditions) == 0 {
		// What is in another condition may be about to get a deployment, or to be listed.
		s.conditions = []string{string(lifecycle.Complete), string(lifecycle.Deleting)}
	}
	return nil
}

// only are the conditions that are meant.
func (s *selection) only() []lifecycle.Condition {
	return value.Each(s.conditions, func(condition string) lifecycle.Condition { return lifecycle.Condition(condition) })
}

// means tells whether something is meant, as far as it alone tells.
func (s *selection) means(stored *lifecycle.Stored) bool {
	return (s.service == "" || stored.Service == s.service) &&
		(s.plan == "" || stored.Plan == s.plan) &&
		(s.instance == "" || stored.InstanceID == s.instance) &&
		(len(s.conditions) == 0 || slices.Contains(s.conditions, string(stored.Condition))) &&
		(s.older == "" || stored.CreatedAt != "" && stored.CreatedAt < s.before)
}

// items returns what to work on. What an id names is not read, so only its id is known.
func (s *selection) items(ctx context.Context, streams Streams, operator *adapter.Operator, ids []string) ([]lifecycle.Stored, error) {
	if !s.all && !s.gone {
		slices.Sort(ids)
		var named []lifecycle.Stored
		for _, id := range slices.Compact(ids) {
			named = append(named, lifecycle.Stored{Entry: lifecycle.Entry{Kind: s.kind, ID: id}})
		}
		return named, nil
	}
	known, err := s.inventory()
	if err != nil {
		return nil, err
	}
	// First what is stored and then what exists: what is created in between is not known here.
	all, err := s.stored(ctx, streams, operator)
	if err != nil || len(all) == 0 || known == nil {
		return slices.DeleteFunc(all, func(stored lifecycle.Stored) bool { return !s.means(&stored) }), err
	}
	meant, err := s.unknown(ctx, known, all, all)
	meant = s.settled(streams, meant)
	if err != nil || len(meant) == 0 || s.dryRun || !s.gone || s.wait == 0 {
		return meant, err
	}
	say(streams, fmt.Sprintf("asking the Director again in %s, for the broker may be about to deploy what is new", s.wait))
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(s.wait):
	}
	return s.unknown(ctx, known, all, meant)
}

// stored reads all of the kind. A service that neither a pak nor anything that is stored has is refused, but where what does not exist is
// removed: that is done again and again, also after the last of a service is gone.
func (s *selection) stored(ctx context.Context, streams Streams, operator *adapter.Operator) ([]lifecycle.Stored, error) {
	progress := newProgress(streams, "reading states")
	all, err := operator.List(ctx, s.kind, progress.report)
	progress.end()
	if err != nil || s.service == "" || s.careful {
		return all, err
	}
	known := operator.Services()
	for _, stored := range all {
		if stored.Service != "" {
			known = append(known, stored.Service)
		}
	}
	slices.Sort(known)
	return all, oneOf("service", s.service, slices.Compact(known))
}

// settled returns those that the filter means, and tells of those that are in another condition.
func (s *selection) settled(streams Streams, candidates []lifecycle.Stored) []lifecycle.Stored {
	anyCondition := *s
	anyCondition.conditions = nil
	return slices.DeleteFunc(candidates, func(stored lifecycle.Stored) bool {
		reason := ""
		switch {
		case !anyCondition.means(&stored):
			return true
		case stored.Deployment == "":
			reason = "its deployment is not known"
		case !s.means(&stored):
			reason = fmt.Sprintf("it is %s; name its id, or the condition with --condition", stored.Condition)
		default:
			return false
		}
		if s.careful {
			say(streams, fmt.Sprintf("%s %s: left alone, %s", stored.Kind, stored.ID, reason))
		}
		return true
	})
}

// inventory lists what exists by ids or deployments. The doubt is what to say if it names none of so many that are stored.
type inventory func(ctx context.Context, stored int) (names []string, doubt string, err error)

// inventory is what the flags say to compare with; nil for nothing.
func (s *selection) inventory() (inventory, error) {
	switch {
	case s.existing != "":
		return listedIn(s.existing), nil
	case s.gone:
		return deployedBy(s.director)
	default:
		return nil, nil //nolint:nilnil // nothing is compared
	}
}

// listedIn is the inventory of a file, with a name in each line. A file without any, or without an end to its last line, is refused: it is
// more likely that making it failed than that nothing exists.
func listedIn(path string) inventory {
	return func(_ context.Context, stored int) (names []string, doubt string, err error) {
		text, err := os.ReadFile(path) //nolint:gosec // the user names the file
		if err != nil {
			return nil, "", fmt.Errorf("reading what exists: %w", err)
		}
		for line := range strings.Lines(string(text)) {
			if name := strings.TrimSpace(line); name != "" {
				names = append(names, name)
			}
		}
		switch {
		case len(names) == 0:
			err = fmt.Errorf("%s names nothing: is it the output of a command that failed?", path)
		case !strings.HasSuffix(string(text), "\n"):
			err = fmt.Errorf("%s does not end with the end of a line: is it cut off?", path)
		}
		return names, fmt.Sprintf("%s names none of the %d that are stored: unless it is a list of something else, or of somebody who may not see "+
			"them, name the ids or add --allow-all", path, stored), err
	}
}

// deployedBy is the inventory of the Director that a file says how to reach.
func deployedBy(file string) (inventory, error) {
	config, err := ReadDirector(file)
	if err != nil {
		return nil, err
	}
	client, err := director.New(config)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return func(ctx context.Context, stored int) ([]string, string, error) {
		deployments, err := client.Deployments(ctx)
		return deployments, fmt.Sprintf("the Director %s has %d deployments and none of them is that of one of the %d instances: unless it is the wrong "+
			"Director, or a client that may not see them, name the instances or add --allow-all", client.Address(), len(deployments), stored), err
	}, nil
}

// unknown returns those of the candidates that an inventory does not have. That it has none of all is an error, unless that is allowed.
func (s *selection) unknown(ctx context.Context, known inventory, all, candidates []lifecycle.Stored) ([]lifecycle.Stored, error) {
	names, doubt, err := known(ctx, len(all))
	if err != nil {
		return nil, err
	}
	named := map[string]bool{}
	for _, name := range names {
		named[name] = true
	}
	exists := func(stored lifecycle.Stored) bool { return named[stored.ID] || named[stored.Deployment] }
	if !s.allowAll && !slices.ContainsFunc(all, exists) {
		return nil, errors.New(doubt)
	}
	return slices.DeleteFunc(slices.Clone(candidates), exists), nil
}

// ReadDirector reads from a YAML file how to reach a Director. The file must not be readable for everybody. Errors do not show what it holds.
func ReadDirector(path string) (*director.Config, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("reading how to reach the Director: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o007 != 0 {
		return nil, fmt.Errorf("%s holds a secret and everybody may use it (mode %04o): make it 0600", path, mode)
	}
	text, err := os.ReadFile(path) //nolint:gosec // the user names the file
	if err != nil {
		return nil, fmt.Errorf("reading how to reach the Director: %w", err)
	}
	config := &director.Config{}
	return config, adapter.DecodeStrict(path, "", string(text), config)
}
