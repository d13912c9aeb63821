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
// the selected bindings or service instances to the OpenTofu of the installed pak. See upgrade.work for the results.
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

// An upgrade holds the flags of `bindings upgrade` and `instance upgrade`, and does the work of these commands.
type upgrade struct {
	selection
	// limit is the largest number of items to upgrade, 0 for all.
	limit int
	// dryRun reports what would be upgraded and changes nothing.
	dryRun bool
	// remaining are the ids of the items that the limit leaves for a later run. selectItems sets it.
	remaining map[string]bool
}

// selectItems returns the items to upgrade; see selection.selectItems for the selection and the errors. With a limit,
// the items that are named by their ids are read, the items whose last upgrade failed follow all others, and the ids of
// those beyond the limit are added to u.remaining; all are returned. An item that needs no upgrade, or cannot be
// upgraded, does not count towards the limit.
func (u *upgrade) selectItems(
	ctx context.Context, streams Streams, operator *states.Operator, ids []string,
) ([]lifecycle.Stored, error) {
	items, err := u.selection.selectItems(ctx, streams, operator, ids)
	if err != nil || u.limit == 0 {
		return items, err
	}
	for i := range items {
		items[i] = *read(ctx, operator, &items[i])
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

// read returns an item with its stored data. An item that was selected by its id is read from the state backend,
// because selection.selectItems has not read it; any other item is returned unchanged. If the item cannot be read or
// does not exist, read returns it unchanged too: upgrading it reports the error.
func read(ctx context.Context, operator *states.Operator, stored *lifecycle.Stored) *lifecycle.Stored {
	if stored.Condition == "" {
		if found, err := operator.Lookup(ctx, stored.Kind, stored.ID); err == nil {
			return found
		}
	}
	return stored
}

// targetOf returns the OpenTofu version that an item would have after an upgrade, or "" if it is up to date or newer
// than the installed pak. It returns an error if the item has not been read or cannot be upgraded.
func targetOf(operator *states.Operator, stored *lifecycle.Stored) (string, error) {
	switch {
	case stored.Condition == "":
		return "", fmt.Errorf("%s %q: %w", stored.Kind, stored.ID, lifecycle.ErrNotStored)
	case lifecycle.OlderPak(operator.Manager, stored) != nil:
		return "", nil
	}
	return lifecycle.UpgradeTarget(operator.Manager, stored)
}

// work upgrades a binding or service instance to the OpenTofu of the newest installed pak that has the name of the
// recorded pak. The result is "upgraded" or, in a dry run, "chosen" if the item would be upgraded. It is "current" if
// the item is up to date; the item was changed nevertheless if its last upgrade had failed in its last step, which is
// then repeated with the same OpenTofu and which a dry run reports as "chosen". It is "remaining" if the item is beyond
// the limit, and "newer" if only an older pak than the recorded one is installed; neither is changed. It is "failed" if
// the item does not exist, cannot be read or cannot be upgraded, for example because its creation was not finished, if
// no pak of that name is installed, or if the upgrade failed.
//
// From and To are the versions of OpenTofu before and after the upgrade, also if it is only reported or remains. They
// are not set in a failed result. For "newer", To is the version of the OpenTofu of the installed pak, and Pak and
// InstalledPak are set as well.
func (u *upgrade) work(ctx context.Context, operator *states.Operator, stored *lifecycle.Stored) result {
	stored = read(ctx, operator, stored)
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
// instances with the current key. States in clear text are an error unless --accept-unencrypted is set.
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

// allWorkspaces is an itemSelector that returns an entry for every binding and service instance in the state backend,
// for `bindings reencrypt`, in the order of their workspaces. Their states are not read: only Workspace, Kind and ID
// are set. allWorkspaces returns an error if the configuration has no key to encrypt with, or if the workspaces cannot
// be listed.
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

// reencrypt encrypts the state of the workspace of stored with the current key. The result is "encrypted", "current" if
// the state was already encrypted with that key, or "failed" with the error. Kind and ID of the result are not set.
func reencrypt(ctx context.Context, operator *states.Operator, stored *lifecycle.Stored) result {
	changed, err := operator.Reencrypt(ctx, stored.Workspace)
	if err == nil && !changed {
		return result{Result: resultCurrent}
	}
	return resultOf(err, resultEncrypted)
}
