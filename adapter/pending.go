package adapter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/pivotal-cf/on-demand-services-sdk/bosh"
	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"
	"gopkg.in/yaml.v2"

	"service-adapter/brokerpak"
	"service-adapter/internal/odb"
	"service-adapter/internal/provision"
	"service-adapter/internal/record"
	"service-adapter/internal/redact"
	"service-adapter/internal/tfjson"
	"service-adapter/internal/value"
	"service-adapter/manifestgen"
)

// PendingChanges makes a PendingCheck of one instance. The plan is the broker's JSON. Releases and stemcells are those of the deployment;
// where it is nil, those of the deployed manifest.
func PendingChanges(
	ctx context.Context, invocation Invocation, deployed, plan string, deployment *serviceadapter.ServiceDeployment,
) ([]Change, error) {
	check, err := OpenPendingCheck(invocation)
	if err != nil {
		return nil, err
	}
	defer check.Close()
	return check.changes(ctx, deployed, plan, deployment)
}

// PendingCheck does what the broker does before an update: it generates the manifest of a deployed instance again, without parameters,
// and compares both through the SDK's struct, update blocks ignored. What the next update changes of that which a provision template
// made, OpenTofu tells. Secrets count as unchanged. It is safe for concurrent use.
type PendingCheck struct{ session *session }

// OpenPendingCheck loads the configuration and the paks. The caller must Close it.
func OpenPendingCheck(invocation Invocation) (*PendingCheck, error) {
	session := newSession(invocation, "pending-changes")
	if err := session.open(); err != nil {
		return nil, errors.New(session.secrets.Clean(err.Error())) // as in the log
	}
	return &PendingCheck{session}, nil
}

// Close releases the paks.
func (c *PendingCheck) Close() { c.session.close() }

// ErrOtherService says that an instance is one of another broker's service.
var ErrOtherService = errors.New("it is an instance of another service")

// Instance checks an instance of a broker as that has it now: with its plan, releases and stemcells. The plan is the one that the manifest
// remembers, of which the name is returned.
func (c *PendingCheck) Instance(ctx context.Context, deployed string, broker *odb.BrokerConfig) (plan string, changes []Change, err error) {
	known, err := record.FromManifest(deployed)
	ours := func(service *brokerpak.Service) bool {
		return slices.Contains([]string{"", broker.Catalog.ID, service.ID}, known.ServiceID)
	}
	switch {
	case err != nil:
		return "", nil, err
	case known == nil:
		return "", nil, fmt.Errorf("its manifest is not of this adapter: it has no record %q, so the plan is not known", record.Key)
	}
	if _, service := find(c.session.paks, ours); service == nil {
		return "", nil, ErrOtherService
	}
	current := broker.Plan(known.PlanID, known.Plan)
	if current == nil {
		return "", nil, fmt.Errorf("its plan %s is not in the broker's catalog any more", strings.TrimSpace(known.Plan+" "+known.PlanID))
	}
	changes, err = c.changes(ctx, deployed, current.JSON, &broker.Deployment)
	return current.Name, changes, err
}

// changes checks an instance with releases and stemcells, those of the manifest where they are nil.
func (c *PendingCheck) changes(
	ctx context.Context, deployed, plan string, latest *serviceadapter.ServiceDeployment,
) (changes []Change, err error) {
	// What is known of one instance is not for the others.
	own := *c.session
	own.secrets = redact.Under(c.session.secrets)
	defer func() {
		if err != nil {
			changes, err = nil, errors.New(own.secrets.Clean(err.Error())) // as in the log
		}
	}()
	defer recovered(&err)
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
	own.logger = newLogger(own.Stderr, own.secrets, logLevel(own.config.LogLevel)).With("deployment", parsed.Name)
	changes, err = own.pendingChanges(ctx, deployed, plan, deployment)
	mask(changes, own.secrets)
	return changes, err
}

// mask hides the secrets of changes, also those that only a name tells.
func mask(changes []Change, secrets *redact.Secrets) {
	for _, change := range changes {
		secrets.AddValues(map[string]any{path.Base(change.Path): []any{change.Deployed, change.Generated}})
	}
	masked := func(leaf any) (any, error) {
		text := value.Text(leaf)
		if clean := secrets.Clean(text); clean != text {
			return clean, nil
		}
		return leaf, nil
	}
	for i := range changes {
		changes[i].Deployed, _ = value.Map(changes[i].Deployed, masked)
		changes[i].Generated, _ = value.Map(changes[i].Generated, masked)
	}
}

// pendingChanges compares what is deployed with what would be generated.
func (s *session) pendingChanges(ctx context.Context, deployed, plan string, deployment serviceadapter.ServiceDeployment) ([]Change, error) {
	decoded, err := decodePlan("service plan", plan)
	if err != nil {
		return nil, err
	}
	regenerate := func() (string, error) { // as the broker does
		made, err := s.generateManifest(ctx, &manifestgen.Request{
			Deployment: deployment, BrokerPlan: decoded, PreviousPlan: &decoded, PreviousManifest: deployed, Body: map[string]any{},
		}, 0)
		if err != nil {
			return "", fmt.Errorf("generating the manifest again: %w", err)
		}
		return made.Manifest, nil
	}
	var planned provision.Planned
	s.check = func(ctx context.Context, request provision.Request) error {
		provisioner, err := s.provisioner(request.Pak)
		if err == nil {
			planned, err = provisioner.Plan(ctx, request, true)
		}
		return err
	}
	generated, err := regenerate()
	if err != nil {
		return nil, err
	}
	same, err := odb.SameManifests(deployed, generated)
	if same || err != nil {
		return resourceChanges(planned), err
	}
	s.check = func(context.Context, provision.Request) error { return nil }
	again, err := regenerate()
	if err != nil {
		return nil, err
	}
	changes, err := manifestChanges(deployed, generated, again)
	return append(changes, resourceChanges(planned)...), err
}

// manifestChanges are the places where two manifests differ. The second one was generated twice.
func manifestChanges(deployed, generated, again string) ([]Change, error) {
	known, knownErr := record.FromManifest(deployed)
	current, currentErr := record.FromManifest(generated)
	before, beforeErr := comparable(deployed)
	after, afterErr := comparable(generated)
	second, secondErr := comparable(again)
	if err := cmp.Or(knownErr, currentErr, beforeErr, afterErr, secondErr); err != nil {
		return nil, err
	}
	unstable := map[string]bool{}
	for _, change := range Diff("", after, second) {
		unstable[change.Path] = true
	}
	changes := Diff("", before, after)
	if len(changes) == 0 {
		changes = []Change{{Path: "/"}} // an empty list and none are the same as texts
	}
	for i := range changes {
		changes[i].Reason = reasonOf(changes[i].Path, unstable[changes[i].Path], known, current)
	}
	judge(changes, before, after)
	return changes, nil
}

// resourceChanges are what OpenTofu will do.
func resourceChanges(planned provision.Planned) []Change {
	reason := "OpenTofu runs with the next update: " + strings.Join(planned.Reasons, "; ")
	var changes []Change
	for _, planned := range planned.Resources {
		changes = append(changes, Change{Path: planned.Address, OpenTofu: planned.Action, Reason: reason})
	}
	if len(changes) == 0 && len(planned.Reasons) > 0 {
		changes = []Change{{Path: "outputs", OpenTofu: tfjson.Update, Reason: reason}}
	}
	judge(changes, nil, nil)
	return changes
}

// deploymentOf reconstructs the broker's configuration from the manifest: releases provide the jobs that name them.
func deploymentOf(manifest *bosh.BoshManifest) serviceadapter.ServiceDeployment {
	deployment := serviceadapter.ServiceDeployment{
		DeploymentName: manifest.Name, Releases: serviceadapter.ServiceReleases{}, Stemcells: []serviceadapter.Stemcell{},
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

// comparable is a manifest as the broker compares it, as a value.
func comparable(text string) (any, error) {
	manifest, err := odb.Compared(text)
	if err != nil {
		return nil, err
	}
	encoded, err := yaml.Marshal(manifest)
	if err != nil {
		return nil, err
	}
	var raw any
	if err := yaml.Unmarshal(encoded, &raw); err != nil {
		return nil, err
	}
	tree := value.Normalise(raw)
	showIntents(tree)
	return tree, nil
}

// showIntents puts what the errand of an instance is told in the place of its text.
func showIntents(tree any) {
	manifest, _ := tree.(map[string]any)
	for _, group := range value.Mappings(manifest["instance_groups"]) {
		for _, job := range value.Mappings(group["jobs"]) {
			properties, _ := job["properties"].(map[string]any)
			text, _ := properties["intent"].(string)
			if intent, err := value.DecodeObject([]byte(text)); err == nil && job["name"] == record.ApplyErrand {
				properties["intent"] = intent
			}
		}
	}
}

const (
	planPath = `^/instance_groups(/[^/]+(/(instances|vm_type|vm_extensions|networks|azs|persistent_disk_type|lifecycle|migrated_from)(/.*)?)?)?$`

	deploymentPath = `^/(releases|stemcells)(/.*)?$`
)

// reasonOf explains a difference as far as manifest and record tell.
func reasonOf(path string, unstable bool, known, current *record.Record) string {
	switch {
	case unstable:
		return "not deterministic: the template gives another value each time"
	case path == "/":
		return "one of them has an empty list or mapping where the other one has none"
	case known == nil:
		return "parameter lost: the deployed manifest has no record of this adapter, so values that a user or another adapter set " +
			"are not known; see carry_over"
	case regexp.MustCompile(planPath).MatchString(path):
		return "plan changed: the broker's configuration says something else now"
	case regexp.MustCompile(deploymentPath).MatchString(path):
		return "releases or stemcells changed"
	case current != nil && known.PakVersion != current.PakVersion:
		return fmt.Sprintf("template changed: the manifest was made by version %s of the pak, version %s is installed",
			known.PakVersion, current.PakVersion)
	default:
		return "template or plan changed: a plan property, a default or the operator's configuration, or the pak without a new version"
	}
}
