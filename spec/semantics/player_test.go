package semantics_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"service-adapter/adapter"
	"service-adapter/brokerpak"
	"service-adapter/internal/value"
)

// exitNotFound is the exit code of delete-binding when there is no such binding.
const exitNotFound = 41

// outcome is what became of a step.
type outcome struct {
	// err is why it was refused or failed, nil when it was done.
	err error
	// exit is the exit code of the adapter where it was called.
	exit        int
	credentials map[string]any
}

// verdict is what became of a case: every difference by step.
type verdict struct {
	differences []string
	leftOut     []string // operations that the broker never passes on to an adapter
}

// player plays one case after the other in a directory of its own.
type player struct {
	dir       string
	instances *instances
}

// operatorEnv is the environment in which the reference broker ran, for the sake of env() and config().
var operatorEnv = map[string]string{
	"ORACLE_SET": "env value", "ORACLE_EMPTY": "", "ORACLE_SPACES": "  sp ", "ORACLE_MAPPED": " mapped value\n",
	// Must not reach a template: a variable of it that nobody set is null.
	"TF_VAR_oracle_tfvar": "from the environment", "TF_VAR_oracle_param": "from a parameter",
}

const manifest = `packversion: 1
name: recorded
version: 1.0.0
platforms: [{os: %s, arch: %s}]
terraform_binaries: [{name: tofu, version: %s}]
service_definitions: [service.yml]
parameters: [{name: TF_VAR_oracle_param, description: reaches the environment of OpenTofu}]
env_config_mapping: {ORACLE_MAPPED: oracle.mapped, ORACLE_EMPTY: oracle.empty}
`

// configuration is the operator's. The keys of config are settings of the reference broker itself, which config() finds there.
const configuration = `paks: [%s]
state: {type: local, config: {dir: %s}}
cache_dir: %s
config: {db.port: 3306, db.custom_certs.tls_skip_verify: false}
log_level: warn
`

// newPlayer makes a pak whose service definition changes with each case, and the operator's configuration.
func newPlayer(root string, number int, instances *instances) (*player, error) {
	p := &player{dir: filepath.Join(root, fmt.Sprint(number)), instances: instances}
	bin := filepath.Join(p.pak(), "bin", runtime.GOOS, runtime.GOARCH, tofuVersion)
	return p, errors.Join(
		os.MkdirAll(bin, 0o700),
		os.Symlink(tofuBinary(), filepath.Join(bin, "tofu")),
		os.WriteFile(filepath.Join(p.pak(), "manifest.yml"), fmt.Appendf(nil, manifest, runtime.GOOS, runtime.GOARCH, tofuVersion), 0o600),
		os.WriteFile(p.config(), fmt.Appendf(nil, configuration, p.pak(), stateDir(root), cacheDir(root)), 0o600),
	)
}

func (p *player) pak() string    { return filepath.Join(p.dir, "pak") }
func (p *player) config() string { return filepath.Join(p.dir, "service-adapter.yml") }

// getenv is the environment of a case.
func (p *player) getenv(c recorded) func(string) (string, bool) {
	return func(name string) (string, bool) {
		if name == adapter.ConfigVariable {
			return p.config(), true
		}
		if text, ok := c.Env[name]; ok {
			return text, true
		}
		text, ok := operatorEnv[name]
		return text, ok
	}
}

// play plays the steps of a case.
func (p *player) play(ctx context.Context, c recorded) verdict {
	var v verdict
	if err := os.WriteFile(filepath.Join(p.pak(), "service.yml"), []byte(c.Definition), 0o600); err != nil {
		return verdict{differences: []string{err.Error()}}
	}
	pak, err := brokerpak.Open(p.pak())
	if err != nil {
		// The reference broker reads a definition when it starts, and evaluates it when a request needs it. Here a definition
		// with faults is never used: no request is accepted.
		for i := range c.Steps {
			v.add(c, i, c.compare(i, outcome{err: err, exit: 1}))
		}
		return v
	}
	i := &instance{recorded: c, pak: pak, service: pak.Services[0], getenv: p.getenv(c)}
	if !i.service.HasInstances() {
		// The reference broker answers for a service without anything to make; here there must be a deployment.
		i.service.Provision.Bosh = &brokerpak.Bosh{Manifest: brokerpak.Document{Text: "instance_groups: []\n"}}
	}
	for number, s := range c.Steps {
		var got outcome
		switch {
		case s.Op == "get_binding" || s.Op == "get_instance" || s.Op == "deprovision":
			v.leftOut = append(v.leftOut, s.Op)
			continue
		case s.Op == "provision" || s.Op == "update":
			got.err = p.instances.request(ctx, i, s)
		case i.manifest == "":
			v.leftOut = append(v.leftOut, s.Op)
			continue
		case s.Op == "bind":
			got = p.bind(ctx, i, s)
		case s.Op == "unbind":
			got = p.unbind(ctx, i)
		}
		v.add(c, number, c.compare(number, got))
	}
	return v
}

func (v *verdict) add(c recorded, number int, difference string) {
	if difference != "" {
		v.differences = append(v.differences, fmt.Sprintf("step %d, %s: %s", number, c.Steps[number].Op, difference))
	}
}

// bind calls create-binding.
func (p *player) bind(ctx context.Context, i *instance, s step) outcome {
	got, product := p.call(ctx, i, "create-binding", i.body(s))
	if got.err != nil {
		return got
	}
	answer, err := value.DecodeObject(product)
	if err != nil {
		return outcome{err: fmt.Errorf("decoding %q: %w", product, err)}
	}
	got.credentials, _ = answer["credentials"].(map[string]any)
	return got
}

// unbind calls delete-binding. The request has no body in the Open Service Broker API; the on-demand broker gives the adapter its
// query. Its plan is the last one of the service, which differs from the bind's in the case about that.
func (p *player) unbind(ctx context.Context, i *instance) outcome {
	plan := i.service.Plans[len(i.service.Plans)-1]
	got, _ := p.call(ctx, i, "delete-binding", fmt.Sprintf(`{"service_id": %q, "plan_id": %q}`, i.service.ID, plan.ID))
	return got
}

// call runs a command of the adapter as the broker does.
func (p *player) call(ctx context.Context, i *instance, command, body string) (outcome, []byte) {
	parameters := map[string]any{
		"binding_id": i.ID, "bosh_vms": "{}", "manifest": i.manifest, "request_parameters": body,
	}
	stdin := value.MustJSON(map[string]any{strings.ReplaceAll(command, "-", "_"): parameters})
	var stdout, stderr bytes.Buffer
	exit := adapter.Run(ctx, adapter.Invocation{
		Args: []string{"service-adapter", command}, Stdin: bytes.NewReader(stdin), Stdout: &stdout, Stderr: &stderr, Getenv: i.getenv,
	})
	if exit != 0 {
		return outcome{exit: exit, err: fmt.Errorf("exit %d: %s\n%s", exit, stdout.Bytes(), stderr.Bytes())}, nil
	}
	return outcome{}, stdout.Bytes()
}
