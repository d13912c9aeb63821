package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/operate/states"
)

// A selection holds the flags that choose the bindings or service instances that a command works on, its items. The
// items are either named by their ids, which are the arguments of the command, or chosen with --all or with --gone,
// both of which can be restricted by filters. kind must be set. With the other fields zero, a selection selects the
// items that are named by their ids.
type selection struct {
	// kind is the kind of the items.
	kind lifecycle.Kind
	// all is the flag --all. A command that lists everything sets it itself.
	all bool
	// selectors names the flags that select without ids, such as "--all or --gone", for an error message.
	selectors string
	// filter restricts --all and --gone.
	filter itemFilter
	// platform restricts --all to the items that a list of existing ones does not contain, and holds --gone.
	platform platformFilter
}

// flags adds --all and the flags of the item filter, such as --service and --condition, to a command. It sets the
// command's Args to checkArgs and its PreRunE to the check of the filter, and replaces the previous functions. It sets
// s.selectors, the flags that an error message proposes, to "--all" if it is "". It does not add the flags of the
// platform filter, such as --existing and --gone, which not all commands have.
func (s *selection) flags(command *cobra.Command) {
	command.Args, s.selectors = s.checkArgs, cmp.Or(s.selectors, "--all")
	command.Flags().BoolVar(&s.all, "all", false, "all of them, or those that the other flags select")
	s.filter.addFlags(command)
}

// checkArgs is the check of a command's arguments, which are ids. It returns an error unless the command line selects
// items in exactly one way: by at least one id without any filter, by --all with optional filters, or by --gone with
// optional filters. It also returns an error if the flags of the platform filter are invalid or contradict each other;
// see checkPlatform. The errors are plain errors, which setArgumentChecks turns into usageErrors.
//
// checkArgs parses the time of --asked-at. With --existing or --gone, each of which selects only items that the
// platform does not have, it also sets s.platform.removes, and restricts the conditions to complete and deleting unless
// --condition is set.
func (s *selection) checkArgs(command *cobra.Command, ids []string) error {
	if err := s.checkPlatform(command, ids); err != nil {
		return err
	}
	switch {
	case s.platform.gone: // checkPlatform has rejected ids and --all
	case s.all && len(ids) > 0:
		return errors.New("ids and --all exclude each other")
	case s.all:
	case len(ids) == 0:
		return fmt.Errorf("which %s? name their ids or set %s", plural(s.kind), s.selectors)
	case s.filter.isSet() || s.platform.isSet():
		return errors.New("filters require --all")
	}
	s.platform.removes = s.platform.isSet()
	if s.platform.removes && len(s.filter.conditions) == 0 {
		// An item in any other condition may be about to be deployed by the Director or listed by Cloud Foundry.
		s.filter.conditions = []string{string(lifecycle.Complete), string(lifecycle.Deleting)}
	}
	return nil
}

// checkPlatform checks the flags of the platform filter and parses the time of --asked-at. ids are the arguments of the
// command. It returns an error if --gone is set together with ids, --all or --existing, if a flag lacks another one
// that it requires, such as --gone without --director, if a flag that names a file is set to "", if --gone is set with
// a negative --wait, or if the time of --asked-at is malformed or in the future; see platformFilter.check. The errors
// are plain errors, not usageErrors.
func (s *selection) checkPlatform(command *cobra.Command, ids []string) error {
	if s.platform.gone && (len(ids) > 0 || s.all || s.platform.existingFile != "") {
		return errors.New("--gone excludes ids, --all and --existing")
	}
	return s.platform.check(command)
}

// selectItems returns the items that the command works on, and implements itemSelector. ids are the arguments of the
// command, which selectItems sorts in place.
//
//   - Without --all and --gone, the items are those with the ids, sorted and without duplicates. The state backend is
//     not read: only Kind and ID of their entries are set, and an item may not exist.
//   - With --all or --gone, the items are read from the state backend, which may delete empty workspaces. The result
//     is those that pass the filters, in the order of their workspaces. There may be none, which is not an error.
//   - With --existing or --gone, the result is only those of them that the platform does not have, and that are not
//     left alone for another reason; see missing, which also sets fields of s.platform. With --gone, if there are
//     any, selectItems waits for the time of --wait, unless that is 0, and asks the Director again.
//
// If the state backend has no items of the kind, the Director is not asked, and the list of --existing is read only to
// report its names as not stored. A list that cannot be read, has no names or is cut off is then only a warning, but it
// is still an error if the time of the list cannot be determined (see listTime). selectItems writes progress and
// warnings to standard error.
//
// selectItems returns nil and a usageError if the filter names an unknown service or plan (see checkNames), or if
// --asked-at is missing and the file of --existing does not show the time of the list (see listTime). It returns nil
// and another error if the state backend cannot be read, if no pak has a usable OpenTofu, if the file of --existing or
// of --director cannot be used, if the Director does not answer, if the platform has none of the stored items and
// --allow-all is not set, or if ctx ends.
func (s *selection) selectItems(
	ctx context.Context, streams Streams, operator *states.Operator, ids []string,
) ([]lifecycle.Stored, error) {
	if !s.all && !s.platform.gone {
		slices.Sort(ids)
		var named []lifecycle.Stored
		for _, id := range slices.Compact(ids) {
			entry := lifecycle.Entry{Identity: lifecycle.Identity{Kind: s.kind, ID: id}}
			named = append(named, lifecycle.Stored{Entry: entry})
		}
		return named, nil
	}
	askPlatform, err := s.platform.inventory()
	if err != nil {
		return nil, err
	}
	// The states are read before the platform is asked. An item that is created in between is therefore not in the
	// list, and cannot be mistaken for one that the platform no longer has.
	all, err := s.listStored(ctx, streams, operator)
	if err == nil && len(all) == 0 && s.platform.existingFile != "" {
		// The list may be that of a platform without any items, so its errors do not matter to an empty state backend.
		if reported, err := askPlatform(ctx, 0); err != nil {
			say(streams, "warning: "+err.Error())
		} else {
			s.reportNotStored(streams, reported, nil)
		}
	}
	if err != nil || len(all) == 0 || askPlatform == nil {
		return slices.DeleteFunc(all, func(stored lifecycle.Stored) bool { return !s.filter.matches(&stored) }), err
	}
	missing, err := s.missing(ctx, streams, askPlatform, all, all)
	if err != nil || len(missing) == 0 || !s.platform.gone || s.platform.wait == 0 {
		return missing, err
	}
	say(streams, fmt.Sprintf("asking the Director again in %s, because the broker may be about to deploy new instances",
		s.platform.wait))
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(s.platform.wait):
	}
	return s.missing(ctx, streams, askPlatform, all, missing)
}

// listStored returns all items of s.kind in the state backend, in the order of their workspaces and without applying
// the filters. Their states and records are nil. An item that cannot be read, also because its state is locked, has
// the condition Unreadable. Like lifecycle.Manager.List, listStored may delete empty workspaces. It writes to
// standard error its progress, a warning if the state backend is empty, because the states may be lost, and a line if
// no item belongs to the instance of --instance. It returns a usageError if the filter names an unknown service or
// plan (see checkNames), and another error if the workspaces cannot be listed, if no pak has a usable OpenTofu, or if
// ctx ends. The result is nil with an error, and empty or nil if there are no items.
func (s *selection) listStored(
	ctx context.Context, streams Streams, operator *states.Operator,
) ([]lifecycle.Stored, error) {
	progress := newProgress(streams, "reading states")
	all, err := operator.List(ctx, s.kind, progress.report)
	progress.end()
	if err == nil && len(all) == 0 {
		err = warnIfEmpty(ctx, streams, operator)
	}
	if err != nil {
		return nil, err
	}
	if err := s.checkNames(operator, all); err != nil {
		return nil, err
	}
	ofInstance := func(stored lifecycle.Stored) bool { return stored.InstanceID == s.filter.instance }
	switch {
	case s.filter.instance == "" || slices.ContainsFunc(all, ofInstance):
	case s.kind == lifecycle.Instance:
		say(streams, "the state backend contains no instance "+s.filter.instance)
	default:
		say(streams, "no stored binding belongs to instance "+s.filter.instance)
	}
	return all, nil
}

// checkNames returns a usageError if the service or the plan of the filter is unknown. A name is known if a readable
// pak or a stored item has it, and that of a plan also if the operator's configuration or environment adds the plan.
// With --service, the plan must be one of that service. all are the stored items. checkNames returns nil for flags that
// are not set, and if the command removes items that the platform does not have, because such a command is repeated
// after the last item of a service or plan was removed.
func (s *selection) checkNames(operator *states.Operator, all []lifecycle.Stored) error {
	if s.platform.removes {
		return nil
	}
	services, plans := operator.Services(), operator.Plans(s.filter.service)
	for i := range all {
		services = append(services, all[i].Service)
		if s.filter.service == "" || all[i].Service == s.filter.service {
			plans = append(plans, all[i].Plan)
		}
	}
	return cmp.Or(checkName("service", s.filter.service, services), checkName("plan", s.filter.plan, plans))
}

// checkName returns nil if name, the value of a flag, is "" or one of the existing names. Otherwise it returns a
// usageError, which lists at most nine existing names and suggests a similar one, if there is one. flag is the flag's
// name without the dashes, and is used only in the message. existing may contain empty names and duplicates, which
// are ignored. checkName changes the elements of existing.
func checkName(flag, name string, existing []string) error {
	if name == "" {
		return nil
	}
	existing = slices.DeleteFunc(existing, func(one string) bool { return one == "" })
	slices.Sort(existing)
	return checkOneOf(flag, name, slices.Compact(existing))
}

// warnIfEmpty writes a warning to standard error if the state backend contains no workspace except "default", neither
// of this program nor of another one, because its states may be lost. It returns an error if the state backend cannot
// be read, no pak has a usable OpenTofu, or ctx ends.
func warnIfEmpty(ctx context.Context, streams Streams, operator *states.Operator) error {
	empty, err := operator.IsEmpty(ctx)
	if empty && err == nil {
		say(streams, "warning: the state backend contains no states: "+
			"this is expected before its first use, and otherwise its "+
			"states are lost or `state` of the configuration names another backend")
	}
	return err
}
