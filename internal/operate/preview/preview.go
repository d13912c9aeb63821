// Package preview determines the pending changes of service instances: the differences between the deployed manifest
// and the one that the next update generates, the secrets that an upgrade renews, and the planned changes of the
// resources that OpenTofu has created.
package preview

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pivotal-cf/on-demand-services-sdk/bosh"
	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/adapter/input"
	"service-adapter/adapter/session"
	"service-adapter/internal/engine/provision"
	"service-adapter/internal/odb"
	"service-adapter/internal/operate/manifestdiff"
	"service-adapter/internal/record"
	"service-adapter/manifestgen"
)

// Changes returns the pending changes of one service instance: the differences between the deployed manifest and the
// one that the next update generates, the secrets whose values the next upgrade replaces, and the changes of resources
// that OpenTofu plans. deployed is the manifest as YAML, and plan the plan as JSON in the form in which the broker
// sends it. The next update uses the releases and stemcells of deployment, or those of the deployed manifest if
// deployment is nil. Manifests are compared as the broker compares them, without update blocks; see Check. process
// supplies the environment, which contains the path of the adapter's configuration, and the stream for the log. Changes
// deploys and applies nothing, but reading a state of OpenTofu stores one that an earlier run could not store, and
// deletes an empty workspace.
//
// The result is nil if there are no changes or an error. Changes returns an error if the configuration is invalid, if
// any pak cannot be read, if the deployed manifest or the plan is not valid, if the manifest cannot be generated, if
// the state of OpenTofu cannot be read, or if OpenTofu cannot plan, also because ctx ended. Secrets are masked in the
// result and in the error.
func Changes(
	ctx context.Context, process session.Process, deployed, plan string, deployment *serviceadapter.ServiceDeployment,
) ([]manifestdiff.Change, error) {
	check, err := Open(process)
	if err != nil {
		return nil, err
	}
	defer check.Close()
	return check.changes(ctx, deployed, plan, deployment)
}

// A Check performs the check for pending changes that the broker makes before an update, for any number of service
// instances: it generates the manifest of a deployed instance again, without parameters, and compares it with the
// deployed one. Keys that the broker's SDK does not know and update blocks are ignored, and secrets count as unchanged.
// A Check also determines the secrets that an upgrade renews, and lets OpenTofu plan the changes of resources. It
// deploys and applies nothing, but reading a state of OpenTofu stores one that an earlier run could not store, and
// deletes an empty workspace. It is safe for concurrent use. Open returns one; the zero value is not usable.
type Check struct{ session *session.Session }

// Open loads the adapter's configuration, whose path is in the environment of process, opens all its paks and returns a
// new Check. It returns nil and an error, in which secrets are masked, if the configuration is invalid or any pak
// cannot be read. Unless it returns an error, the caller must call Close.
func Open(process session.Process) (*Check, error) {
	opened := session.New(process, "pending-changes")
	if err := opened.Open(); err != nil {
		return nil, errors.New(opened.Secrets.Clean(err.Error())) // as in the log
	}
	return &Check{opened}, nil
}

// Close closes the paks that Open opened. The Check must not be used afterwards.
func (c *Check) Close() { c.session.Close() }

// ErrOtherService reports that an instance does not belong to the service of the broker.
var ErrOtherService = errors.New("it is an instance of another service")

// An Instance is the result of checking one of the broker's service instances for pending changes: the name of its plan
// and its pending changes. Changes is nil if there are no pending changes, and also if the check failed, so the caller
// must consider the error of Check.Instance first. The zero value means that the check failed before the plan was
// known.
type Instance struct {
	// Plan is the name of the instance's plan in the broker's catalog.
	Plan string
	// PlanGuessed reports that the deployed manifest has no record, so that Plan is the plan with the fewest pending
	// changes.
	PlanGuessed bool
	Changes     []manifestdiff.Change
}

// Instance checks a service instance for pending changes. deployed is its manifest as YAML, and broker is the broker's
// current configuration, which supplies the plan, the releases and the stemcells. The plan is the one in broker with
// the plan id in the adapter's record in the manifest, or, only if the record has no id, with the recorded name. If the
// manifest has no record, Instance assumes that an adapter that was replaced generated it, provided that a plan of the
// catalog has one of its instance groups and the broker has one of its releases. Instance then tries these plans and
// uses the one with the fewest pending changes; it skips plans with which the changes cannot be determined.
//
// Instance returns ErrOtherService if the instance does not belong to the broker according to the service id in the
// record (see session.Catalog.Owns), or, without a record, if the CredHub paths of the secrets in the manifest
// contain the id of another service than the broker's. It returns another error if the manifest cannot be decoded, if
// it has no record and none of the plans fits, if the catalog has no plan with the recorded id or name, or if the
// changes cannot be determined with any plan that it tries; see Changes for these causes. In the last case, the
// result of a manifest with a record contains the name of the plan but no changes; after all other errors it is the
// zero Instance.
func (c *Check) Instance(ctx context.Context, deployed string, broker *odb.BrokerConfig) (Instance, error) {
	stored, err := record.FromManifest(deployed)
	switch {
	case err != nil:
		return Instance{}, err
	case stored == nil:
		return c.ofReplacedAdapter(ctx, deployed, broker)
	}
	if !c.session.Catalog.Owns(stored, broker.Catalog.ID) {
		return Instance{}, ErrOtherService
	}
	current := broker.Plan(stored.PlanID, stored.Plan)
	if current == nil {
		return Instance{}, fmt.Errorf("the broker's catalog no longer contains its plan %s",
			strings.TrimSpace(stored.Plan+" "+stored.PlanID))
	}
	pending, err := c.changes(ctx, deployed, current.JSON, &broker.Deployment)
	return Instance{Plan: current.Name, Changes: pending}, err
}

// changes returns the pending changes of the instance with the manifest deployed, a YAML text. plan is the plan as
// JSON, as the broker sends it. The next update uses the releases and stemcells of latest, or those of the deployed
// manifest if latest is nil. The result is nil if there are no changes or an error. Secrets in changes and errors are
// masked; an error therefore wraps no other one.
//
// changes returns an error if the manifest is invalid or has no name, if the plan is invalid, if the manifest cannot be
// generated, if the state of OpenTofu cannot be read, or if OpenTofu cannot plan. A panic is also returned as an error.
func (c *Check) changes(
	ctx context.Context, deployed, plan string, latest *serviceadapter.ServiceDeployment,
) (pending []manifestdiff.Change, err error) {
	own := c.session.ForInstance()
	defer func() {
		if err != nil {
			pending, err = nil, errors.New(own.Secrets.Clean(err.Error())) // masked, as in the log
		}
	}()
	defer session.RecoverPanic(&err)
	parsed, err := odb.Compared(deployed)
	if err == nil && parsed.Name == "" {
		err = errors.New("it has no name")
	}
	if err != nil {
		return nil, fmt.Errorf("reading the deployed manifest: %w", err)
	}
	deployment := deploymentOf(parsed)
	if latest != nil {
		deployment.Releases, deployment.Stemcells = latest.Releases, latest.Stemcells
	}
	own.Logger = own.Logger.With("deployment", parsed.Name)
	pending, err = compare(ctx, own, deployed, plan, deployment)
	manifestdiff.Mask(pending, own.Secrets)
	return pending, err
}

// compare generates the manifest of an instance again and returns its differences from deployed, the deployed manifest,
// followed by the secrets that an upgrade renews and the changes of resources that OpenTofu plans. plan is the plan as
// JSON, and deployment the name, releases and stemcells of the next update. If the manifests differ, compare generates
// the manifest once more to detect templates that are not deterministic. The result is nil if nothing is pending.
//
// compare replaces s.CheckPending by functions of its own, and registers the secrets of the request in s.Secrets.
// Secrets in the result and in errors are not masked.
//
// compare returns an error if the plan is not valid, if the manifest cannot be generated, if the secrets that an
// upgrade renews cannot be determined, if one of the manifests or its record cannot be decoded, if the state of
// OpenTofu cannot be read, or if OpenTofu cannot plan. The result must not be used after an error.
func compare(
	ctx context.Context, s *session.Session, deployed, plan string, deployment serviceadapter.ServiceDeployment,
) ([]manifestdiff.Change, error) {
	decoded, err := input.DecodePlan("service plan", plan)
	if err != nil {
		return nil, err
	}
	request := func() *manifestgen.Request { // as the broker sends it
		return &manifestgen.Request{
			Deployment: deployment, BrokerPlan: decoded, PreviousPlan: &decoded, PreviousManifest: deployed,
			Body: map[string]any{},
		}
	}
	regenerate := func() (string, error) {
		product, err := s.GenerateManifest(ctx, request(), 0)
		if err != nil {
			return "", fmt.Errorf("generating the manifest again: %w", err)
		}
		return product.Manifest, nil
	}
	var planned provision.Planned
	s.CheckPending = func(ctx context.Context, request provision.Request) error {
		provisioner, err := s.Provisioner(request.Pak)
		if err == nil {
			planned, err = provisioner.Plan(ctx, request, true)
		}
		return err
	}
	generated, err := regenerate()
	if err != nil {
		return nil, err
	}
	renewed, err := s.RenewedSecrets(request())
	if err != nil {
		return nil, fmt.Errorf("finding the secrets that an upgrade renews: %w", err)
	}
	others := append(manifestdiff.OfSecrets(renewed), manifestdiff.OfResources(planned)...)
	same, err := odb.SameManifests(deployed, generated)
	if same || err != nil {
		return others, err
	}
	s.CheckPending = func(context.Context, provision.Request) error { return nil }
	again, err := regenerate()
	if err != nil {
		return nil, err
	}
	inputs := &inputFinder{session: s, request: request, deployed: deployed, generated: generated}
	pending, err := manifestdiff.OfManifests(deployed, generated, again, !manifestgen.IsAsWritten(deployed),
		func(change manifestdiff.Change) string { return inputs.reason(ctx, change) })
	return append(pending, others...), err
}

// deploymentOf reconstructs, from a deployed manifest, the deployment that the broker sent for it: the name, the
// releases and the stemcells. The jobs of a release are those that the manifest's instance groups and addons use from
// it, each once, in the order of their first use, and nil if they use none. The lists of releases and stemcells are
// empty, and not nil, if the manifest has none. manifest must not be nil.
func deploymentOf(manifest *bosh.BoshManifest) serviceadapter.ServiceDeployment {
	deployment := serviceadapter.ServiceDeployment{
		DeploymentName: manifest.Name, Releases: serviceadapter.ServiceReleases{},
		Stemcells: []serviceadapter.Stemcell{},
	}
	jobs := map[string][]string{}
	provide := func(all []bosh.Job) {
		for _, job := range all {
			if !slices.Contains(jobs[job.Release], job.Name) {
				jobs[job.Release] = append(jobs[job.Release], job.Name)
			}
		}
	}
	for _, group := range manifest.InstanceGroups {
		provide(group.Jobs)
	}
	for _, addon := range manifest.Addons {
		provide(addon.Jobs)
	}
	for _, release := range manifest.Releases {
		deployment.Releases = append(deployment.Releases, serviceadapter.ServiceRelease{
			Name: release.Name, Version: release.Version, Jobs: jobs[release.Name],
		})
	}
	for _, stemcell := range manifest.Stemcells {
		deployment.Stemcells = append(deployment.Stemcells, serviceadapter.Stemcell{
			Name: stemcell.Name, OS: stemcell.OS, Version: stemcell.Version,
		})
	}
	return deployment
}
