package paktest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/adapter"
	"service-adapter/brokerpak"
	"service-adapter/brokerpak/instance"
	"service-adapter/internal/lifecycle"
	"service-adapter/internal/odb"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
)

// run is one case being played.
type run struct {
	Suite
	ctx      context.Context //nolint:containedctx // one run is one call of playOne
	dir      string          // for the state and the cache
	testCase Case
	service  *brokerpak.Service
	instance *odb.Instance
	secrets  map[string]string // value → name
	outcome  Expectation
}

// bindingID names the binding of a case; each case has a state of its own.
const bindingID = "pak-test"

// playOne plays a case and returns what it gave. An error is a failure of the case; what the case created is removed even then.
func (s Suite) playOne(ctx context.Context, testCase Case, dir string) (Expectation, error) {
	service := s.Pak.Service(testCase.Service)
	if service == nil {
		return Expectation{}, fmt.Errorf("service %q is not in the pak", testCase.Service)
	}
	plan := service.Plan(testCase.Plan)
	if plan == nil && testCase.Plan == "" && len(service.Plans) > 0 {
		plan = &service.Plans[0]
	}
	r := &run{
		Suite: s, ctx: ctx, dir: dir, testCase: testCase, service: service, secrets: map[string]string{},
		instance: odb.Sample(service, plan, "pak-test"),
	}
	maps.Copy(r.instance.VMs, testCase.VMs)
	if testCase.Errands {
		r.instance.AddErrands()
	}
	r.instance.Secrets = map[string]string{}
	for name, text := range testCase.Variables {
		r.instance.Secrets["(("+name+"))"] = text
	}
	err := r.play()
	if err == nil || r.outcome.Error != "" {
		err = r.compare(err)
	}
	// What a cancelled test made must go as well; the budget of the command ends it.
	return r.outcome, errors.Join(err, r.destroy(context.WithoutCancel(ctx)))
}

// play goes through the life of an instance. The user's text of a refused request ends it.
func (r *run) play() error {
	if _, err := r.call("generate-plan-schemas", map[string]any{"plan": r.instance.Plan}); err != nil {
		return err
	}
	if r.service.HasInstances() {
		if err := r.deploy("create", r.testCase.Create); err != nil {
			return err
		}
		if r.Created != nil {
			r.Created(r.testCase, r.instance, r.environment())
			return nil
		}
		if err := r.pendingChanges(); err != nil {
			return err
		}
		if r.testCase.Update != nil {
			if err := r.deploy("update", *r.testCase.Update); err != nil {
				return err
			}
			if err := r.pendingChanges(); err != nil {
				return err
			}
		}
	}
	if r.testCase.Bind == nil {
		return nil
	}
	return r.bind()
}

func (r *run) body(parameters map[string]any) map[string]any {
	return map[string]any{
		"context": map[string]any{"platform": "cloudfoundry", "instance_name": "pak-test"}, "parameters": nonNil(parameters),
		"service_id": r.instance.ServiceID, "plan_id": r.instance.PlanID, "organization_guid": "organization", "space_guid": "space",
	}
}

// deploy generates a manifest and deploys it as the broker would.
func (r *run) deploy(what string, parameters map[string]any) error {
	stdout, err := r.call("generate-manifest", r.instance.Generate(r.body(parameters)))
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	var product struct {
		Secrets map[string]any `json:"secrets"`
	}
	if err := json.Unmarshal([]byte(stdout), &product); err != nil {
		return fmt.Errorf("%s: decoding the product: %w", what, err)
	}
	for name, item := range product.Secrets {
		r.secrets[value.Text(item)] = name
	}
	if err := r.instance.Deploy(stdout); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	var manifest any
	if err := yaml.Unmarshal([]byte(r.instance.Manifest), &manifest); err != nil {
		return fmt.Errorf("%s: reading the manifest: %w", what, err)
	}
	r.outcome.Manifest, _ = r.mask(value.Normalise(manifest)).(map[string]any)
	delete(r.outcome.Manifest, record.Key)
	if err := r.applyErrand(); err != nil {
		return fmt.Errorf("%s: the errand %s: %w", what, record.ApplyErrand, err)
	}
	if err := r.provisioned(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// pendingChanges does what the broker does before an update.
func (r *run) pendingChanges() error {
	stdout, err := r.call("generate-manifest", r.instance.Generate(map[string]any{}))
	if err != nil {
		return fmt.Errorf("generating the manifest again: %w", err)
	}
	var product struct {
		Manifest string `json:"manifest"`
	}
	if err := json.Unmarshal([]byte(stdout), &product); err != nil {
		return fmt.Errorf("generating the manifest again: %w", err)
	}
	same, err := odb.SameManifests(r.instance.Manifest, product.Manifest)
	if err == nil && !same {
		err = errors.New("the manifest differs when it is generated again, so the broker would refuse every update")
	}
	return err
}

// provisioned reads the outputs of the provision template as a binding sees them.
func (r *run) provisioned() error {
	if len(r.service.Provision.Templates) == 0 {
		return nil
	}
	view := instance.View{Manifest: []byte(r.instance.Manifest), Secrets: r.instance.Secrets}
	var err error
	if view.Record, err = record.FromManifest(r.instance.Manifest); err != nil {
		return err
	}
	if r.testCase.Errands {
		view.Applied, err = r.applied()
	}
	if err != nil {
		return err
	}
	outputs, err := view.TemplateOutputs()
	if err != nil {
		return err
	}
	if err := checkOutputs("provision", r.service.Provision.Outputs, outputs); err != nil {
		return err
	}
	r.outcome.Outputs, _ = r.mask(outputs).(map[string]any)
	return nil
}

// withOperator does what an operator or an errand does.
func (r *run) withOperator(work func(operator *adapter.Operator) error) error {
	var log bytes.Buffer
	operator, err := adapter.OpenOperator(adapter.Invocation{Stderr: &log, Getenv: r.environment()}, "instance", adapter.OperatorOptions{NewState: true})
	if err != nil {
		return err
	}
	defer operator.Close()
	return work(operator)
}

// applyErrand does what the errand apply-instance does after a deployment.
func (r *run) applyErrand() error {
	if !r.testCase.Errands {
		return nil
	}
	properties, _, err := r.instance.JobProperties(record.ApplyErrand)
	if err != nil {
		return err
	}
	intent, err := adapter.ReadIntent(value.MustJSON(map[string]any{"intent": properties["intent"], "secrets": properties["secrets"]}))
	if err != nil {
		return err
	}
	return r.withOperator(func(operator *adapter.Operator) error { return operator.ApplyIntent(r.ctx, intent) })
}

// applied are the outputs of the last errand.
func (r *run) applied() (outputs map[string]any, err error) {
	err = r.withOperator(func(operator *adapter.Operator) error {
		outputs, err = operator.AppliedOutputs(r.ctx, r.instance.ID)
		return err
	})
	return outputs, err
}

// destroy destroys what the provision template made, as an operator and the errand destroy-instance do; where nothing is left it is content.
func (r *run) destroy(ctx context.Context) error {
	if len(r.service.Provision.Templates) == 0 {
		return nil
	}
	err := r.withOperator(func(operator *adapter.Operator) error {
		return operator.DestroyStored(ctx, lifecycle.Instance, r.instance.ID)
	})
	if err != nil && !errors.Is(err, lifecycle.ErrNotStored) {
		return fmt.Errorf("destroy: %w", err)
	}
	return nil
}

// bind makes a binding and removes it.
func (r *run) bind() (err error) {
	body := r.body(*r.testCase.Bind)
	body["bind_resource"], body["app_guid"] = map[string]any{"app_guid": "app"}, "app"
	stdout, err := r.call("create-binding", r.instance.Bind(bindingID, body))
	if err != nil && r.testCase.BindCanFail {
		return nil
	}
	defer func() { err = errors.Join(err, r.unbind()) }()
	if err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	answer, err := value.DecodeObject([]byte(stdout))
	if err != nil {
		return fmt.Errorf("bind: decoding the product: %w", err)
	}
	r.outcome.Binding, _ = r.mask(answer).(map[string]any)
	credentials, _ := answer["credentials"].(map[string]any)
	return checkOutputs("bind", r.service.Bind.Outputs, credentials)
}

// unbind removes the binding; where none is left it is content.
func (r *run) unbind() error {
	_, err := r.call("delete-binding", r.instance.Bind(bindingID, map[string]any{
		"service_id": r.instance.ServiceID, "plan_id": r.instance.PlanID,
	}))
	var ended *exitError
	if errors.As(err, &ended) && ended.code == 41 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("unbind: %w", err)
	}
	return nil
}

// checkOutputs compares what an action gave with the types of its declared outputs.
func checkOutputs(action string, declared []brokerpak.Variable, given map[string]any) error {
	noCredentials := []string{"syslog_drain_url", "route_service_url", "backup_agent_url"}
	var failed []error
	for _, output := range declared {
		item, ok := given[output.Name]
		switch {
		case slices.Contains(noCredentials, output.Name):
		case !ok && output.Required:
			failed = append(failed, fmt.Errorf("%s: the required output %q is missing", action, output.Name))
		case ok && !hasType(item, output.Type):
			failed = append(failed, fmt.Errorf("%s: the output %q must be of type %s, found %s", action, output.Name, output.Type, value.Kind(item)))
		}
	}
	return errors.Join(failed...)
}

// hasType tells whether a value has a type of the format; "" is any.
func hasType(item any, typ string) bool {
	kind := value.Kind(item)
	return typ == "" || strings.HasSuffix(kind, " "+typ) || typ == "number" && kind == "an integer"
}

// exitError is a command that ended with a code other than 0.
type exitError struct {
	command string
	code    int
	user    string
	log     string
}

func (e *exitError) Error() string {
	text := fmt.Sprintf("%s ended with exit code %d", e.command, e.code)
	if e.user != "" {
		return text + "; the user reads: " + e.user
	}
	return text + ": " + strings.TrimSpace(e.log)
}

// call runs a command of the adapter in this process.
func (r *run) call(command string, parameters map[string]any) (string, error) {
	input, err := odb.Input(command, parameters)
	if err != nil {
		return "", err
	}
	var stdout, stderr bytes.Buffer
	code := adapter.Run(r.ctx, adapter.Invocation{
		Args: []string{"service-adapter", command}, Stdin: strings.NewReader(input), Stdout: &stdout, Stderr: &stderr,
		Getenv: r.environment(),
	})
	if code == 0 {
		return stdout.String(), nil
	}
	if stdout.Len() > 0 {
		r.outcome.Error = stdout.String()
	}
	return "", &exitError{command: command, code: code, user: stdout.String(), log: stderr.String()}
}

// environment configures the adapter for the pak under test.
func (r *run) environment() func(string) (string, bool) {
	config := map[string]any{
		"paks": []any{r.Pak.Path}, "secure_manifests": true, "cache_dir": filepath.Join(r.dir, "cache"), "log_level": "warn",
		"state": map[string]any{"config": map[string]any{"dir": filepath.Join(r.dir, "state")}},
	}
	if r.testCase.Errands { // the errands of a test find the state here, whatever their properties say
		config["errand_properties"] = map[string]any{"state": map[string]any{"type": "pg"}}
	}
	return func(name string) (string, bool) {
		if name == adapter.ConfigVariable {
			return os.DevNull, true // no configuration file that happens to be here
		}
		if key, ok := strings.CutPrefix(name, "SERVICE_ADAPTER_"); ok {
			item, set := config[strings.ToLower(key)]
			return string(value.MustJSON(item)), set
		}
		return r.Getenv(name)
	}
}

// mask replaces the values of secrets by their names: they differ from run to run.
func (r *run) mask(item any) any {
	switch v := item.(type) {
	case string:
		for secret, name := range r.secrets {
			v = strings.ReplaceAll(v, secret, "<secret "+name+">")
		}
		return v
	case []any:
		for i := range v {
			v[i] = r.mask(v[i])
		}
		return v
	case map[string]any:
		for key := range v {
			v[key] = r.mask(v[key])
		}
		return v
	default:
		return item
	}
}
