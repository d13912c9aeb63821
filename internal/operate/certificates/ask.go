package certificates

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"service-adapter/internal/director"
	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/record"
)

// A Fleet is the Director of an on-demand broker, with a function that recognises the broker's service instances.
type Fleet struct {
	Director *director.Client
	// Owns reports whether an instance with this record belongs to a service of the broker.
	Owns func(*record.InstanceRecord) bool
}

// requestsAtOnce is the number of instances about which the Director is asked at the same time.
const requestsAtOnce = 8

// Ask asks the Director for the certificates of each instance in the survey. Without Options.IDs, it also adds the
// instances that only the Director knows: the deployments of service instances whose manifests have a record that the
// fleet owns. Deployments without a record are left out, because they belong to other adapters.
//
// A request that fails is an error of its instance. If the deployments cannot be listed, that is one of Survey.Errors,
// and only the instances in the survey are asked about. An instance that only the Director knows and that is deleted
// meanwhile is left out. Ask calls progress, which may be nil, after each instance. It returns an error only if ctx
// ends.
func (s *Survey) Ask(ctx context.Context, fleet Fleet, progress lifecycle.Progress) error {
	before := s.listDeployments(ctx, fleet)
	var asked []*Instance
	for _, instance := range s.instances {
		asked = append(asked, instance)
	}
	known := func(name string) bool {
		return slices.ContainsFunc(asked, func(instance *Instance) bool { return instance.Deployment == name })
	}
	if len(s.options.IDs) == 0 {
		deployed := slices.DeleteFunc(slices.Clone(before), known)
		for _, name := range deployed {
			asked = append(asked, &Instance{ID: strings.TrimPrefix(name, deploymentPrefix), Deployment: name})
		}
	}
	selected := make([]bool, len(asked))
	var group errgroup.Group
	group.SetLimit(requestsAtOnce)
	var lock sync.Mutex
	done := 0
	for i, instance := range asked {
		group.Go(func() error {
			selected[i] = s.ask(ctx, fleet, instance)
			lock.Lock()
			defer lock.Unlock()
			if done++; progress != nil {
				progress(done, len(asked))
			}
			return nil
		})
	}
	_ = group.Wait() // the functions return no errors
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for i, instance := range asked {
		if selected[i] {
			s.instances[instance.ID] = instance
		}
	}
	s.dropDeleted(ctx, fleet, before)
	return nil
}

// listDeployments returns the names of the deployments of service instances. If the Director cannot be asked for them,
// it adds the reason to Errors and returns nil. It does not ask, and returns nil, if Options.IDs select the instances.
func (s *Survey) listDeployments(ctx context.Context, fleet Fleet) []string {
	if len(s.options.IDs) > 0 {
		return nil
	}
	names, err := fleet.Director.Deployments(ctx)
	if err != nil {
		s.Errors = append(s.Errors, err.Error())
		return nil
	}
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, deploymentPrefix) })
}

// ask asks the Director for the certificates of an instance, and sets Reported or Error of the instance. If the state
// backend does not contain the instance and the options do not name it, ask reads its manifest first, and sets Service
// and Plan. ask reports whether the instance belongs to the survey. It returns false for a manifest without a record,
// or with one that the fleet does not own or the options exclude, and true after an error. It does not change the
// survey.
func (s *Survey) ask(ctx context.Context, fleet Fleet, instance *Instance) bool {
	if !instance.stored && len(s.options.IDs) == 0 {
		manifest, err := fleet.Director.Manifest(ctx, instance.Deployment)
		var stored *record.InstanceRecord
		if err == nil {
			stored, err = record.FromManifest(manifest)
		}
		switch {
		case err != nil:
			instance.Error = err.Error()
			return true
		case stored == nil || !fleet.Owns(stored) || !s.matches(stored.Service, stored.Plan):
			return false
		}
		instance.Service, instance.Plan = stored.Service, stored.Plan
	}
	reported, err := fleet.Director.Certificates(ctx, instance.Deployment)
	if err != nil {
		instance.Error = errorText(errors.Join(textError(instance.Error), err))
		return true
	}
	for _, one := range reported {
		instance.Reported = append(instance.Reported, Reported{
			Name: one.Name, Expiry: one.Expiry, DaysLeft: one.DaysLeft, Due: s.scanner.isDue(one.Expiry),
		})
	}
	return true
}

// textError returns an error with this text, or nil for "".
func textError(text string) error {
	if text == "" {
		return nil
	}
	return errors.New(text)
}

// dropDeleted removes the instances with an error that only the Director knew, and whose deployments it no longer has.
// before are the deployments that it had. dropDeleted asks the Director for its deployments only if there are such
// instances. If they cannot be listed again, no instance is removed, so that the errors are reported.
func (s *Survey) dropDeleted(ctx context.Context, fleet Fleet, before []string) {
	failed := func(instance *Instance) bool {
		return instance.Error != "" && !instance.stored && slices.Contains(before, instance.Deployment)
	}
	var candidates []*Instance
	for _, instance := range s.instances {
		if failed(instance) {
			candidates = append(candidates, instance)
		}
	}
	if len(candidates) == 0 {
		return
	}
	names, err := fleet.Director.Deployments(ctx)
	if err != nil {
		return
	}
	for _, instance := range candidates {
		if !slices.Contains(names, instance.Deployment) {
			delete(s.instances, instance.ID)
		}
	}
}
