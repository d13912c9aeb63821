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

// Changes returns the pending changes of one instance: the differences between the deployed manifest and the one that
// the next update generates, the secrets that an upgrade renews, and the planned changes of resources. The manifests
// are compared as the broker does it, without update blocks; see Check. The result is nil if there are no changes.
// Secrets are masked in it and in the error. deployed is the manifest and plan is the plan as JSON, as the broker sends
// it. Releases and stemcells are those of deployment, or those of the deployed manifest if it is nil. Changes changes
// nothing. It returns an error if the configuration or a pak cannot be read, if the deployed manifest or the plan is
// not valid, or if the manifest cannot be generated or the resources cannot be planned.
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

// A Check performs the check of the broker before an update: it generates the manifest of a deployed instance again,
// without parameters, and compares it with the deployed one through the SDK's struct. Update blocks are ignored, and
// secrets count as unchanged. Additionally, it finds the secrets that an upgrade renews, and OpenTofu plans the changes
// of the resources of a provision template. A Check changes nothing and is safe for concurrent use.
type Check struct{ session *session.Session }

// Open loads the configuration and opens the paks. It returns an error, with secrets masked, if the configuration is
// invalid or any pak cannot be read. The caller must call Close.
func Open(process session.Process) (*Check, error) {
	opened := session.New(process, "pending-changes")
	if err := opened.Open(); err != nil {
		return nil, errors.New(opened.Secrets.Clean(err.Error())) // as in the log
	}
	return &Check{opened}, nil
}

// Close closes the paks.
func (c *Check) Close() { c.session.Close() }

// ErrOtherService reports that an instance does not belong to the service of the broker.
var ErrOtherService = errors.New("it is an instance of another service")

// An Instance is the result of checking one of the broker's instances.
type Instance struct {
	// Plan is the name of the instance's plan in the broker's catalog.
	Plan string
	// PlanGuessed reports that the deployed manifest has no record, so that Plan is the plan with the fewest pending
	// changes.
	PlanGuessed bool
	Changes     []manifestdiff.Change
}

// Instance checks an instance with the plan, releases and stemcells of the broker's current configuration. The plan is
// the one in the record of the manifest. A manifest without a record is one of a replaced adapter if a plan of the
// catalog has one of its instance groups and the broker has one of its releases; the plan with the fewest pending
// changes is then used.
//
// Instance returns ErrOtherService if the instance belongs to a service of another broker, and another error if neither
// a record nor the catalog shows that it belongs to this one, or if its plan is not in the catalog. If the changes
// cannot be determined with the recorded plan, it returns the name of the plan with the error; see Changes.
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
		return Instance{}, fmt.Errorf("its plan %s is not in the broker's catalog any more",
			strings.TrimSpace(stored.Plan+" "+stored.PlanID))
	}
	pending, err := c.changes(ctx, deployed, current.JSON, &broker.Deployment)
	return Instance{Plan: current.Name, Changes: pending}, err
}

// changes returns the pending changes of an instance with the releases and stemcells of latest, or those of the
// deployed manifest if it is nil. plan is the plan as JSON. Secrets in changes and errors are masked. A panic is
// returned as an error. See Changes for the errors.
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

// compare generates the manifest again and returns its differences from the deployed one, followed by the secrets that
// an upgrade renews and the planned changes of resources. If the manifests differ, it generates the manifest once more
// to detect templates that are not deterministic. It replaces s.CheckPending by functions of its own. The result is nil
// if nothing is pending, and must not be used after an error. Secrets in the result and in errors are not masked.
//
// compare returns an error if the plan is not valid, if the manifest cannot be generated, if the secrets that an
// upgrade renews cannot be determined although the manifest can be generated, if one of the manifests or its record
// cannot be decoded, or if OpenTofu cannot plan the changes of resources.
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

// deploymentOf reconstructs the deployment that the broker sent from a manifest: its name, releases and stemcells. A
// release contains the jobs that the manifest's instance groups and addons use from it, without repetitions.
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
