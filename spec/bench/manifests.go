package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/spec/bench/figures"
)

// The ids of the service and the plan of the pak redis.
const (
	redisService = "8a3a9c1e-6f0b-4c57-9a52-0d3c8f1b7e01"
	redisPlan    = "8a3a9c1e-6f0b-4c57-9a52-0d3c8f1b7e11"
)

// manifests compares generate-manifest with an empty program and with the smallest adapter that the SDK allows.
func manifests(ctx context.Context, b *bench) ([]figures.Figure, error) {
	if err := b.build(ctx, "empty", "minimal"); err != nil {
		return nil, err
	}
	redis, err := b.newSite(filepath.Join(b.root, "spec", "parity", "pak"), redisService, redisPlan, "redis-server")
	if err != nil {
		return nil, err
	}
	redis.Deployment.Releases = serviceadapter.ServiceReleases{{
		Name: "redis", Version: "18.7.1",
		Jobs: []string{"redis-server", "health-check"},
	}}
	large, err := b.largeSite()
	if err != nil {
		return nil, err
	}
	found, err := b.generate(ctx, "redis", redis, object{"maxclients": 500}, figures.Goal{Ratio: 4})
	if err != nil {
		return nil, err
	}
	more, err := b.generate(ctx, "200 inputs, 3,000 lines, 1 MB manifest", large, nil, figures.Goal{More: 60})
	if err == nil && len(large.Manifest) < 1<<20 {
		err = fmt.Errorf("the large manifest has only %d bytes", len(large.Manifest))
	}
	return append(found, more...), err
}

// generate measures generate-manifest for the creation of an instance and for an update without changes.
func (b *bench) generate(ctx context.Context, name string, s *site, parameters object,
	goal figures.Goal,
) ([]figures.Figure, error) {
	var found []figures.Figure
	for _, step := range []string{"create", "update"} {
		ours, err := s.call("generate-manifest", s.Generate(s.body(parameters)))
		if err != nil {
			return nil, err
		}
		minimal, empty := ours, ours
		minimal.path, empty.path = b.built("minimal"), b.built("empty")
		once := func(p program) side { return func(ctx context.Context, _ int) (sample, error) { return p.run(ctx) } }
		got, err := compare(ctx, b.runs(40, 5), once(ours), once(minimal), once(empty))
		if err != nil {
			return nil, err
		}
		title := "generate-manifest, " + name + ", " + step
		found = append(found, against(title, got[0], "the least adapter on the SDK", got[1], &goal),
			against(title, got[0], "an empty program", got[2], nil))
		if step == "create" {
			if err := s.deploy(ctx, parameters); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

// largeSite returns a site whose service has 200 inputs and a manifest template of 3,000 lines.
func (b *bench) largeSite() (*site, error) {
	dir := filepath.Join(b.dir, "pak-large")
	var inputs, properties strings.Builder
	for n := range 200 {
		fmt.Fprintf(&inputs, "  - {field_name: input_%d, type: string, default: %s, details: An input}\n", n,
			strings.Repeat("value-", 55))
	}
	for n := range 3000 - 6 {
		fmt.Fprintf(&properties, "      property_%d: ((input_%d))\n", n, n%200)
	}
	text := strings.Replace(fmt.Sprintf(definition, "large", serviceID, planID), "provision:\n",
		"provision:\n  user_inputs:\n"+inputs.String(), 1)
	head, _, _ := strings.Cut(text, "    manifest: |\n")
	if err := errors.Join(os.MkdirAll(dir, 0o755), writeAll(dir, map[string]string{
		"manifest.yml": fmt.Sprintf(pakManifest, "large", "[large.yml]"),
		"large.yml":    head + "    manifest_ref: template.yml\n",
		"template.yml": "stemcells: [{alias: default}]\ninstance_groups:\n- name: server\n  jobs:\n  - name: server\n" +
			"    properties:\n" +
			properties.String(),
	})); err != nil {
		return nil, err
	}
	return b.newSite(dir, serviceID, planID, "server")
}
