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

// check makes sure that a command line says what to remove, in one way.
func (r *removal) check(command *cobra.Command, ids []string) error {
	careful := r.gone.chosen || r.existing != ""
	if careful && len(r.conditions) == 0 {
		// What is in another condition may be about to get a deployment, or to be listed.
		r.conditions = []string{string(lifecycle.Complete), string(lifecycle.Deleting)}
	}
	switch {
	case !r.gone.chosen && r.gone.director != "":
		return errors.New("--director goes with --gone")
	case !careful && r.allowAll:
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
	return r.filter.check()
}

// items returns what to remove.
func (r *removal) items(ctx context.Context, streams Streams, operator *adapter.Operator, ids []string) ([]lifecycle.Stored, error) {
	if r.existing != "" {
		unknown, err := listed(ctx, streams, operator, r.kind, &filter{existing: r.existing, allowAll: r.allowAll})
		if err != nil {
			return nil, err
		}
		return r.settled(streams, unknown)
	}
	if !r.gone.chosen {
		return r.selection.items(ctx, streams, operator, ids)
	}
	config, err := director.ReadConfig(r.gone.director)
	if err != nil {
		return nil, err
	}
	client, err := director.New(config)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.gone.director, err)
	}
	// First the instances and then the deployments: an instance that is created in between is not known here.
	all, err := listed(ctx, streams, operator, r.kind, &filter{})
	if err != nil || len(all) == 0 {
		return nil, err
	}
	meant, err := r.withoutDeployment(ctx, client, all, all)
	if err != nil {
		return nil, err
	}
	if meant, err = r.settled(streams, meant); err != nil || len(meant) == 0 || r.dryRun || r.gone.wait == 0 {
		return meant, err
	}
	say(streams, fmt.Sprintf("asking the Director again in %s, for the broker may be about to deploy what is new", r.gone.wait))
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(r.gone.wait):
	}
	return r.withoutDeployment(ctx, client, all, meant)
}

// settled returns those that the filter means, and tells of those that are in another condition.
func (r *removal) settled(streams Streams, candidates []lifecycle.Stored) ([]lifecycle.Stored, error) {
	others := r.filter // the candidates are those of the other flags already
	others.conditions, others.existing = nil, ""
	meant, err := others.apply(candidates)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(meant, func(stored lifecycle.Stored) bool {
		switch {
		case stored.Deployment == "":
			say(streams, fmt.Sprintf("%s %s: left alone, its deployment is not known", stored.Kind, stored.ID))
		case !slices.Contains(r.conditions, string(stored.Condition)):
			say(streams, fmt.Sprintf("%s %s: left alone, it is %s; name its id, or the condition with --condition", stored.Kind, stored.ID, stored.Condition))
		default:
			return false
		}
		return true
	}), nil
}

// withoutDeployment returns those of the candidates whose deployment the Director does not have. It is an error when it has that of none
// of all instances: then it is more likely another Director, or a client that may not see them.
func (r *removal) withoutDeployment(ctx context.Context, client *director.Client, all, candidates []lifecycle.Stored) ([]lifecycle.Stored, error) {
	deployments, err := client.Deployments(ctx)
	if err != nil {
		return nil, err
	}
	exists := func(stored lifecycle.Stored) bool { return slices.Contains(deployments, stored.Deployment) }
	if !r.allowAll && !slices.ContainsFunc(all, exists) {
		return nil, fmt.Errorf("the Director %s has %d deployments and none of them is that of one of the %d instances: unless it is the wrong "+
			"Director, or a client that may not see them, name the instances or add --allow-all", client.Address(), len(deployments), len(all))
	}
	return slices.DeleteFunc(slices.Clone(candidates), exists), nil
}
