package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"
)

const (
	redisService = "8a3a9c1e-6f0b-4c57-9a52-0d3c8f1b7e01"
	redisPlan    = "8a3a9c1e-6f0b-4c57-9a52-0d3c8f1b7e11"
)

// manifests compares generate-manifest with an empty program and with the least adapter on the SDK.
func manifests(ctx context.Context, b *bench) ([]Figure, error) {
	for _, name := range []string{"empty", "minimal"} {
		build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", //nolint:gosec // constant names
			"-o", filepath.Join(b.dir, name), "./spec/bench/"+name)
		build.Dir, build.Env = b.root, append(os.Environ(), "CGO_ENABLED=0")
		if output, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("building %s: %w: %s", name, err, output)
		}
	}
	redis, err := b.newSite(filepath.Join(b.root, "examples", "redis"), redisService, redisPlan, "redis-server")
	if err != nil {
		return nil, err
	}
	redis.Deployment.Releases = serviceadapter.ServiceReleases{{Name: "redis", Version: "18.7.1", Jobs: []string{"redis-server", "health-check"}}}
	large, err := b.largeSite()
	if err != nil {
		return nil, err
	}
	var figures []Figure
	for _, c := range []struct {
		name       string
		site       *site
		parameters object
	}{
		{"redis", redis, object{"maxclients": 500}},
		{"200 inputs, 3,000 lines, 1 MB manifest", large, nil},
	} {
		for _, step := range []string{"create", "update"} {
			found, err := b.generate(ctx, c.name+", "+step, c.site, c.parameters)
			if err != nil {
				return nil, err
			}
			figures = append(figures, found...)
			if step == "create" {
				if err := c.site.deploy(ctx, c.parameters); err != nil {
					return nil, err
				}
			}
		}
	}
	return figures, nil
}

// generate measures one call of generate-manifest: a creation, or the update of what is deployed.
func (b *bench) generate(ctx context.Context, name string, s *site, parameters object) ([]Figure, error) {
	ours, err := s.call("generate-manifest", s.Generate(s.body(parameters)))
	if err != nil {
		return nil, err
	}
	minimal, empty := ours, ours
	minimal.path, empty.path = filepath.Join(b.dir, "minimal"), filepath.Join(b.dir, "empty")
	once := func(p program) side { return func(ctx context.Context, _ int) (sample, error) { return p.run(ctx) } }
	medians, err := compare(ctx, b.runs(40, 5), once(ours), once(minimal), once(empty))
	if err != nil {
		return nil, err
	}
	return []Figure{
		figure("generate-manifest, "+name, medians[0], "the least adapter on the SDK", medians[1]),
		figure("generate-manifest, "+name, medians[0], "an empty program", medians[2]),
	}, nil
}

// largeSite serves a service with 200 inputs and a manifest template of 3,000 lines.
func (b *bench) largeSite() (*site, error) {
	dir := filepath.Join(b.dir, "pak-large")
	var inputs, properties strings.Builder
	for n := range 200 {
		fmt.Fprintf(&inputs, "  - {field_name: input_%d, type: string, default: %s, details: An input}\n", n, strings.Repeat("value-", 55))
	}
	for n := range 3000 - 6 {
		fmt.Fprintf(&properties, "      property_%d: ((input_%d))\n", n, n%200)
	}
	text := strings.Replace(fmt.Sprintf(definition, "large", serviceID, planID), "provision:\n", "provision:\n  user_inputs:\n"+inputs.String(), 1)
	head, _, _ := strings.Cut(text, "    manifest: |\n")
	if err := errors.Join(os.MkdirAll(dir, 0o755), writeAll(dir, map[string]string{
		"manifest.yml": fmt.Sprintf(pakManifest, "large", "[large.yml]"),
		"large.yml":    head + "    manifest_ref: template.yml\n",
		"template.yml": "stemcells: [{alias: default}]\ninstance_groups:\n- name: server\n  jobs:\n  - name: server\n    properties:\n" +
			properties.String(),
	})); err != nil {
		return nil, err
	}
	return b.newSite(dir, serviceID, planID, "server")
}
