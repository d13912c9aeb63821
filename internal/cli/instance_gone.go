package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"service-adapter/adapter"
	"service-adapter/internal/director"
	"service-adapter/internal/lifecycle"
)

// gone chooses the instances whose deployment a Director does not have.
type gone struct {
	chosen bool
	// director is a file that says how to reach the Director.
	director string
	// wait is how long the broker may take to deploy what was created.
	wait time.Duration
}

func (g *gone) flags(command *cobra.Command) {
	command.Flags().BoolVar(&g.chosen, "gone", false, "those whose deployment the Director of --director does not have")
	command.Flags().StringVar(&g.director, "director", "", "a file that says how to reach the Director, with --gone")
	command.Flags().DurationVar(&g.wait, "wait", time.Minute, "with --gone, ask the Director again after this time")
}

// inventory is what the Director has.
func (g *gone) inventory() (inventory, error) {
	config, err := director.ReadConfig(g.director)
	if err != nil {
		return nil, err
	}
	client, err := director.New(config)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", g.director, err)
	}
	return func(ctx context.Context, stored int) ([]string, string, error) {
		deployments, err := client.Deployments(ctx)
		return deployments, fmt.Sprintf("the Director %s has %d deployments and none of them is that of one of the %d instances: unless it is the wrong "+
			"Director, or a client that may not see them, name the instances or add --allow-all", client.Address(), len(deployments), stored), err
	}, nil
}

// careful tells whether what is removed is what an inventory does not have.
func (r *removal) careful() bool { return r.gone.chosen || r.existing != "" }

// check makes sure that a command line says what to remove, in one way.
func (r *removal) check(command *cobra.Command, ids []string) error {
	if r.careful() && len(r.conditions) == 0 {
		// What is in another condition may be about to get a deployment, or to be listed.
		r.conditions = []string{string(lifecycle.Complete), string(lifecycle.Deleting)}
	}
	switch {
	case !r.gone.chosen && r.gone.director != "":
		return errors.New("--director goes with --gone")
	case !r.careful() && r.allowAll:
		return errors.New("--allow-all goes with --existing")
	case !r.gone.chosen:
		return r.selection.check(command, ids)
	case len(ids) > 0 || r.all || r.existing != "":
		return errors.New("--gone excludes ids, --all and --existing")
	case r.gone.director == "":
		return errors.New("--gone needs --director FILE")
	case r.gone.wait < 0:
		return errors.New("--wait must not be negative")
	}
	return nil
}

// items returns what to remove.
func (r *removal) items(ctx context.Context, streams Streams, operator *adapter.Operator, ids []string) ([]lifecycle.Stored, error) {
	if !r.careful() {
		return r.selection.items(ctx, streams, operator, ids)
	}
	known, err := listedIn(r.existing), error(nil)
	if r.gone.chosen {
		known, err = r.gone.inventory()
	}
	if err != nil {
		return nil, err
	}
	// First what is stored and then what exists: what is created in between is not known here.
	all, err := listed(ctx, streams, operator, r.kind, &filter{})
	if err != nil || len(all) == 0 {
		return nil, err
	}
	meant, err := r.unknown(ctx, known, all, all)
	meant = r.settled(streams, meant)
	if err != nil || len(meant) == 0 || r.dryRun || !r.gone.chosen || r.gone.wait == 0 {
		return meant, err
	}
	say(streams, fmt.Sprintf("asking the Director again in %s, for the broker may be about to deploy what is new", r.gone.wait))
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(r.gone.wait):
	}
	return r.unknown(ctx, known, all, meant)
}

// settled returns those that the filter means, and tells of those that are in another condition.
func (r *removal) settled(streams Streams, candidates []lifecycle.Stored) []lifecycle.Stored {
	anyCondition := r.filter
	anyCondition.conditions = nil
	return slices.DeleteFunc(candidates, func(stored lifecycle.Stored) bool {
		switch {
		case !anyCondition.means(&stored):
		case stored.Deployment == "":
			say(streams, fmt.Sprintf("%s %s: left alone, its deployment is not known", stored.Kind, stored.ID))
		case !r.means(&stored):
			say(streams, fmt.Sprintf("%s %s: left alone, it is %s; name its id, or the condition with --condition", stored.Kind, stored.ID, stored.Condition))
		default:
			return false
		}
		return true
	})
}
