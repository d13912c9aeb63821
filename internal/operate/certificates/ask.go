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

// A Fleet is a client for the Director of an on-demand broker, with a function that recognises the broker's service
// instances by the records in their manifests. Both fields must be set. Survey.Ask asks the Director of a Fleet for
// certificates.
type Fleet struct {
	Director *director.Client
	// Owns reports whether an instance with this record belongs to a service of the broker.
	Owns func(*record.InstanceRecord) bool
}

// requestsAtOnce is the number of instances about which the Director is asked at the same time.
const requestsAtOnce = 8

// Ask asks the Director of fleet for the certificates of each instance in the survey. Without Options.IDs, it also adds
// the instances that only the Director knows: the deployments whose names begin with "service-instance_", whose
// manifests have a record that the fleet owns, and whose service and plan the options permit. Deployments without a
// record are left out, because they belong to other adapters. A deployment whose manifest cannot be read is added with
// an Error, because its service is unknown.
//
// If a request for an instance fails, for example because its deployment does not exist, the reason is added to the
// Error of the instance. If the deployments cannot be listed, the reason is added to Survey.Errors, and only the
// instances in the survey are asked about. An instance that only the Director knows is left out if a request fails
// because it was deleted meanwhile, unless the deployments cannot be listed again. Several requests run at the same
// time. Ask calls progress, which may be nil, after each instance, and not concurrently.
//
// Ask returns an error only if ctx ends. The survey is incomplete then: instances that only the Director knows are
// missing, and others may have an Error because of ctx.
func (s *Survey) Ask(ctx context.Context, fleet Fleet, progress lifecycle.Progress) error {
	before := s.listDeployments(ctx, fleet)
	var asked []*Instance
	for _, instance := range s.instances {
		asked = append(asked, instance)
	}
	isInSurvey := func(name string) bool {
		return slices.ContainsFunc(asked, func(instance *Instance) bool { return instance.Deployment == name })
	}
	if len(s.options.IDs) == 0 {
		deployed := slices.DeleteFunc(slices.Clone(before), isInSurvey)
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

// listDeployments asks the Director of fleet for its deployments and returns the names of those of service instances,
// which begin with "service-instance_". If the Director cannot be asked, it adds the reason to s.Errors and returns
// nil. If Options.IDs select the instances, it sends no request and returns nil.
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

// ask asks the Director of fleet for the certificates of the deployment of an instance, and changes the instance: it
// appends to Reported, or adds the reason to Error if a request fails or the manifest cannot be read. If the state
// backend contains neither the instance nor a binding of it, and Options.IDs is empty, ask first reads its manifest,
// and sets Service and Plan from the record in it.
//
// ask reports whether the instance belongs to the survey. It returns false for a manifest without a record, or with one
// that the fleet does not own or whose service or plan the options exclude. It returns true after an error. It does not
// change s, so that calls for different instances may be concurrent.
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

// textError returns an error whose message is text, or nil if text is "".
func textError(text string) error {
	if text == "" {
		return nil
	}
	return errors.New(text)
}

// dropDeleted removes from the survey the instances that were deleted during Ask: those with an Error of which the
// state backend contains neither the instance nor a binding, whose deployments are in before, and whose deployments the
// Director of fleet no longer has. before are the names of the deployments that the Director had when Ask began.
// dropDeleted sends a request only if there are such candidates. If the deployments cannot be listed, no instance is
// removed and no error is recorded, so that the existing errors are reported.
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
