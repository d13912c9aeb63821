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

// selection holds the flags that choose the bindings or service instances that a command works on, its items. They are
// either named by their ids, which are the arguments of the command, or chosen with --all and filters, or with --gone.
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

// flags adds --all and the flags of the filter to a command, and sets the command's Args to checkArgs. It sets
// s.selectors to "--all" if it is "". It does not add the flags of the platform filter, which not all commands have.
func (s *selection) flags(command *cobra.Command) {
	command.Args, s.selectors = s.checkArgs, cmp.Or(s.selectors, "--all")
	command.Flags().BoolVar(&s.all, "all", false, "all of them, or those that the other flags select")
	s.filter.addFlags(command)
}

// checkArgs is the check of a command's arguments, which are ids. It returns an error, which setArgumentChecks turns
// into a usage error, unless the command line selects items in exactly one way: by ids without any filter, by --all
// with optional filters, or by --gone. It also returns the errors of checkPlatform, and parses the time of --asked-at.
// If the command line selects the items that the platform does not have, checkArgs sets platform.removes, and restricts
// the conditions to complete and deleting unless --condition is set.
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
// command. It returns an error if --gone is set together with ids, --all or --existing, and the errors of
// platformFilter.check.
func (s *selection) checkPlatform(command *cobra.Command, ids []string) error {
	if s.platform.gone && (len(ids) > 0 || s.all || s.platform.existingFile != "") {
		return errors.New("--gone excludes ids, --all and --existing")
	}
	return s.platform.check(command)
}

// selectItems returns the items that the command works on, and implements itemSelector. ids are the arguments of the
// command.
//
// If ids select the items, they are returned in order and without duplicates, and nothing is read: only Kind and ID of
// their entries are set, and an item may not exist. With --all or --gone, the items are read from the state backend.
// The result is those that pass the filters, in the order of their workspaces. With --existing or --gone it is only
// those that the platform does not have either; see missing. There may be none, which is not an error.
//
// If --gone selects items, selectItems waits for the time of --wait, unless that is 0, and asks the Director again.
//
// selectItems returns an error if the state backend or the platform cannot be read, or if ctx ends; see also inventory,
// listStored and missing. If the state backend has no items of the kind, errors of the list of --existing are only
// warnings. selectItems writes progress and warnings to standard error, and sorts ids.
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

// listStored returns all items of the kind in the state backend, in the order of their workspaces and without applying
// the filters. It writes its progress to standard error, a warning if the state backend is empty, because the states
// may be lost, and a line if no item belongs to the instance of the filter. It returns the usage errors of checkNames,
// and another error if the state backend cannot be read.
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

// checkNames returns a usage error if the filter names a service or a plan that neither a pak, nor the operator's
// configuration, nor a stored item has. With --service, the plan must be one of that service. all are the stored items.
// Names are not checked if the command removes items that the platform does not have, because such a command is
// repeated after the last item of a service or plan was removed.
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

// checkName returns a usage error, which lists the known names, if the value of a flag is set and is not one of them.
// flag is the flag's name without the dashes. Empty names and duplicates are ignored. The elements of known are
// reordered and changed.
func checkName(flag, name string, known []string) error {
	if name == "" {
		return nil
	}
	known = slices.DeleteFunc(known, func(one string) bool { return one == "" })
	slices.Sort(known)
	return checkOneOf(flag, name, slices.Compact(known))
}

// warnIfEmpty writes a warning to standard error if the state backend contains no workspace of any kind. It returns an
// error if the state backend cannot be read.
func warnIfEmpty(ctx context.Context, streams Streams, operator *states.Operator) error {
	empty, err := operator.IsEmpty(ctx)
	if empty && err == nil {
		say(streams, "warning: the state backend contains no states: "+
			"this is expected before its first use, and otherwise its "+
			"states are lost or `state` of the configuration names another backend")
	}
	return err
}
