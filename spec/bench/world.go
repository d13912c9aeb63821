package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/internal/odb"
	"service-adapter/spec/kit/servers"
)

// object is a JSON object.
type object = map[string]any

// s3Key is the name of each state in s3, below the name of its workspace.
const s3Key = "state"

// tofuVersion is the version of OpenTofu that is measured.
const tofuVersion = "1.12.6"

// adapter returns the path of the adapter to measure.
func (b *bench) adapter() string { return filepath.Join(b.root, "build", "bin", "service-adapter") }

// tofu returns the path of OpenTofu.
func (b *bench) tofu() string { return filepath.Join(b.root, "build", "tofu", tofuVersion, "tofu") }

// provider returns the path of the templates' provider: the provider of the tests, or a copy of it that is as large as
// public providers.
func (b *bench) provider() string {
	if b.heavy != "" {
		return b.heavy
	}
	return filepath.Join(b.root, "build", "providers", "terraform-provider-directory")
}

// A site is an adapter with its own configuration and one service instance.
type site struct {
	*odb.Instance
	bench   *bench
	dir     string
	config  object
	backend string
	server  *servers.Server // of the backend, nil for local
	schema  string          // the schema in pg, or the bucket in s3
	stored  int             // the number of bindings before the first run
	tree    bool            // whether the memory of all processes is measured
}

// newSite returns a site that serves a pak, with an instance that has not been deployed. It returns an error if a file
// cannot be written.
func (b *bench) newSite(pak, service, plan string, groups ...string) (*site, error) {
	dir, err := os.MkdirTemp(b.dir, "s")
	if err != nil {
		return nil, err
	}
	var list []any
	for _, group := range groups {
		list = append(list, object{
			"name": group, "vm_type": "small", "instances": 1, "networks": []string{"default"},
			"azs": []string{"z1"},
		})
	}
	s := &site{bench: b, dir: dir, backend: local, Instance: &odb.Instance{
		ID: "instance", ServiceID: service, PlanID: plan, VMs: map[string][]string{groups[0]: {"10.0.8.5"}},
		Plan: object{"properties": object{}, "lifecycle_errands": object{}, "instance_groups": list},
		Deployment: serviceadapter.ServiceDeployment{
			DeploymentName: "service-instance_instance",
			Releases: serviceadapter.ServiceReleases{{
				Name: "server", Version: "1.2.3",
				Jobs: append([]string{"health-check"}, groups...),
			}},
			Stemcells: []serviceadapter.Stemcell{{OS: "ubuntu-noble", Version: "1.1"}},
		},
	}}
	s.config = object{
		"paks": []string{pak}, "secure_manifests": true, "cache_dir": filepath.Join(dir, "cache"),
		"state": object{"config": object{"dir": filepath.Join(dir, "state")}},
	}
	return s, s.save()
}

// save writes the configuration as JSON, which is valid YAML.
func (s *site) save() error {
	text, err := json.Marshal(s.config)
	if err != nil {
		return err
	}
	return os.WriteFile(s.configFile(), text, 0o600)
}

// configFile returns the path of the adapter's configuration.
func (s *site) configFile() string { return filepath.Join(s.dir, "service-adapter.yml") }

// call returns a run of the adapter with a command of the protocol. The error means that the parameters cannot be
// encoded.
func (s *site) call(command string, parameters object) (program, error) {
	input, err := odb.Input(command, parameters)
	starts := command != "generate-manifest"
	return program{
		bench: s.bench, path: s.bench.adapter(), args: []string{command}, stdin: input, env: s.env(),
		dir: s.dir, starts: starts, tree: s.tree,
	}, err
}

// env returns the environment of the adapter.
func (s *site) env() []string {
	return []string{"PATH=/usr/bin:/bin", "SERVICE_ADAPTER_CONFIG=" + s.configFile(), "TMPDIR=" + s.dir}
}

// body returns the body of a request that creates or updates the instance.
func (s *site) body(parameters object) object {
	return object{
		"context": object{"platform": "cloudfoundry"}, "organization_guid": "org", "space_guid": "space",
		"service_id": s.ServiceID, "plan_id": s.PlanID, "parameters": parameters,
	}
}

// deploy creates the instance. It returns an error if the adapter fails.
func (s *site) deploy(ctx context.Context, parameters object) error {
	call, err := s.call("generate-manifest", s.Generate(s.body(parameters)))
	if err != nil {
		return err
	}
	got, err := call.run(ctx)
	if err != nil {
		return err
	}
	return s.Deploy(got.stdout)
}

// bind and unbind return the calls for a binding.
func (s *site) bind(id string) (program, error) {
	return s.call("create-binding", s.Bind(id, object{
		"app_guid": "app", "bind_resource": object{"app_guid": "app"}, "context": object{"platform": "cloudfoundry"},
		"parameters": object{}, "plan_id": s.PlanID, "service_id": s.ServiceID,
	}))
}

// unbind returns the call that deletes a binding.
func (s *site) unbind(id string) (program, error) {
	return s.call("delete-binding", s.Bind(id, object{"plan_id": s.PlanID, "service_id": s.ServiceID}))
}

// The ids of a pak's only service and plan.
const (
	serviceID = "0b6a9c1e-6f0b-4c57-9a52-0d3c8f1b7e01"
	planID    = "0b6a9c1e-6f0b-4c57-9a52-0d3c8f1b7e11"
)

// bindSite returns a site with a deployed instance. Its bindings are created by a template. It returns an error if a
// file cannot be written or the adapter fails.
func (b *bench) bindSite(ctx context.Context, template, backend string, encrypted bool) (*site, error) {
	b.sites++
	name := fmt.Sprint("site", b.sites)
	pak, err := b.bindPak(name, template)
	if err != nil {
		return nil, err
	}
	s, err := b.newSite(pak, serviceID, planID, "server")
	if err != nil {
		return nil, err
	}
	if s.server, err = b.server(ctx, backend); err != nil {
		return nil, err
	}
	s.backend, s.schema = backend, name
	state := object{"config": object{"dir": filepath.Join(s.dir, "state")}}
	switch backend {
	case pg:
		state = object{"type": pg, "config": object{"conn_str": s.server.DSN("adapter"), "schema_name": name}}
	case s3:
		state = object{"type": s3, "config": object{
			"bucket": name, "key": s3Key, "region": "us-east-1", "access_key": s.server.User,
			"secret_key": s.server.Password,
			"endpoints":  object{"s3": s.server.URL()}, "use_path_style": true, "skip_credentials_validation": true,
			"skip_requesting_account_id": true, "skip_region_validation": true, "skip_metadata_api_check": true,
		}}
		if err := s.server.CreateBucket(name); err != nil {
			return nil, err
		}
	}
	if encrypted {
		state["encryption"] = object{"key": []byte("0123456789abcdef0123456789abcdef")}
	}
	s.config["state"] = state
	if err := s.save(); err != nil {
		return nil, err
	}
	return s, s.deploy(ctx, nil)
}

// binds creates binding n, and unbinds deletes it.
func (s *site) binds(ctx context.Context, n int) (sample, error) {
	call, err := s.bind(fmt.Sprint("b", n))
	if err != nil {
		return sample{}, err
	}
	return call.run(ctx)
}

// unbinds deletes binding n.
func (s *site) unbinds(ctx context.Context, n int) (sample, error) {
	call, err := s.unbind(fmt.Sprint("b", n))
	if err != nil {
		return sample{}, err
	}
	return call.run(ctx)
}

// bindPak writes a pak whose bindings are created by a template, and returns its directory. It returns an error if a
// file cannot be written.
func (b *bench) bindPak(name, template string) (string, error) {
	dir := filepath.Join(b.dir, "pak-"+name)
	bin := filepath.Join(dir, "bin", runtime.GOOS, runtime.GOARCH)
	if err := os.MkdirAll(filepath.Join(bin, tofuVersion), 0o755); err != nil {
		return "", err
	}
	links := map[string]string{
		filepath.Join(bin, tofuVersion, "tofu"):                   b.tofu(),
		filepath.Join(bin, "terraform-provider-directory_v1.0.0"): b.provider(),
	}
	for link, target := range links {
		if err := os.Symlink(target, link); err != nil && !os.IsExist(err) {
			return "", err
		}
	}
	outputs := "  - {field_name: account, type: string, details: The account}\n"
	if template == external {
		outputs += "  - {field_name: secret, type: string, details: The secret}\n"
	}
	return dir, writeAll(dir, map[string]string{
		"bind.tf":      template,
		"manifest.yml": fmt.Sprintf(pakManifest, name, "[server.yml]"),
		"server.yml": fmt.Sprintf(definition, "server", serviceID, planID) + `bind:
  user_inputs: [{field_name: path, type: string, default: "` + b.dir + `", details: A directory}]
  computed_inputs: [{name: name, type: string, default: '${request.binding_id}', overwrite: true}]
  template_refs: {main: bind.tf}
  outputs:
` + outputs,
	})
}

// writeAll writes files, given as texts by name.
func writeAll(dir string, files map[string]string) error {
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text),
			0o644); err != nil { //nolint:gosec // they contain no secrets
			return err
		}
	}
	return nil
}

// pakManifest is the manifest of a pak, as a format for its name and the list of its service definitions.
const pakManifest = `packversion: 1
name: %s
version: 0.1.0
platforms: [{os: ` + runtime.GOOS + `, arch: ` + runtime.GOARCH + `}]
terraform_binaries:
- {name: tofu, version: ` + tofuVersion + `, default: true}
- {name: terraform-provider-directory, version: 1.0.0, provider: registry.terraform.io/service-adapter/directory}
service_definitions: %s
`

// definition is the beginning of a service definition, as a format for the name and the ids of the service and the
// plan.
const definition = `version: 1
name: %s
id: %s
description: A server
display_name: Server
image_url: https://example.com/server.png
documentation_url: https://example.com/server
support_url: https://example.com/support
plan_updateable: true
plans:
- {name: standard, id: %s, description: One server, display_name: Standard}
provision:
  bosh:
    manifest: |
      stemcells: [{alias: default}]
      instance_groups: [{name: server, jobs: [{name: server}]}]
`

// The templates of bindings: with a resource of OpenTofu itself, and with a resource of a provider.
const (
	builtIn = `variable "name" { type = string }
resource "terraform_data" "account" { input = var.name }
output "account" { value = terraform_data.account.output }
`
	external = `terraform {
  required_providers {
    directory = { source = "registry.terraform.io/service-adapter/directory" }
  }
}
variable "path" { type = string }
variable "name" { type = string }
resource "directory_entry" "account" {
  path = var.path
  name = var.name
}
output "account" { value = directory_entry.account.name }
output "secret" {
  value     = directory_entry.account.secret
  sensitive = true
}
`
)
