package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/operate/states"
)

// newUpgrade returns the command `bindings upgrade` or `instance upgrade`, depending on kind. It upgrades the states of
// the selected bindings or service instances to the default OpenTofu version of the installed pak that has the name of
// the recorded pak. If several installed paks have that name, the newest of their default OpenTofu versions counts, not
// the newest version of the pak. The items are selected by ids, which are the arguments, or with --all and filters.
// --limit restricts the number of upgrades, and with --dry-run the command only reports what it would do. The results
// are written to streams; see upgrade.work for them.
//
// The command continues after a failure. It returns errFindings if an item could not be upgraded, or in a dry run
// cannot be. It returns a usageError if --limit is less than 1 or the arguments and flags do not select items in one
// way, and another error if the operator cannot be opened, if the items cannot be selected, or if standard output
// cannot be written.
func newUpgrade(streams Streams, kind lifecycle.Kind) *cobra.Command {
	upgraded := &upgrade{selection: selection{kind: kind}}
	command := &cobra.Command{
		Use:   "upgrade ID… | --all",
		Short: fmt.Sprintf("Upgrade %s to the OpenTofu of the installed pak", plural(kind)),
		Long: fmt.Sprintf(`Upgrade the states of %s to the OpenTofu of the installed pak that created them. Each state's
own template is applied with every version of the pak's terraform_upgrade_path that is newer than that of the state. The
command continues after failures and leaves states alone that are up to date, so it can be repeated. States that a newer
pak than the installed one applied are left alone and reported.

With --limit N, at most N states are upgraded, and the summary has the number of those that remain. States whose last
upgrade failed come last, so that repeated runs reach all others first. --dry-run only reports what would be upgraded
and does not run OpenTofu.`, plural(kind)) +
			exitStatus("0 the states are up to date, newer than the installed pak, or remain because of --limit",
				"1 a state could not be upgraded, or with --dry-run cannot be"),
		Example: fmt.Sprintf("  service-adapter %[1]s upgrade --all --dry-run\n"+
			"  service-adapter %[1]s upgrade --all --limit 10", parentCommand(kind)),
	}
	upgraded.flags(command)
	checkSelection := command.Args
	command.Args = func(command *cobra.Command, args []string) error {
		if command.Flags().Changed("limit") && upgraded.limit < 1 {
			return fmt.Errorf("--limit is %d; it must be 1 or more", upgraded.limit)
		}
		return checkSelection(command, args)
	}
	command.Flags().IntVar(&upgraded.limit, "limit", 0, "upgrade at most `N` of them")
	command.Flags().BoolVar(&upgraded.dryRun, "dry-run", false, "only report what would be upgraded")
	run := batch{streams: streams, activity: "upgrading", work: upgraded.work}
	run.selectItems = func(
		ctx context.Context, streams Streams, operator *states.Operator, ids []string,
	) ([]lifecycle.Stored, error) {
		if upgraded.dryRun {
			run.activity = "" // the items are reported in order
		}
		return upgraded.selectItems(ctx, streams, operator, ids)
	}
	return run.attach(command)
}

// An upgrade holds the flags of `bindings upgrade` and `instance upgrade`, and its methods select and upgrade the
// items. kind must be set. With the other fields zero, the items that are named by their ids are upgraded, without a
// limit on their number.
type upgrade struct {
	selection
	// limit is the largest number of items to upgrade, 0 for all.
	limit int
	// dryRun reports what would be upgraded and changes nothing.
	dryRun bool
	// remaining are the ids of the items that the limit leaves for a later run. selectItems sets it.
	remaining map[string]bool
}

// selectItems returns the items to upgrade, and implements itemSelector; ids are the arguments of the command.
// Without a limit, the result is that of selection.selectItems. With a limit, items that are named by their ids are
// read from the state backend, which may delete empty workspaces. The items whose last apply or upgrade failed then
// follow all others, and u.remaining is set to the ids of the items beyond the limit, which are returned as well. An
// item that needs no upgrade, or cannot be upgraded, does not count towards the limit. The errors are those of
// selection.selectItems, for example if the state backend cannot be read; an item that cannot be read is not an
// error.
func (u *upgrade) selectItems(
	ctx context.Context, streams Streams, operator *states.Operator, ids []string,
) ([]lifecycle.Stored, error) {
	items, err := u.selection.selectItems(ctx, streams, operator, ids)
	if err != nil || u.limit == 0 {
		return items, err
	}
	for i := range items {
		item, _ := read(ctx, operator, &items[i]) // the upgrade of the item reports the error
		items[i] = *item
	}
	failures := func(stored lifecycle.Stored) int {
		if stored.Failure != nil {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(items, func(a, b lifecycle.Stored) int { return failures(a) - failures(b) })
	u.remaining = map[string]bool{}
	upgrades := 0
	for i := range items {
		target, err := targetOf(operator, &items[i])
		if target == "" || err != nil {
			continue
		}
		if upgrades++; upgrades > u.limit {
			u.remaining[items[i].ID] = true
		}
	}
	return items, nil
}

// read returns an item with its stored Entry. If stored was selected by its id, so that its Condition is "", the item
// is read from the state backend and the result is a new Stored; any other item, which was read before, is returned
// itself. stored is not changed, and the result is never nil.
//
// An item whose state or record cannot be decoded has the condition Unreadable, which is not an error. If the item
// does not exist, read returns stored, whose Condition is "", without an error. If its state is locked or the backend
// cannot be read, it returns stored and the error of lifecycle.Manager.Lookup.
//
// Reading can have side effects, also in a dry run, such as the deletion of an empty workspace; see
// lifecycle.Manager.Lookup.
func read(ctx context.Context, operator *states.Operator, stored *lifecycle.Stored) (*lifecycle.Stored, error) {
	if stored.Condition != "" {
		return stored, nil
	}
	switch item, err := operator.Lookup(ctx, stored.Kind, stored.ID); {
	case errors.Is(err, lifecycle.ErrNotStored):
		return stored, nil
	case err != nil:
		return stored, err
	default:
		return item, nil
	}
}

// targetOf returns the OpenTofu version, such as "1.10.0", that an item would have after an upgrade. It returns ""
// without an error if the item is up to date, or if all installed paks of its name are older than the one that applied
// it last (see lifecycle.OlderPak). It returns an error that wraps lifecycle.ErrNotStored if the item has not been
// read, so that its Condition is "". It returns another error if the item cannot be upgraded, for example because its
// record is unreadable, its creation was not finished, or no pak of its name is installed. It changes nothing.
func targetOf(operator *states.Operator, stored *lifecycle.Stored) (string, error) {
	switch {
	case stored.Condition == "":
		return "", fmt.Errorf("%s %q: %w", stored.Kind, stored.ID, lifecycle.ErrNotStored)
	case lifecycle.OlderPak(operator.Manager, stored) != nil:
		return "", nil
	}
	return lifecycle.UpgradeTarget(operator.Manager, stored)
}

// work upgrades the item stored, a binding or service instance, to the newest default OpenTofu of the installed paks
// that have the name of the recorded pak. It returns one of these results, without Kind and ID:
//
//   - "upgraded", or in a dry run "chosen", if the item was or would be upgraded.
//   - "current" if the item is up to date, also if it was first applied again with the same OpenTofu because its
//     condition was Changing, for example after a failed upgrade. A dry run reports such an item as "chosen".
//   - "remaining" if the item is beyond the limit. It is not changed.
//   - "newer" if the installed paks of that name are older than the recorded one, by their own versions or by their
//     OpenTofu. The item is not changed.
//   - "failed", with the error, if the item does not exist, cannot be read or cannot be upgraded, for example because
//     its creation was not finished or no pak of that name is installed, or if the upgrade failed.
//
// From and To are the versions of OpenTofu before and after the upgrade, also if the upgrade is only reported or
// remains. They are not set in a failed result. For "newer", To is the version of the OpenTofu of the installed pak,
// and Pak and InstalledPak are set as well.
func (u *upgrade) work(ctx context.Context, operator *states.Operator, stored *lifecycle.Stored) result {
	stored, err := read(ctx, operator, stored)
	if err != nil && u.dryRun { // otherwise the upgrade reports the error, or succeeds after a lock was released
		return resultOf(err, resultUpgraded)
	}
	if pak := lifecycle.OlderPak(operator.Manager, stored); pak != nil {
		installed, _ := pak.Manifest.DefaultVersion() // "" for a pak without OpenTofu
		return result{
			Result: resultNewer, From: stored.Tofu, To: installed,
			Pak: stored.Pak + " " + stored.PakVersion, InstalledPak: pak.Manifest.Name + " " + pak.Manifest.Version,
		}
	}
	target, err := targetOf(operator, stored)
	switch {
	case err == nil && target == "":
		return result{Result: resultCurrent, From: stored.Tofu, To: stored.Tofu}
	case u.remaining[stored.ID]:
		return result{Result: resultRemaining, From: stored.Tofu, To: target}
	case u.dryRun && err != nil:
		return resultOf(err, resultUpgraded)
	case u.dryRun:
		return result{Result: resultChosen, wouldBe: resultUpgraded, From: stored.Tofu, To: target}
	}
	from, to, err := operator.UpgradeStored(ctx, stored.Kind, stored.ID)
	if err != nil {
		return resultOf(err, resultUpgraded)
	}
	if from == to {
		return result{Result: resultCurrent, From: from, To: to}
	}
	return result{Result: resultUpgraded, From: from, To: to}
}

// newReencrypt returns the command `bindings reencrypt`, which encrypts the states of all bindings and service
// instances with the current key, several at the same time. A state that an earlier run could not save is saved first,
// and an empty workspace is deleted. The results, which are those of reencrypt, are written to streams. Without
// --accept-unencrypted, a state in clear text fails.
//
// The command continues after failures and then returns errFindings. It returns another error if the operator cannot be
// opened, if the configuration has no key, if no pak has a usable OpenTofu, if the workspaces cannot be listed, or if
// standard output cannot be written.
func newReencrypt(streams Streams) *cobra.Command {
	run := batch{streams: streams, selectItems: allWorkspaces, activity: "encrypting", work: reencrypt}
	command := &cobra.Command{
		Use:   "reencrypt",
		Short: "Encrypt all states with the current key",
		Long: `Encrypt the states of all bindings and instances with the current key, state.encryption.key. Run it after
you set a new key and moved the old one to state.encryption.old_keys. After exit status 0 the old keys are needed only
for older backups. Resources are not changed. The command can be interrupted and repeated, and bindings can be created
and deleted while it runs.

With --accept-unencrypted it also encrypts states that are not encrypted. Set it after you configured a key for the
first time.` +
			exitStatus("0 all states are encrypted with the current key", "1 a state could not be encrypted"),
		Example: "  service-adapter bindings reencrypt",
	}
	command.Flags().BoolVar(&run.options.AcceptUnencrypted, "accept-unencrypted", false,
		"also encrypt states that are not encrypted")
	return run.attach(command)
}

// allWorkspaces is the itemSelector of `bindings reencrypt`: it returns an entry for every binding and service instance
// in the state backend, in the order of their workspaces. Their states are not read: only Workspace, Kind and ID are
// set. If the name of a workspace contains a hash instead of the id, that name is the ID. The result is nil if there
// are none. allWorkspaces returns nil and an error if the configuration has no key to encrypt with, if no pak has a
// usable OpenTofu, if the workspaces cannot be listed, or if ctx ends.
func allWorkspaces(ctx context.Context, _ Streams, operator *states.Operator, _ []string) ([]lifecycle.Stored, error) {
	if !operator.Encrypts() {
		return nil, errors.New("state.encryption is not set: " +
			"set a key in the configuration, as openssl rand -base64 32 prints one")
	}
	names, err := operator.Workspaces(ctx, "")
	var items []lifecycle.Stored
	for _, name := range names {
		kind, id, _ := lifecycle.ParseWorkspace(name)
		entry := lifecycle.Entry{Identity: lifecycle.Identity{Workspace: name, Kind: kind, ID: id}}
		items = append(items, lifecycle.Stored{Entry: entry})
	}
	return items, err
}

// reencrypt encrypts the state of the workspace stored.Workspace with the current key. It first saves a state that an
// earlier run could not save, and it deletes an empty workspace. The result is "encrypted", or "current" if the state
// was already encrypted with that key, or if the workspace is empty or does not exist. It is "failed", with the
// error, if the configuration has no key, if no pak has a usable OpenTofu, or if the state cannot be read, decrypted
// or stored, is locked, or is in clear text and that is not accepted. Kind and ID of the result are not set.
func reencrypt(ctx context.Context, operator *states.Operator, stored *lifecycle.Stored) result {
	changed, err := operator.Reencrypt(ctx, stored.Workspace)
	if err == nil && !changed {
		return result{Result: resultCurrent}
	}
	return resultOf(err, resultEncrypted)
}
