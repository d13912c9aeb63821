package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"

	. "github.com/onsi/gomega" //nolint:staticcheck // gomega is designed for dot imports
	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/internal/odb"
	"service-adapter/spec/kit/broker"
	"service-adapter/spec/kit/process"
)

// The commands of the broker's protocol, and the jobs of the errands.
const (
	generateManifest = "generate-manifest"
	createBinding    = "create-binding"
	deleteBinding    = "delete-binding"
	applyInstance    = "apply-instance"
	destroyInstance  = "destroy-instance"
)

// A machine runs an adapter with its own configuration, cache directory and audit log.
type machine struct {
	trial  *trial
	dir    string
	config object
}

// newMachine creates a machine. Its configuration contains the prepared directories if they exist.
func (t *trial) newMachine(name string) *machine {
	m := &machine{trial: t, dir: filepath.Join(t.dir, name), config: object{}}
	for _, dir := range []string{m.control(), filepath.Join(m.dir, "tmp")} {
		Expect(os.MkdirAll(dir, 0o700)).To(Succeed())
	}
	settings := object{
		"paks": []string{t.laboratory.pak}, "secure_manifests": true, "state": t.store.config(),
		"cache_dir": m.cache(), "audit_log": m.auditLog(), "config": object{"entries.path": t.entries},
		"services": object{
			"plain":    object{"bind_defaults": object{"path": t.entries}},
			"provided": object{"bind_defaults": object{"path": t.entries}},
		},
	}
	if t.store.warm != "" {
		settings["prepared_dir"] = t.store.warm
	}
	m.set(settings)
	return m
}

// cache returns the directory of the adapter's cache. The functions below return further paths of the machine.
func (m *machine) cache() string    { return filepath.Join(m.dir, "cache") }
func (m *machine) control() string  { return filepath.Join(m.dir, "control") }
func (m *machine) auditLog() string { return filepath.Join(m.dir, "audit.log") }
func (m *machine) intent() string   { return filepath.Join(m.dir, "intent.json") }
func (m *machine) file() string     { return filepath.Join(m.dir, "service-adapter.yml") }

// set replaces keys of the configuration and writes it.
func (m *machine) set(keys object) {
	maps.Copy(m.config, keys)
	text, err := json.Marshal(m.config) // JSON is valid YAML
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(m.file(), text, 0o600)).To(Succeed())
}

// begin starts a command of the adapter in the background.
func (m *machine) begin(stdin string, arguments ...string) *process.Running {
	adapter := broker.Adapter{
		Path: m.trial.laboratory.adapter, Dir: m.dir,
		Env: []string{
			"SERVICE_ADAPTER_CONFIG=" + m.file(), "TMPDIR=" + filepath.Join(m.dir, "tmp"),
			"PATH=/usr/bin:/bin",
		},
	}
	return process.Start(adapter, nil, stdin, arguments...)
}

// call starts a command of the protocol in the background.
func (m *machine) call(command string, parameters object) *process.Running {
	input, err := odb.Input(command, parameters)
	Expect(err).NotTo(HaveOccurred())
	return m.begin(input, command)
}

// The ids of the services and plans of the pak.
const (
	plainService    = "0b6a9c1e-6f0b-4c57-9a52-0d3c8f1b7f01"
	plainPlan       = "0b6a9c1e-6f0b-4c57-9a52-0d3c8f1b7f11"
	providedService = "0b6a9c1e-6f0b-4c57-9a52-0d3c8f1b7f02"
	providedPlan    = "0b6a9c1e-6f0b-4c57-9a52-0d3c8f1b7f12"
)

// A provisioning is a way in which the provision template of an instance is applied.
type provisioning string

// The ways of provisioning.
const (
	withoutTemplate provisioning = "without"
	byRequest       provisioning = "request" // by generate-manifest
	byErrand        provisioning = "errand"
)

// newInstance returns a service instance that has not been deployed.
func newInstance(id string, by provisioning) *odb.Instance {
	group := object{
		"name": "server", "vm_type": "small", "instances": 1, "networks": []string{"default"}, "azs": []string{"z1"},
	}
	i := &odb.Instance{
		ID: id, ServiceID: providedService, PlanID: providedPlan,
		Plan: object{"properties": object{}, "lifecycle_errands": object{}, "instance_groups": []any{}},
		Deployment: serviceadapter.ServiceDeployment{
			DeploymentName: "service-instance_" + id,
			Releases: serviceadapter.ServiceReleases{
				{Name: "server", Version: "1.2.3", Jobs: []string{"server"}},
				{Name: "service-adapter", Version: "1.0.0", Jobs: []string{applyInstance, destroyInstance}},
			},
			Stemcells: []serviceadapter.Stemcell{{OS: "ubuntu-noble", Version: "1.1"}},
		},
	}
	switch by {
	case withoutTemplate:
		i.ServiceID, i.PlanID, i.Plan["instance_groups"] = plainService, plainPlan, []any{group}
		i.VMs = map[string][]string{"server": {"10.0.8.5"}}
	case byErrand:
		group["name"], group["lifecycle"] = "errands", "errand"
		i.Plan["instance_groups"] = []any{group}
		i.Plan["lifecycle_errands"] = object{
			"post_deploy": []any{object{"name": applyInstance}}, "pre_delete": []any{object{"name": destroyInstance}},
		}
	case byRequest:
	}
	return i
}
