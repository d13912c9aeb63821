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

// create performs the calls of the broker for a create request: it requests the JSON Schemas of the plan, sets the
// section "schemas" of the step's outcome to them, and then deploys the instance, which sets the other sections; see
// deploy. For a service that has no instances, it requests the schemas only.
//
// create returns an error if the case already has an instance, one that is or wraps a *rejection if the adapter
// rejects a call, and another error if the output of a call is not valid, or if the errand, the outputs or the check
// for pending changes of deploy fail. The instance is deployed nevertheless if the manifest was generated; see
// deploy.
func (r *run) create() error {
	if r.instance.Manifest != "" {
		return errors.New("there already is an instance; the step delete must come before another create")
	}
	if err := r.planSchemas(); err != nil || !r.service.HasInstances() {
		return err
	}
	return r.deploy(r.instance.Generate(r.requestBody()))
}

// update performs the calls of the broker for an update request from the deployed plan to that of the step. It requests
// the JSON Schemas of the step's plan, sets the section "schemas" of the step's outcome to them, checks that the
// deployed instance, r.before, has no pending changes, and then deploys the instance, which sets the other sections;
// see deploy. It does nothing and returns nil for a service that has no instances.
//
// update returns an error if the case has no instance (the schemas are then requested nevertheless), if there are
// pending changes before or after the deployment, a *rejection if the adapter rejects a call, and another error if the
// output of a call is not valid, or if the errand or the outputs of deploy fail. Once the new manifest was generated,
// it stays deployed even if a later part fails; see deploy.
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

// upgrade performs the call of generate-manifest that the broker's errand upgrade-all-service-instances makes for the
// instance, and deploys the result. deploy sets the sections of the step's outcome, including dashboard_url. The
// request contains only a context: it has no parameters and no previous secrets. upgrade also differs from update in
// these ways:
//   - The previous plan of the request is that of the step and not the deployed one.
//   - It does not request the JSON Schemas of the plan, so that the outcome has no section "schemas".
//   - It checks for pending changes only after the deployment, as part of deploy, and not before the call.
//   - It performs the call even for a service that has neither a BOSH manifest nor a provision template, for which
//     update does nothing.
//
// upgrade returns an error if the service has instances and the case currently has none (see requireInstance), one
// that is or wraps a *rejection if the adapter rejects a call, and another error if the output of a call is not
// valid, or if the errand, the outputs or the check for pending changes of deploy fail. Once the new manifest was
// generated, it stays deployed even if a later part fails; see deploy.
func (r *run) upgrade() error {
	if err := r.requireInstance(); err != nil {
		return err
	}
	request := r.instance.Generate(map[string]any{"context": r.requestBody()["context"]})
	request["previous_secrets"] = "null"
	return r.deploy(request)
}

// requireInstance returns an error if the service has instances (a BOSH manifest or a provision template) but the case
// currently has none, because it has not created one yet or has deleted it. For a service that has no instances, it
// returns nil.
func (r *run) requireInstance() error {
	if r.instance.Manifest == "" && r.service.HasInstances() {
		return errors.New("there is no instance; the step create must come first")
	}
	return nil
}

// planSchemas calls the adapter's command generate-plan-schemas for the step's plan and sets the section "schemas" of
// the outcome. It returns a *rejection if the adapter rejects the call, which sets the sections of a rejection (see
// call), and another error if its output is not a JSON object. The section "schemas" is missing after an error.
func (r *run) planSchemas() error {
	_, schemas, err := r.call("generate-plan-schemas", map[string]any{"plan": r.instance.Plan})
	if err == nil {
		r.outcome["schemas"] = schemas
	}
	return err
}

// requestBody returns the JSON body that the platform would send to the broker for the step's request to create or
// update an instance: the context, the parameters of the step, the ids of the service and the plan, and constant ids of
// the organization and the space. The context names the platform and the instance, and the step's context adds to it or
// replaces these. A bind request has the same body; bind adds the fields of an app. Each call returns a new map.
func (r *run) requestBody() map[string]any {
	return map[string]any{
		"context": value.Merge(map[string]any{"platform": "cloudfoundry", "instance_name": "pak-test"},
			r.step.Context),
		"parameters": value.Merge(r.step.Parameters), "service_id": r.instance.ServiceID, "plan_id": r.instance.PlanID,
		"organization_guid": "organization", "space_guid": "space",
	}
}

// generate calls the adapter's command generate-manifest. request contains the parameters of the call and must not be
// nil; generate adds the UAA client to it if the step has one. printed is the standard output, and product the JSON
// object in it, or nil if the output is empty or null. If the command fails, generate returns "", nil and a
// *rejection, and sets the sections of a rejection in the outcome (see call). It returns another error with a nil
// product if the request cannot be encoded, or if the output, which printed then contains, is not a JSON object.
func (r *run) generate(request map[string]any) (printed string, product map[string]any, err error) {
	if r.step.UAAClient != nil {
		request["uaa_client"] = r.step.UAAClient
	}
	return r.call(generateManifest, request)
}

// deploy performs all calls of the broker for a deployment, apart from the schemas. request contains the parameters
// of the call of generate-manifest; deploy adds the UAA client to it if the step has one. deploy does the following
// in this order:
//   - It generates a manifest, masks its secrets in outcomes from then on, and stores it in r.instance as the broker
//     would. It sets r.plan to the plan of r.instance, which is nil if the service does not have it, and the BOSH
//     variables of r.instance to the values that the step declares or to invented ones.
//   - It sets the VMs of r.instance and the sections "manifest", "labels" and "configs" of the outcome, and runs the
//     errand apply-instance if the step uses errands.
//   - It sets the section "outputs" if the service has a provision template, the section "dashboard_url" if the
//     service has a dashboard, and the section "unchanged" and r.outputs as compareWithPrevious does.
//   - It checks that the instance has no pending changes, because the broker would reject every later update. It leaves
//     out this check if Suite.Created is set.
//
// If a part of the second or third item fails, deploy finishes the item. After an error, it leaves out the following
// items; a manifest that is stored stays deployed. The error is or wraps a *rejection if the adapter rejects a call,
// which also sets the sections of a rejection in the outcome. It is another error if the output of the adapter cannot
// be decoded, if the errand fails, if the outputs of the provision template cannot be read or contradict their
// declarations, or if there are pending changes.
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

// collectManifests sets the section "manifest" of the outcome to the deployed manifest without the adapter's record,
// "labels" to the labels in product, and "configs" to the BOSH configs by type. product is the decoded output of
// generate-manifest. Without labels or configs, their section is missing. The masks are applied to all sections. It
// returns an error if the manifest or a BOSH config is not valid YAML; some sections may then be missing.
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

// compareWithPrevious sets the section "unchanged" of the outcome: true if the step changed neither the manifest nor
// the outputs of the provision template, as far as this comparison shows. It compares the manifest of r.instance with
// that of r.before, as the broker does, which ignores some keys (see odb.SameManifests), and the section "outputs" of
// the outcome with r.outputs, the outputs of the last step that deployed or applied the instance. Secrets are masked in
// these outputs, so that another value of a secret is not noticed. It then sets r.outputs to the current outputs for
// the next step, or to nil without that section. It returns an error if one of the manifests cannot be decoded; the
// section is then false, and r.outputs is set nevertheless.
func (r *run) compareWithPrevious() error {
	same, err := odb.SameManifests(r.before.Manifest, r.instance.Manifest)
	r.outcome["unchanged"] = same && reflect.DeepEqual(r.outputs, r.outcome["outputs"])
	r.outputs = r.outcome["outputs"]
	return err
}

// requestDashboard calls the adapter's command dashboard-url, as the broker does after every deployment, and sets the
// section "dashboard_url" of the outcome, with the masks applied. If the service has no dashboard (exit code 10), it
// returns nil, and the outcome has neither that section nor those of a rejection. It returns a *rejection if the
// adapter rejects the call for another reason, and another error if the output is not a JSON object; the section is
// then missing. It is null if the output lacks the URL.
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

// checkNoPendingChanges generates the manifest of the instance target again, without parameters, and returns an error
// if it differs from target's deployed manifest in a way that makes the broker reject an update; see odb.SameManifests.
// The manifest is not deployed. The result is nil if the manifests are equal for the broker.
//
// If they differ, the error consists of message and one line for each difference: its path and both values, with
// secrets masked. Changes of OpenTofu resources, and secrets that an upgrade would renew, are not listed, and alone
// they are not an error. If the differences cannot be listed, the error consists of message and the reason. The error
// is a *rejection if the adapter rejects the call, which also sets the sections of a rejection in the outcome, and
// another one if the output of the call or a manifest cannot be decoded.
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

// changes returns the pending changes of the instance target, as the command pending-changes does: the differences
// between the deployed manifest and the manifest that the next update would generate, the planned changes of resources,
// and the secrets that would be renewed; nil means none. Their secrets are masked, and nothing is deployed or applied.
// deployment contains the releases and stemcells of the broker; nil means those that the deployed manifest already has.
//
// changes returns nil and an error if the configuration or the pak cannot be read, if the deployed manifest is missing
// or invalid, if the manifest cannot be generated, or if OpenTofu fails.
func (r *run) changes(
	target *odb.Instance, deployment *serviceadapter.ServiceDeployment,
) ([]manifestdiff.Change, error) {
	process := session.Process{Stderr: &bytes.Buffer{}, Getenv: r.generatingEnv}
	return preview.Changes(r.ctx, process, target.Manifest, string(value.MustJSON(target.Plan)), deployment)
}

// listPending performs the action pending-changes: it sets the section "pending_changes" of the outcome to the list
// that the command pending-changes --json would print, with the masks applied. Without changes, the list is empty and
// not nil. listPending returns the error of changes, for example if the case has no instance; the section is then
// missing.
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
// outcome, with the masks applied. If the step uses errands, the outputs of the last complete apply, which are in the
// stored state of the instance, take precedence over those in the deployed manifest, except for sensitive outputs that
// the manifest contains. Otherwise only the manifest is read. collectOutputs does nothing and returns nil for a service
// without a provision template.
//
// It returns an error if the record in the manifest cannot be read or if a reference to the value of an output cannot
// be resolved. With errands it also returns an error if the adapter's configuration is invalid, if the stored state
// cannot be opened or read, or if no apply of the instance was ever complete. The section is missing in all these
// cases. It is set if an output contradicts its declaration, because a required output is missing or has a wrong type,
// which is an error as well.
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

// withOperator opens a states.Operator, the operations that operator commands and errands perform on stored states,
// with the configuration file that arrange wrote for the step, which names the state directory of the case. It calls
// work with the operator and closes it; the operator must not be used after work returns. Its log is discarded.
//
// withOperator returns the error of work. If the configuration is invalid or the pak or the state cannot be opened, it
// returns that error and does not call work.
func (r *run) withOperator(work func(operator *states.Operator) error) error {
	process := session.Process{Stderr: &bytes.Buffer{}, Getenv: r.getenv}
	operator, err := states.Open(process, "instance", states.Options{NewState: true})
	if err != nil {
		return err
	}
	defer operator.Close()
	return work(operator)
}

// applyErrand performs the errand apply-instance: it applies the provision template with OpenTofu, so that the
// resources of the instance become those that the errand's job properties in the deployed manifest describe. It does
// nothing and returns nil if the step does not use errands.
//
// It returns an error if the manifest is invalid or lacks valid properties of that job, for example because nothing
// is deployed or because the service has no provision template, if a reference in them has no value, if the
// configuration or the state cannot be opened, or if the errand fails, for example because OpenTofu does. Resources
// that a failed errand created remain, and destroyInstance can destroy them.
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

// applyInstance performs the action apply-instance: it runs the errand apply-instance again, if the step uses errands,
// reads the outputs of the provision template, and compares them with r.outputs, the outputs of the last step that
// deployed or applied the instance; see compareWithPrevious. It sets the sections "outputs", if the service has a
// provision template whose outputs can be read, and "unchanged" of the outcome, and then r.outputs to the current
// outputs, or to nil if they cannot be read. A difference is not an error.
//
// All of this is done even if a part of it fails. The error joins those of all parts: that the case has no instance,
// that the errand fails, that the outputs cannot be read or contradict their declarations, and that the deployed
// manifest cannot be decoded.
func (r *run) applyInstance() error {
	return errors.Join(r.requireInstance(), r.applyErrand(), r.collectOutputs(), r.compareWithPrevious())
}

// destroyInstance destroys the resources that the provision template created for the instance and removes its stored
// state, as the errand destroy-instance does, whether or not the step uses errands. It uses the recorded inputs,
// which do not contain the values of ephemeral ones, and does not evaluate these again. For a service without a
// provision template, or an instance without a stored state, it does nothing and returns nil.
//
// It returns an error if the configuration or the state cannot be opened, if a provider block may read an ephemeral
// input, or if the destruction fails. The state then remains with the resources that still exist, apart from the
// exceptions of lifecycle.Manager.Destroy.
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

// delete removes the deployment from the run: it clears the manifest, the secrets and the BOSH configs of r.instance,
// and r.outputs. Bindings and r.plan remain. A case without an instance is not an error.
//
// If the step uses errands, the errand destroy-instance runs first, which destroys the resources of the provision
// template. If it fails, delete returns its error and keeps the deployment. Without errands, these resources remain
// until the end of the case, and delete always returns nil.
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

// bind calls the adapter's command create-binding as the broker does for a bind request. It sets r.binding, the input
// of the action run, to the response, and the section "binding" of the outcome to the response with the masks applied.
// It adds the binding to r.bindings, which are deleted at the end of the case, even if the call fails.
//
// bind returns an error, without a call, if the case lacks an instance that it needs (see requireInstance). It returns
// a *rejection if the adapter rejects the call, and another error if its output is not a JSON object; r.binding does
// not change then. It also returns an error, and sets both, if credentials contradict the declared outputs; see
// checkOutputs.
//
// If Case.BindCanFail is set, bind returns nil after a *rejection and after any other error of the call. It then
// empties the outcome and r.bindings, so that the bindings of the case so far are not deleted at its end. Credentials
// that contradict the declared outputs are an error nevertheless. Without BindCanFail, if the call for a binding that
// was not in r.bindings before returns an error, and the step or the case expects a rejection, bind adds the binding
// to r.failed, so that a failure of its deletion is ignored. A successful call removes the binding from r.failed.
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

// unbind calls the adapter's command delete-binding as the broker does for an unbind request. The id of the binding
// is that of the step, as bindingID returns it. unbind does not check whether the case has an instance. It returns a
// *rejection if the adapter rejects the call, for example with the exit code notFound if the binding does not exist,
// and another error if the output, which is normally empty, is neither empty nor a JSON object. It sets no section of
// the outcome, except those of a rejection. The binding stays in the list of those that are deleted at the end of the
// case.
func (r *run) unbind() error {
	_, _, err := r.call("delete-binding", r.instance.Bind(r.bindingID(), map[string]any{
		"service_id": r.instance.ServiceID, "plan_id": r.instance.PlanID,
	}))
	return err
}

// command runs the shell command of a step in the directory and environment of the server, with the response to the
// last bind as JSON on its standard input, which is empty before the first binding. It returns an error, which starts
// with the end of the command's output, if the command fails or cannot be started, or if r.ctx ends. The masks are
// applied to the text of the error, which wraps no other error.
func (r *run) command() error {
	if err := r.server.Run(r.ctx, r.step.Command, r.binding); err != nil {
		return errors.New(value.Text(r.masks.apply(err.Error())))
	}
	return nil
}
