package adapter

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"

	"github.com/pivotal-cf/on-demand-services-sdk/bosh"
	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"
	"gopkg.in/yaml.v2"

	"service-adapter/internal/odb"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
)

// Change is a place where the manifest that the adapter makes differs from the deployed one, so that the broker refuses
// updates with "pending changes".
type Change struct {
	// Path is a path of ops files: "/instance_groups/name=redis-server/vm_type".
	Path string `json:"path"`
	// Deployed and Generated are the values; nil where there is none.
	Deployed  any `json:"deployed"`
	Generated any `json:"generated"`
	// Reason says where to look.
	Reason string `json:"reason"`
}

// PendingChanges does what the broker does before an update: it generates the manifest of a deployed instance again, without
// parameters, and compares both through the SDK's struct, update blocks ignored. The plan is the broker's JSON. Releases and
// stemcells are taken from the deployed manifest. Secrets count as unchanged.
func PendingChanges(ctx context.Context, invocation Invocation, deployed, plan string) ([]Change, error) {
	parsed, err := decodeManifest(deployed)
	if err != nil {
		return nil, fmt.Errorf("reading the deployed manifest: %w", err)
	}
	var texts [2]string
	for i := range texts {
		if texts[i], err = regenerate(ctx, invocation, parsed, deployed, plan); err != nil {
			return nil, err
		}
	}
	known, err := record.FromManifest(deployed)
	if err != nil {
		return nil, err
	}
	current, err := record.FromManifest(texts[0])
	if err != nil {
		return nil, err
	}
	trees := make([]any, 0, 3)
	for _, text := range []string{deployed, texts[0], texts[1]} {
		tree, err := comparable(text)
		if err != nil {
			return nil, err
		}
		trees = append(trees, tree)
	}
	unstable := map[string]bool{}
	for _, change := range diff("", trees[1], trees[2]) {
		unstable[change.Path] = true
	}
	changes := diff("", trees[0], trees[1])
	for i := range changes {
		changes[i].Reason = reasonOf(changes[i].Path, unstable[changes[i].Path], known, current)
	}
	return changes, nil
}

// regenerate is the broker's generate-manifest call of the check.
func regenerate(ctx context.Context, invocation Invocation, parsed *bosh.BoshManifest, deployed, plan string) (string, error) {
	input, err := odb.Input(generateManifest, map[string]any{
		"service_deployment": deploymentOf(parsed), "plan": plan, "previous_plan": plan, "previous_manifest": deployed,
		"request_parameters": "{}", "previous_secrets": "null", "previous_configs": "null", "uaa_client": "null",
	})
	if err != nil {
		return "", err
	}
	var stdout, stderr bytes.Buffer
	code := Run(ctx, Invocation{
		Args: []string{"service-adapter", generateManifest}, Stdin: bytes.NewReader([]byte(input)), Stdout: &stdout,
		Stderr: &stderr, Getenv: invocation.Getenv,
	})
	if code != 0 {
		return "", fmt.Errorf("generating the manifest again: exit code %d: %s%s", code, stdout.String(), stderr.String())
	}
	var product serviceadapter.MarshalledGenerateManifest
	if err := json.Unmarshal(stdout.Bytes(), &product); err != nil {
		return "", fmt.Errorf("generating the manifest again: %w", err)
	}
	return product.Manifest, nil
}

func decodeManifest(text string) (*bosh.BoshManifest, error) {
	var manifest bosh.BoshManifest
	if err := yaml.Unmarshal([]byte(text), &manifest); err != nil {
		return nil, err
	}
	if manifest.Name == "" {
		return nil, errors.New("it has no name")
	}
	return &manifest, nil
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

// comparable is a manifest as the broker sees it: through the SDK's struct, without update blocks.
func comparable(text string) (any, error) {
	manifest, err := decodeManifest(text)
	if err != nil {
		return nil, fmt.Errorf("reading a manifest as the broker does: %w", err)
	}
	manifest.Update = nil
	for i := range manifest.InstanceGroups {
		manifest.InstanceGroups[i].Update = nil
	}
	encoded, err := yaml.Marshal(manifest)
	if err != nil {
		return nil, err
	}
	var raw any
	if err := yaml.Unmarshal(encoded, &raw); err != nil {
		return nil, err
	}
	return value.Normalise(raw), nil
}

// diff lists the places where two values differ, in order.
func diff(path string, deployed, generated any) []Change {
	if reflect.DeepEqual(deployed, generated) {
		return nil
	}
	switch d := deployed.(type) {
	case map[string]any:
		if g, ok := generated.(map[string]any); ok {
			var changes []Change
			both := map[string]any{}
			for _, m := range []map[string]any{d, g} {
				for key := range m {
					both[key] = nil
				}
			}
			for _, key := range value.Keys(both) {
				changes = append(changes, diff(path+"/"+key, d[key], g[key])...)
			}
			return changes
		}
	case []any:
		if g, ok := generated.([]any); ok && len(d) == len(g) {
			var changes []Change
			for i := range d {
				changes = append(changes, diff(path+"/"+element(d[i], i), d[i], g[i])...)
			}
			return changes
		}
	}
	return []Change{{Path: path, Deployed: deployed, Generated: generated}}
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
