package semantics_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"
	"gopkg.in/yaml.v3"

	"service-adapter/internal/odb"
	"service-adapter/internal/value"
	"service-adapter/spec/kit"
	"service-adapter/spec/kit/broker"
)

// operatorEnv is the environment of the reference broker during the recording, which the functions env() and config()
// read.
var operatorEnv = map[string]string{
	"ORACLE_SET": "env value", "ORACLE_EMPTY": "", "ORACLE_SPACES": "  sp ", "ORACLE_MAPPED": " mapped value\n",
	// These variables must not reach a template: a template's variable without a value is null.
	"TF_VAR_oracle_tfvar": "from the environment", "TF_VAR_oracle_param": "from a parameter",
}

// manifest is the manifest of the pak of a case, as a format for the platform and the version of OpenTofu.
const manifest = `packversion: 1
name: recorded
version: 1.0.0
platforms: [{os: %s, arch: %s}]
terraform_binaries: [{name: tofu, version: %s}]
service_definitions: [service.yml]
parameters: [{name: TF_VAR_oracle_param, description: reaches the environment of OpenTofu}]
env_config_mapping: {ORACLE_MAPPED: oracle.mapped, ORACLE_EMPTY: oracle.empty}
`

// configuration is the operator's configuration. Its key config contains settings that the reference broker has as
// well, and that the function config() reads.
const configuration = `paks: [%s]
secure_manifests: true
state: {type: local, config: {dir: %s}}
cache_dir: %s
config:
  api: {hostname: localhost}
  compatibility:
    enable-beta-services: false
    enable-builtin-brokerpaks: true
    enable-catalog-schemas: false
    enable-cf-sharing: false
    enable-eol-services: false
    enable-gcp-deprecated-services: false
    enable-preview-services: true
    enable-terraform-services: false
    enable-unmaintained-services: false
  db: {port: "3306", name: servicebroker, type: mysql, tls: "true", custom_certs: {tls_skip_verify: true}}
log_level: warn
`

// A player plays cases with the built adapter. The cases share only the prepared directories of OpenTofu.
type player struct {
	binary string
	root   string
}

// A game is a case in progress.
type game struct {
	recorded
	adapter  broker.Adapter
	instance *odb.Instance
	// lastPlan is the id of the last plan of the service.
	lastPlan string
}

// play returns the outcome of each step of a case.
func (p player) play(ctx context.Context, c recorded) []outcome {
	g, err := p.start(c)
	ended := make([]outcome, len(c.Steps))
	for number, s := range c.Steps {
		switch {
		case err != nil:
			ended[number].problem = err
		case s.Op == "provision" || s.Op == "update":
			ended[number] = g.provision(ctx, number)
		case s.Op == "bind" && g.instance.Manifest != "":
			ended[number] = g.bind(ctx, number)
		case s.Op == "unbind" && g.instance.Manifest != "":
			ended[number] = g.unbind(ctx, number)
		default:
			ended[number].leftOut = true
		}
	}
	return ended
}

// start writes the pak and the configuration of a case, and returns the case with an instance that has not been
// deployed.
func (p player) start(c recorded) (*game, error) {
	dir := filepath.Join(p.root, "cases", c.ID)
	pak, config := filepath.Join(dir, "pak"), filepath.Join(dir, "service-adapter.yml")
	bin := filepath.Join(pak, "bin", runtime.GOOS, runtime.GOARCH, kit.Newest)
	var service struct {
		ID    string
		Plans []struct{ ID string }
	}
	_ = yaml.Unmarshal([]byte(c.Definition), &service) // the adapter reports the error
	err := errors.Join(
		os.MkdirAll(bin, 0o700),
		os.Symlink(kit.OpenTofuPath(kit.Newest), filepath.Join(bin, "tofu")),
		os.WriteFile(filepath.Join(pak, "manifest.yml"),
			fmt.Appendf(nil, manifest, runtime.GOOS, runtime.GOARCH, kit.Newest), 0o600),
		os.WriteFile(filepath.Join(pak, "service.yml"), deployable(c.Definition), 0o600),
		os.WriteFile(config,
			fmt.Appendf(nil, configuration, pak, filepath.Join(dir, "state"), filepath.Join(p.root, "cache")), 0o600),
	)
	g := &game{
		recorded: c,
		adapter:  broker.Adapter{Path: p.binary, Dir: dir, Env: p.environment(c, config)},
		instance: &odb.Instance{
			ID: c.instanceID(), ServiceID: service.ID,
			Plan: map[string]any{"properties": map[string]any{}, "instance_groups": []any{}},
			Deployment: serviceadapter.ServiceDeployment{
				DeploymentName: "service-instance_" + c.instanceID(),
				Releases:       serviceadapter.ServiceReleases{{Name: "none", Version: "1", Jobs: []string{"none"}}},
				Stemcells:      []serviceadapter.Stemcell{{OS: "none", Version: "1"}},
			},
		},
	}
	if len(service.Plans) > 0 {
		g.lastPlan = service.Plans[len(service.Plans)-1].ID
	}
	return g, err
}

// environment returns the adapter's environment in a case.
func (p player) environment(c recorded, config string) []string {
	all := map[string]string{"PATH": os.Getenv("PATH"), "TMPDIR": p.root, "SERVICE_ADAPTER_CONFIG": config}
	for _, variables := range []map[string]string{operatorEnv, c.ProcessEnv, c.Env} {
		maps.Copy(all, variables)
	}
	var list []string
	for name, text := range all {
		list = append(list, name+"="+text)
	}
	slices.Sort(list)
	return list
}

// deployable adds an empty BOSH manifest to a definition without a provision template. The reference broker accepts a
// service that provisions nothing, but the on-demand broker needs a deployment.
func deployable(definition string) []byte {
	var service map[string]any
	if yaml.Unmarshal([]byte(definition), &service) != nil {
		return []byte(definition) // the adapter reports the error
	}
	provision, _ := service["provision"].(map[string]any)
	for _, key := range []string{"template", "templates", "bosh"} {
		if provision[key] != nil && provision[key] != "" {
			return []byte(definition)
		}
	}
	if provision == nil {
		provision = map[string]any{}
	}
	provision["bosh"] = map[string]any{"manifest": "instance_groups: []\n"}
	service["provision"] = provision
	return value.MustJSON(value.Normalise(service))
}

// call runs a command of the adapter as the broker does. It returns the outcome, and standard output if the command
// succeeded.
func (g *game) call(ctx context.Context, command string, parameters map[string]any) (outcome, string) {
	got, err := g.adapter.Call(ctx, command, parameters)
	if got.Exit != 0 {
		said := strings.ReplaceAll(got.Stdout+"\n"+got.Stderr, `\"`, `"`) // the log quotes errors
		return outcome{problem: err, exit: got.Exit, said: said}, ""
	}
	return outcome{problem: err}, got.Stdout
}

// provision creates or updates the instance. As the broker does, it first checks for pending changes, and rejects an
// update if there are any.
func (g *game) provision(ctx context.Context, number int) outcome {
	body, err := g.request(number)
	if err != nil {
		return outcome{problem: err}
	}
	parameters := g.instance.Generate(nil)
	parameters["request_parameters"] = body
	got, product := g.call(ctx, "generate-manifest", parameters)
	if product == "" {
		return got
	}
	if err := g.instance.Deploy(product); err != nil {
		return outcome{problem: err}
	}
	return outcome{problem: g.unchanged(ctx)}
}

// unchanged generates the manifest as the broker does before an update. It returns an error if there are pending
// changes.
func (g *game) unchanged(ctx context.Context) error {
	got, product := g.call(ctx, "generate-manifest", g.instance.Generate(map[string]any{}))
	if product == "" {
		return fmt.Errorf("the check for pending changes: %s", got)
	}
	var generated struct{ Manifest string }
	if err := json.Unmarshal([]byte(product), &generated); err != nil {
		return fmt.Errorf("decoding the product of the check for pending changes: %w", err)
	}
	if same, err := odb.SameManifests(g.instance.Manifest, generated.Manifest); err != nil || !same {
		return errors.Join(err,
			fmt.Errorf("there are pending changes:\n%s\nand now\n%s", g.instance.Manifest, generated.Manifest))
	}
	return nil
}

// bind creates a binding with the recorded request.
func (g *game) bind(ctx context.Context, number int) outcome {
	body, err := g.request(number)
	if err != nil {
		return outcome{problem: err}
	}
	parameters := g.instance.Bind(g.bindingID(number), nil)
	parameters["request_parameters"] = body
	got, product := g.call(ctx, "create-binding", parameters)
	if product == "" {
		return got
	}
	var answer struct{ Credentials json.RawMessage }
	if err := json.Unmarshal([]byte(product), &answer); err != nil {
		return outcome{problem: fmt.Errorf("decoding the product of create-binding: %w", err)}
	}
	got.credentials = answer.Credentials
	return got
}

// unbind sends the request that the on-demand broker builds from the query of the recorded request. The plan is the
// last plan of the service unless the recording contains another one. In one case, it differs from the plan of the
// bind.
func (g *game) unbind(ctx context.Context, number int) outcome {
	body, err := g.request(number)
	if err != nil {
		return outcome{problem: err}
	}
	parameters := g.instance.Bind(g.bindingID(number),
		map[string]any{"service_id": g.instance.ServiceID, "plan_id": g.lastPlan})
	if body != "" {
		parameters["request_parameters"] = body
	}
	got, _ := g.call(ctx, "delete-binding", parameters)
	return got
}
