package adapter

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pivotal-cf/on-demand-services-sdk/bosh"
	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"
	"gopkg.in/yaml.v2"

	"service-adapter/internal/odb"
	"service-adapter/internal/provision"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
)

// Change is a place where the manifest that the adapter makes differs from the deployed one, so that the broker refuses updates with
// "pending changes"; or something that OpenTofu will do with the next update, for which the broker does not refuse it.
type Change struct {
	// Path is a path of ops files: "/instance_groups/name=redis-server/vm_type"; for OpenTofu, the address of a resource, or
	// "outputs" where it changes no resource.
	Path string `json:"path"`
	// Deployed and Generated are the values; nil where there is none, and for OpenTofu.
	Deployed  any `json:"deployed"`
	Generated any `json:"generated"`
	// OpenTofu is what it will do to the resource: create, change, destroy or replace; "" for the manifest.
	OpenTofu string `json:"opentofu,omitempty"`
	// Reason says where to look.
	Reason string `json:"reason"`
}

// PendingChanges does what the broker does before an update: it generates the manifest of a deployed instance again, without
// parameters, and compares both through the SDK's struct, update blocks ignored. What the next update changes of that which a provision
// template made, OpenTofu tells. The plan is the broker's JSON. Releases and stemcells are those of the deployment; where it is nil, those
// of the deployed manifest. Secrets count as unchanged.
func PendingChanges(
	ctx context.Context, invocation Invocation, deployed, plan string, deployment *serviceadapter.ServiceDeployment,
) ([]Change, error) {
	parsed, err := odb.Compared(deployed)
	if err == nil && parsed.Name == "" {
		err = errors.New("it has no name")
	}
	if err != nil {
		return nil, fmt.Errorf("reading the deployed manifest: %w", err)
	}
	if deployment == nil {
		made := deploymentOf(parsed)
		deployment = &made
	}
	call := newCall(Invocation{Args: []string{"service-adapter", "pending-changes"}, Stderr: invocation.Stderr, Getenv: invocation.Getenv})
	var changes []Change
	err = call.withSession(func(s *session) (err error) {
		changes, err = pendingCheck{s, *deployment}.pendingChanges(ctx, deployed, plan)
		return err
	})
	if err != nil {
		return nil, errors.New(call.secrets.Clean(err.Error())) // as in the log
	}
	return changes, nil
}

// pendingCheck compares what is deployed with what would be generated.
type pendingCheck struct {
	*session
	deployment serviceadapter.ServiceDeployment
}

func (s pendingCheck) pendingChanges(ctx context.Context, deployed, plan string) ([]Change, error) {
	planned := &provision.Planned{}
	s.check = func(ctx context.Context, request provision.Request) error {
		provisioner, err := s.provisioner(request.Pak)
		if err == nil {
			planned, err = provisioner.Plan(ctx, request)
		}
		return err
	}
	generated, err := s.regenerate(ctx, deployed, plan)
	if err != nil {
		return nil, err
	}
	s.check = func(context.Context, provision.Request) error { return nil }
	again, err := s.regenerate(ctx, deployed, plan)
	if err != nil {
		return nil, err
	}
	changes, err := manifestChanges(deployed, generated, again)
	return append(changes, resourceChanges(planned)...), err
}

// manifestChanges are the places where two manifests differ. The second one was generated twice.
func manifestChanges(deployed, generated, again string) ([]Change, error) {
	known, err := record.FromManifest(deployed)
	if err != nil {
		return nil, err
	}
	current, err := record.FromManifest(generated)
	if err != nil {
		return nil, err
	}
	trees := make([]any, 0, 3)
	for _, text := range []string{deployed, generated, again} {
		tree, err := comparable(text)
		if err != nil {
			return nil, err
		}
		trees = append(trees, tree)
	}
	unstable := map[string]bool{}
	for _, change := range Diff("", trees[1], trees[2]) {
		unstable[change.Path] = true
	}
	changes := Diff("", trees[0], trees[1])
	for i := range changes {
		changes[i].Reason = reasonOf(changes[i].Path, unstable[changes[i].Path], known, current)
	}
	return changes, nil
}

// resourceChanges are what OpenTofu will do.
func resourceChanges(planned *provision.Planned) []Change {
	reason := "OpenTofu runs with the next update: " + strings.Join(planned.Reasons, "; ")
	var changes []Change
	for _, address := range slices.Sorted(maps.Keys(planned.Resources)) {
		changes = append(changes, Change{Path: address, OpenTofu: string(planned.Resources[address]), Reason: reason})
	}
	if len(changes) == 0 && len(planned.Reasons) > 0 {
		changes = []Change{{Path: "outputs", OpenTofu: string(provision.Change), Reason: reason}}
	}
	return changes
}

// regenerate is the broker's generate-manifest call of the check.
func (s pendingCheck) regenerate(ctx context.Context, deployed, plan string) (string, error) {
	decoded, err := decodePlan("service plan", plan)
	if err != nil {
		return "", err
	}
	made, err := s.generateManifest(ctx, manifestInput{
		deployment: s.deployment, plan: decoded, previousPlan: decoded, previousManifest: deployed, body: map[string]any{},
	})
	if err != nil {
		return "", fmt.Errorf("generating the manifest again: %w", err)
	}
	return made.Manifest, nil
}

// deploymentOf reconstructs the broker's configuration from the manifest: releases provide the jobs that name them.
func deploymentOf(manifest *bosh.BoshManifest) serviceadapter.ServiceDeployment {
	deployment := serviceadapter.ServiceDeployment{
		DeploymentName: manifest.Name, Releases: serviceadapter.ServiceReleases{}, Stemcells: []serviceadapter.Stemcell{},
	}
	jobs := map[string][]string{}
	add := func(list []bosh.Job) {
		for _, job := range list {
			if !slices.Contains(jobs[job.Release], job.Name) {
				jobs[job.Release] = append(jobs[job.Release], job.Name)
			}
		}
	}
	for _, group := range manifest.InstanceGroups {
		add(group.Jobs)
	}
	for _, addon := range manifest.Addons {
		add(addon.Jobs)
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

// Diff lists the places where two values differ, in order.
func Diff(path string, deployed, generated any) []Change {
	if reflect.DeepEqual(deployed, generated) {
		return nil
	}
	switch d := deployed.(type) {
	case map[string]any:
		if g, ok := generated.(map[string]any); ok {
			var changes []Change
			for _, key := range value.Keys(value.Merge(d, g)) {
				changes = append(changes, Diff(path+"/"+key, d[key], g[key])...)
			}
			return changes
		}
	case []any:
		g, ok := generated.([]any)
		before, after := byName(d), byName(g)
		switch {
		case ok && before != nil && after != nil && !slices.Equal(value.Keys(before), value.Keys(after)):
			return Diff(path, before, after)
		case ok && len(d) == len(g):
			var changes []Change
			for i := range d {
				changes = append(changes, Diff(path+"/"+element(d[i], i), d[i], g[i])...)
			}
			return changes
		}
	}
	return []Change{{Path: path, Deployed: deployed, Generated: generated}}
}

// byName are the entries of a list as ops files name them; nil where not each has a name of its own.
func byName(list []any) map[string]any {
	named := map[string]any{}
	for i, item := range list {
		name := element(item, i)
		if _, taken := named[name]; taken || !strings.HasPrefix(name, "name=") {
			return nil
		}
		named[name] = item
	}
	return named
}

// element names an entry of a list as ops files do.
func element(item any, index int) string {
	if entry, ok := item.(map[string]any); ok {
		if name, ok := entry["name"].(string); ok {
			return "name=" + name
		}
	}
	return strconv.Itoa(index)
}

const (
	planPath = `^/instance_groups(/[^/]+/(instances|vm_type|vm_extensions|networks|azs|persistent_disk_type|lifecycle|migrated_from)(/.*)?)?$`

	deploymentPath = `^/(releases|stemcells)(/.*)?$`
)

// reasonOf explains a difference as far as manifest and record tell.
func reasonOf(path string, unstable bool, known, current *record.Record) string {
	switch {
	case unstable:
		return "not deterministic: the template gives another value each time"
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
