package paktest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"
	"gopkg.in/yaml.v3"

	"service-adapter/adapter"
	"service-adapter/brokerpak/instance"
	"service-adapter/internal/lifecycle"
	"service-adapter/internal/odb"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
)

// create is a create request. Of a service without instances there are only schemas.
func (r *run) create() error {
	if r.instance.Manifest != "" {
		return errors.New("there is an instance already; only after a delete it can be created again")
	}
	if err := r.planSchemas(); err != nil || !r.service.HasInstances() {
		return err
	}
	return r.deploy(r.instance.Generate(r.body()))
}

// update is an update request, before which the broker looks for pending changes.
func (r *run) update() error {
	if !r.service.HasInstances() {
		return nil
	}
	if err := errors.Join(r.mustExist(), r.planSchemas()); err != nil {
		return err
	}
	if err := r.pendingChanges(r.before, "the broker refuses the update, because what is deployed differs from what the step says; play an upgrade first"); err != nil {
		return err
	}
	request := r.instance.Generate(r.body())
	request["previous_plan"] = r.before.Plan
	return r.deploy(request)
}

// upgrade is what the broker's errand does with an instance.
func (r *run) upgrade() error {
	if err := r.mustExist(); err != nil {
		return err
	}
	request := r.instance.Generate(map[string]any{"context": r.body()["context"]})
	request["previous_secrets"] = "null"
	return r.deploy(request)
}

func (r *run) mustExist() error {
	if r.instance.Manifest == "" && r.service.HasInstances() {
		return errors.New("there is no instance; a step create makes one")
	}
	return nil
}

func (r *run) planSchemas() error {
	_, schemas, err := r.call("generate-plan-schemas", map[string]any{"plan": r.instance.Plan})
	if err == nil {
		r.outcome["schemas"] = schemas
	}
	return err
}

func (r *run) body() map[string]any {
	return map[string]any{
		"context":    value.Merge(map[string]any{"platform": "cloudfoundry", "instance_name": "pak-test"}, r.step.Context),
		"parameters": value.Merge(r.step.Parameters), "service_id": r.instance.ServiceID, "plan_id": r.instance.PlanID,
		"organization_guid": "organization", "space_guid": "space",
	}
}

// generate calls generate-manifest.
func (r *run) generate(request map[string]any) (printed string, product map[string]any, err error) {
	if r.step.UAAClient != nil {
		request["uaa_client"] = r.step.UAAClient
	}
	return r.call("generate-manifest", request)
}

// deploy generates a manifest and deploys it as the broker would, and then does what the broker does before an update.
func (r *run) deploy(request map[string]any) error {
	printed, product, err := r.generate(request)
	if err != nil {
		return err
	}
	secrets, _ := product["secrets"].(map[string]any)
	for name, item := range secrets {
		r.masks.add(value.Text(item), "secret "+name)
	}
	if err := r.instance.Deploy(printed); err != nil {
		return err
	}
	r.plan = r.service.Plan(r.instance.PlanID)
	r.setVariables()
	if err := errors.Join(r.instance.SampleVMs(r.step.VMs), r.describe(product), r.applyErrand()); err != nil {
		return err
	}
	if err := errors.Join(r.provisioned(), r.dashboard(), r.settle()); err != nil || r.Created != nil {
		return err
	}
	return r.pendingChanges(r.instance, "the manifest differs when it is generated again, so the broker would refuse every update")
}

// describe notes what was deployed.
func (r *run) describe(product map[string]any) error {
	var manifest any
	if err := yaml.Unmarshal([]byte(r.instance.Manifest), &manifest); err != nil {
		return fmt.Errorf("reading the manifest: %w", err)
	}
	found, _ := r.masks.apply(value.Normalise(manifest)).(map[string]any)
	delete(found, record.Key)
	r.outcome["manifest"] = found
	if labels, ok := product["labels"].(map[string]any); ok {
		r.outcome["labels"] = r.masks.apply(labels)
	}
	configs := map[string]any{}
	for kind, text := range r.instance.Configs {
		var config any
		if err := yaml.Unmarshal([]byte(text), &config); err != nil {
			return fmt.Errorf("reading the %s config: %w", kind, err)
		}
		configs[kind] = r.masks.apply(value.Normalise(config))
	}
	if len(configs) > 0 {
		r.outcome["configs"] = configs
	}
	return nil
}

// settle tells whether the step changed the instance, as the broker compares manifests.
func (r *run) settle() error {
	same, err := odb.SameManifests(r.before.Manifest, r.instance.Manifest)
	r.outcome["unchanged"] = same && reflect.DeepEqual(r.outputs, r.outcome["outputs"])
	r.outputs = r.outcome["outputs"]
	return err
}

// dashboard asks for the dashboard, as the broker does after every deployment.
func (r *run) dashboard() error {
	_, answer, err := r.call("dashboard-url", map[string]any{"instance_id": r.instance.ID, "plan": r.instance.Plan, "manifest": r.instance.Manifest})
	if isExit(err, notImplemented) {
		for _, section := range failing() {
			delete(r.outcome, section)
		}
		return nil
	}
	if err == nil {
		r.outcome["dashboard_url"] = r.masks.apply(answer["dashboard_url"])
	}
	return err
}

// pendingChanges generates the manifest of an instance again, without parameters. That it differs is an error with its places.
func (r *run) pendingChanges(of *odb.Instance, otherwise string) error {
	_, product, err := r.generate(of.Generate(map[string]any{}))
	if err != nil {
		return err
	}
	same, err := odb.SameManifests(of.Manifest, value.Text(product["manifest"]))
	if err != nil || same {
		return err
	}
	changes, err := r.changes(of, &of.Deployment)
	places := []string{otherwise}
	for _, change := range changes {
		places = append(places, fmt.Sprintf("%s: deployed %s, generated %s", change.Path, value.MustJSON(change.Deployed), value.MustJSON(change.Generated)))
	}
	return errors.Join(errors.New(strings.Join(places, "\n")), err)
}

func (r *run) changes(of *odb.Instance, deployment *serviceadapter.ServiceDeployment) ([]adapter.Change, error) {
	invocation := adapter.Invocation{Stderr: &bytes.Buffer{}, Getenv: r.getenv}
	return adapter.PendingChanges(r.ctx, invocation, of.Manifest, string(value.MustJSON(of.Plan)), deployment)
}

// listPending does what the command pending-changes does.
func (r *run) listPending() error {
	changes, err := r.changes(r.instance, nil)
	if err != nil {
		return err
	}
	listed, err := value.DecodeJSON(value.MustJSON(append([]adapter.Change{}, changes...)))
	r.outcome["pending_changes"] = r.masks.apply(listed)
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
	if r.step.Errands {
		err = r.withOperator(func(operator *adapter.Operator) error {
			view.Applied, err = operator.AppliedOutputs(r.ctx, r.instance.ID)
			return err
		})
	}
	if err != nil {
		return err
	}
	outputs, err := view.TemplateOutputs()
	if err != nil {
		return err
	}
	r.outcome["outputs"] = r.masks.apply(outputs)
	return checkOutputs("provision", r.service.Provision.Outputs, outputs)
}

// withOperator does what an operator or an errand does.
func (r *run) withOperator(work func(operator *adapter.Operator) error) error {
	invocation := adapter.Invocation{Stderr: &bytes.Buffer{}, Getenv: r.getenv}
	operator, err := adapter.OpenOperator(invocation, "instance", adapter.OperatorOptions{NewState: true})
	if err != nil {
		return err
	}
	defer operator.Close()
	return work(operator)
}

// applyErrand does what the errand apply-instance does after a deployment.
func (r *run) applyErrand() error {
	if !r.step.Errands {
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

// applyInstance runs that errand once more.
func (r *run) applyInstance() error {
	return errors.Join(r.mustExist(), r.applyErrand(), r.provisioned(), r.settle())
}

// destroyInstance destroys what the provision template made, as an operator and the errand destroy-instance do; where nothing is left it
// is content.
func (r *run) destroyInstance() error {
	if len(r.service.Provision.Templates) == 0 {
		return nil
	}
	err := r.withOperator(func(operator *adapter.Operator) error {
		return operator.DestroyStored(r.ctx, lifecycle.Instance, r.instance.ID)
	})
	if errors.Is(err, lifecycle.ErrNotStored) {
		return nil
	}
	return err
}

// delete deletes the deployment, after the errand that its plan may have.
func (r *run) delete() error {
	if r.step.Errands {
		if err := r.destroyInstance(); err != nil {
			return err
		}
	}
	r.instance.Manifest, r.instance.Secrets, r.instance.Configs, r.outputs = "", nil, nil, nil
	return nil
}

// bindingID is the id of a step's binding.
func (r *run) bindingID() string { return cmp.Or(r.step.ID, "pak-test") }

// bind makes a binding.
func (r *run) bind() error {
	if err := r.mustExist(); err != nil {
		return err
	}
	body := r.body()
	body["bind_resource"], body["app_guid"] = map[string]any{"app_guid": "app"}, "app"
	if !slices.Contains(r.bindings, r.bindingID()) {
		r.bindings = append(r.bindings, r.bindingID())
	}
	_, answer, err := r.call("create-binding", r.instance.Bind(r.bindingID(), body))
	switch {
	case err != nil && r.testCase.BindCanFail:
		r.bindings, r.outcome = nil, map[string]any{}
		return nil
	case err != nil:
		return err
	}
	r.binding = value.MustJSON(answer)
	r.outcome["binding"] = r.masks.apply(value.Clone(answer))
	credentials, _ := answer["credentials"].(map[string]any)
	return checkOutputs("bind", r.service.Bind.Outputs, credentials)
}

// unbind removes a binding.
func (r *run) unbind() error {
	_, _, err := r.call("delete-binding", r.instance.Bind(r.bindingID(), map[string]any{
		"service_id": r.instance.ServiceID, "plan_id": r.instance.PlanID,
	}))
	return err
}

// command runs the command of a step.
func (r *run) command() error {
	if err := r.server.Run(r.ctx, r.step.Command, r.binding); err != nil {
		return errors.New(value.Text(r.masks.apply(err.Error())))
	}
	return nil
}
