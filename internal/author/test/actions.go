package test

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

	"service-adapter/adapter/session"
	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/instance"
	"service-adapter/internal/odb"
	"service-adapter/internal/operate/manifestdiff"
	"service-adapter/internal/operate/preview"
	"service-adapter/internal/operate/states"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
)

// create performs the calls of the broker for a create request: the schemas of the plan, then the deployment. For a
// service that has no instances, it requests the schemas only. It returns an error if the case already has an instance;
// see planSchemas and deploy for other errors.
func (r *run) create() error {
	if r.instance.Manifest != "" {
		return errors.New("there already is an instance; the step delete must come before another create")
	}
	if err := r.planSchemas(); err != nil || !r.service.HasInstances() {
		return err
	}
	return r.deploy(r.instance.Generate(r.requestBody()))
}

// update performs the calls of the broker for an update request: the schemas of the plan, the check that the deployed
// instance has no pending changes, then the deployment. It does nothing for a service that has no instances. It returns
// an error if the case has no instance or if there are pending changes; see planSchemas, checkNoPendingChanges and
// deploy for other errors.
func (r *run) update() error {
	if !r.service.HasInstances() {
		return nil
	}
	if err := errors.Join(r.requireInstance(), r.planSchemas()); err != nil {
		return err
	}
	err := r.checkNoPendingChanges(r.before,
		"the broker would reject the update, because the manifest differs from the deployed one; add the step "+
			"upgrade before it")
	if err != nil {
		return err
	}
	request := r.instance.Generate(r.requestBody())
	request["previous_plan"] = r.before.Plan
	return r.deploy(request)
}

// upgrade performs the calls of the broker's errand upgrade-all-service-instances for the instance. Its request has no
// parameters and no previous secrets. It returns an error if the case has no instance; see deploy for other errors.
func (r *run) upgrade() error {
	if err := r.requireInstance(); err != nil {
		return err
	}
	request := r.instance.Generate(map[string]any{"context": r.requestBody()["context"]})
	request["previous_secrets"] = "null"
	return r.deploy(request)
}

// requireInstance returns an error if the service has instances but the case has not created one yet.
func (r *run) requireInstance() error {
	if r.instance.Manifest == "" && r.service.HasInstances() {
		return errors.New("there is no instance; the step create must come first")
	}
	return nil
}

// planSchemas requests the schemas of the step's plan and sets the section "schemas" of the outcome. See call for the
// errors.
func (r *run) planSchemas() error {
	_, schemas, err := r.call("generate-plan-schemas", map[string]any{"plan": r.instance.Plan})
	if err == nil {
		r.outcome["schemas"] = schemas
	}
	return err
}

// requestBody returns the body of the request to create or update an instance that the platform would send to the
// broker for the step. A bind request has the same body with the fields of an app in addition, which bind adds. Each
// call returns a new map.
func (r *run) requestBody() map[string]any {
	return map[string]any{
		"context": value.Merge(map[string]any{"platform": "cloudfoundry", "instance_name": "pak-test"},
			r.step.Context),
		"parameters": value.Merge(r.step.Parameters), "service_id": r.instance.ServiceID, "plan_id": r.instance.PlanID,
		"organization_guid": "organization", "space_guid": "space",
	}
}

// generate calls the adapter's command generate-manifest with a request, to which it adds the UAA client of the step,
// if there is one. See call for the results.
func (r *run) generate(request map[string]any) (printed string, product map[string]any, err error) {
	if r.step.UAAClient != nil {
		request["uaa_client"] = r.step.UAAClient
	}
	return r.call(generateManifest, request)
}

// deploy generates a manifest, makes it the deployed one as the broker would, runs the errand of the plan if the step
// uses errands, requests the dashboard, and collects the sections of the outcome. request is the one to
// generate-manifest, and is modified. Finally deploy checks that the instance has no pending changes, because the
// broker would reject every later update. That check is left out if Suite.Created is set.
//
// The error is a *rejection if the adapter rejects a call. It is another error if the output of the adapter cannot be
// decoded, if the errand fails, if outputs contradict their declarations, or if there are pending changes. The new
// manifest stays deployed after an error of a later call.
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
	if err := errors.Join(r.instance.SampleVMs(r.step.VMs), r.collectManifests(product), r.applyErrand()); err != nil {
		return err
	}
	err = errors.Join(r.collectOutputs(), r.requestDashboard(), r.compareWithPrevious())
	if err != nil || r.Created != nil {
		return err
	}
	return r.checkNoPendingChanges(r.instance,
		"the manifest differs when it is generated again, so the broker would reject every update")
}

// collectManifests sets the sections "manifest", "labels" and "configs" of the outcome. product is the decoded output
// of generate-manifest. The adapter's record is removed from the manifest, and the masks are applied to all sections.
// It returns an error if the manifest or a BOSH config is not valid YAML; some sections may then be missing.
func (r *run) collectManifests(product map[string]any) error {
	var manifest any
	if err := yaml.Unmarshal([]byte(r.instance.Manifest), &manifest); err != nil {
		return fmt.Errorf("reading the manifest: %w", err)
	}
	masked, _ := r.masks.apply(value.Normalise(manifest)).(map[string]any)
	delete(masked, record.Key)
	r.outcome["manifest"] = masked
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

// compareWithPrevious sets the section "unchanged" of the outcome: true if the step changed neither the outputs nor the
// manifest. Manifests are compared as the broker does. The current outputs are kept for the comparison of the next
// step. It returns an error if one of the manifests cannot be decoded.
func (r *run) compareWithPrevious() error {
	same, err := odb.SameManifests(r.before.Manifest, r.instance.Manifest)
	r.outcome["unchanged"] = same && reflect.DeepEqual(r.outputs, r.outcome["outputs"])
	r.outputs = r.outcome["outputs"]
	return err
}

// requestDashboard calls dashboard-url, as the broker does after every deployment, and sets the section "dashboard_url"
// of the outcome. A service without a dashboard is not an error, and its outcome lacks the section. See call for the
// errors.
func (r *run) requestDashboard() error {
	_, answer, err := r.call("dashboard-url", map[string]any{
		"instance_id": r.instance.ID, "plan": r.instance.Plan, "manifest": r.instance.Manifest,
	})
	if isExit(err, notImplemented) {
		for _, section := range failureSections() {
			delete(r.outcome, section)
		}
		return nil
	}
	if err == nil {
		r.outcome["dashboard_url"] = r.masks.apply(answer["dashboard_url"])
	}
	return err
}

// checkNoPendingChanges generates the manifest of an instance again, without parameters. If it differs from the
// deployed one, the error consists of message and one line for each difference in the manifest. The error is a
// *rejection if the adapter rejects the call, and another one if a manifest cannot be decoded or the differences cannot
// be listed.
func (r *run) checkNoPendingChanges(target *odb.Instance, message string) error {
	_, product, err := r.generate(target.Generate(map[string]any{}))
	if err != nil {
		return err
	}
	same, err := odb.SameManifests(target.Manifest, value.Text(product["manifest"]))
	if err != nil || same {
		return err
	}
	changes, err := r.changes(target, &target.Deployment)
	lines := []string{message}
	for _, change := range changes {
		if change.OpenTofu+change.Secret != "" {
			continue // no reason for the broker to reject the update
		}
		lines = append(lines, fmt.Sprintf("%s: deployed %s, generated %s",
			change.Path, value.MustJSON(change.Deployed), value.MustJSON(change.Generated)))
	}
	return errors.Join(errors.New(strings.Join(lines, "\n")), err)
}

// changes returns the pending changes of an instance. A nil deployment means the releases and stemcells that the
// manifest of the instance already has. See preview.Changes for the errors.
func (r *run) changes(
	target *odb.Instance, deployment *serviceadapter.ServiceDeployment,
) ([]manifestdiff.Change, error) {
	process := session.Process{Stderr: &bytes.Buffer{}, Getenv: r.generatingEnv}
	return preview.Changes(r.ctx, process, target.Manifest, string(value.MustJSON(target.Plan)), deployment)
}

// listPending performs the command pending-changes and sets the section "pending_changes" of the outcome. It returns
// the error of changes.
func (r *run) listPending() error {
	changes, err := r.changes(r.instance, nil)
	if err != nil {
		return err
	}
	listed, err := value.DecodeJSON(value.MustJSON(append([]manifestdiff.Change{}, changes...)))
	r.outcome["pending_changes"] = r.masks.apply(listed)
	return err
}

// collectOutputs reads the outputs of the provision template as a bind does and sets the section "outputs" of the
// outcome. With errands, the outputs are read from the stored state of the instance. It does nothing for a service
// without a provision template. It returns an error if the manifest or the stored state cannot be read, if the value of
// an output is missing, or if outputs contradict their declarations.
func (r *run) collectOutputs() error {
	if len(r.service.Provision.Templates) == 0 {
		return nil
	}
	view := instance.View{Manifest: []byte(r.instance.Manifest), Secrets: r.instance.Secrets}
	var err error
	if view.Record, err = record.FromManifest(r.instance.Manifest); err != nil {
		return err
	}
	if r.step.Errands {
		err = r.withOperator(func(operator *states.Operator) error {
			view.Applied, _, err = operator.AppliedOutputs(r.ctx, r.instance.ID)
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

// withOperator calls work with the operations of operators and errands, which use the state directory of the test. The
// operator must not be used after work returns. withOperator returns the error of work, or that of states.Open.
func (r *run) withOperator(work func(operator *states.Operator) error) error {
	process := session.Process{Stderr: &bytes.Buffer{}, Getenv: r.getenv}
	operator, err := states.Open(process, "instance", states.Options{NewState: true})
	if err != nil {
		return err
	}
	defer operator.Close()
	return work(operator)
}

// applyErrand performs the errand apply-instance with the job properties of the deployed manifest. It does nothing if
// the step does not use errands. It returns an error if the manifest has no valid properties of the errand's job, and
// those of withOperator and states.Operator.ApplyIntent.
func (r *run) applyErrand() error {
	if !r.step.Errands {
		return nil
	}
	properties, _, err := r.instance.JobProperties(record.ApplyErrand)
	if err != nil {
		return err
	}
	intent, err := states.ReadIntent(value.MustJSON(map[string]any{
		"intent": properties["intent"], "secrets": properties["secrets"],
	}))
	if err != nil {
		return err
	}
	return r.withOperator(func(operator *states.Operator) error { return operator.ApplyIntent(r.ctx, intent) })
}

// applyInstance performs the errand apply-instance again, if the step uses errands, collects the outputs, and compares
// them and the manifest with those of the previous step. It sets the sections "outputs", if the service has a provision
// template, and "unchanged" of the outcome; a difference is not an error. All of this is done even if a part of it
// fails. The errors are joined: if the case has no instance, the error of requireInstance, and those of applyErrand,
// collectOutputs and compareWithPrevious.
func (r *run) applyInstance() error {
	return errors.Join(r.requireInstance(), r.applyErrand(), r.collectOutputs(), r.compareWithPrevious())
}

// destroyInstance destroys the resources that the provision template created, as the errand destroy-instance does. A
// service without a provision template, or an instance without a stored state, is not an error. Other errors of the
// destruction are returned.
func (r *run) destroyInstance() error {
	if len(r.service.Provision.Templates) == 0 {
		return nil
	}
	err := r.withOperator(func(operator *states.Operator) error {
		return operator.DestroyStored(r.ctx, lifecycle.Instance, r.instance.ID)
	})
	if errors.Is(err, lifecycle.ErrNotStored) {
		return nil
	}
	return err
}

// delete removes the deployment from the run. If the step uses errands, the errand destroy-instance runs first; if it
// fails, its error is returned and the deployment is kept. Otherwise the resources of the provision template remain
// until the end of the case.
func (r *run) delete() error {
	if r.step.Errands {
		if err := r.destroyInstance(); err != nil {
			return err
		}
	}
	r.instance.Manifest, r.instance.Secrets, r.instance.Configs, r.outputs = "", nil, nil, nil
	return nil
}

// bindingID returns the id of the binding that the step creates or deletes. It is "pak-test" if the step has no id.
func (r *run) bindingID() string { return cmp.Or(r.step.ID, "pak-test") }

// bind performs the call of the broker for a bind request and sets the section "binding" of the outcome. It adds the
// binding to those that are deleted at the end of the case. It returns an error if the case has no instance, a
// *rejection if the adapter rejects the call, and an error if credentials contradict the declared outputs. If the case
// allows that the bind fails, an error of the call is ignored; the outcome is then empty, and the bindings of the case
// so far are no longer deleted at its end. A new binding whose rejection the case expects is added to the failed ones,
// and a successful one is removed from them.
func (r *run) bind() error {
	if err := r.requireInstance(); err != nil {
		return err
	}
	body := r.requestBody()
	body["bind_resource"], body["app_guid"] = map[string]any{"app_guid": "app"}, "app"
	isNew := !slices.Contains(r.bindings, r.bindingID())
	if isNew {
		r.bindings = append(r.bindings, r.bindingID())
	}
	_, answer, err := r.call("create-binding", r.instance.Bind(r.bindingID(), body))
	switch {
	case err != nil && r.testCase.BindCanFail:
		r.bindings, r.outcome = nil, map[string]any{}
		return nil
	case err != nil && isNew && (r.step.Expect.Fails() || r.testCase.Expect.Fails()):
		r.failed = append(r.failed, r.bindingID())
		return err
	case err != nil:
		return err
	}
	r.failed = slices.DeleteFunc(r.failed, func(id string) bool { return id == r.bindingID() })
	r.binding = value.MustJSON(answer)
	r.outcome["binding"] = r.masks.apply(value.Clone(answer))
	credentials, _ := answer["credentials"].(map[string]any)
	return checkOutputs("bind", r.service.Bind.Outputs, credentials)
}

// unbind performs the call of the broker for an unbind request. The error is a *rejection if the adapter rejects it,
// for example with the exit code notFound if the binding does not exist. See call for other errors.
func (r *run) unbind() error {
	_, _, err := r.call("delete-binding", r.instance.Bind(r.bindingID(), map[string]any{
		"service_id": r.instance.ServiceID, "plan_id": r.instance.PlanID,
	}))
	return err
}

// command runs the shell command of a step, with the last binding as JSON on its standard input, which is empty before
// the first binding. It returns an error if the command fails. The masks are applied to the text of the error, which
// wraps no other error.
func (r *run) command() error {
	if err := r.server.Run(r.ctx, r.step.Command, r.binding); err != nil {
		return errors.New(value.Text(r.masks.apply(err.Error())))
	}
	return nil
}
