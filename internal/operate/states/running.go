package states

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"service-adapter/binding"
	"service-adapter/brokerpak"
	"service-adapter/brokerpak/expr"
	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/instance"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
	"service-adapter/internal/vars"
)

// A Deployment describes the running deployment of one service instance in the way in which the broker describes it to
// adapters: its manifest, and the addresses of its VMs. Empty fields mean that the data is not known.
type Deployment struct {
	// Manifest is the deployed manifest, with references to credentials.
	Manifest string
	// VMs maps instance groups to IP addresses, and DNS maps the names of binding_with_dns to DNS addresses.
	VMs map[string][]string
	DNS map[string]string
}

// A Running supplies the data about running service instances from which the inputs of a deletion are evaluated again:
// a function that reads deployments, and the values of credentials. Deployment must be set, so the zero value is not
// usable. A nil *Running means that the recorded inputs are used instead.
type Running struct {
	// Deployment returns the deployment of this name. It returns an error if the deployment does not exist or cannot be
	// read. It must not be nil.
	Deployment func(ctx context.Context, name string) (*Deployment, error)
	// Credentials maps the names of references, without parentheses, to texts, or to mappings of keys to such values.
	// A relative name is that of the manifest, or the full name /DIRECTOR/DEPLOYMENT/NAME. It may be nil.
	Credentials map[string]any
}

// DeleteBinding deletes a stored binding: it destroys the resources of its template and removes its state, with
// events in the audit log. If the last apply may have been interrupted, it first applies the template again. id is
// the id of the binding, or the name of its workspace if that contains a hash instead of the id. supplied contains
// the texts of ephemeral inputs, by name, and may be nil; other ephemeral inputs are evaluated again in all cases.
// The texts and the credentials of running are registered for masking.
//
// If running is nil, DeleteBinding uses the inputs with which the binding was created, and evaluates ephemeral ones
// without the service instance, so that an expression that reads the instance yields no value. Otherwise it evaluates
// the inputs that depend on the service instance again. Without such inputs and without ephemeral ones, running is
// not used.
//
// only lists the conditions that the binding may have; an empty only permits every condition. The error wraps
// lifecycle.ErrNotStored if there is no such binding. It is another one, and no resource is changed, in these cases:
//   - The condition is not permitted, the state or the record cannot be read, or the record names resources that are
//     in no state (*lifecycle.LostResourcesError).
//   - supplied has a name that is not an ephemeral input of the binding.
//   - running is used, and the record does not contain the name of the deployment, the deployment does not exist or
//     cannot be read, its manifest is neither empty nor a YAML mapping, or an input with a recorded expression cannot
//     be evaluated. In the last case, the error names the input or the reference without a value.
//   - No installed pak has a usable OpenTofu, or none has a provider that the recorded template uses.
//   - An ephemeral variable that a provider needs has no value.
//
// It is also an error if OpenTofu fails, if other runs keep changing the state, or if ctx ends. The state then keeps
// the resources that remain, so that the deletion can be repeated. A *lifecycle.LostResourcesError names the
// resources that could not be stored in the state.
func (o *Operator) DeleteBinding(
	ctx context.Context, id string, running *Running, supplied map[string]string, only ...lifecycle.Condition,
) error {
	for _, text := range supplied {
		o.session.Secrets.Add(text)
	}
	binder := &binding.Binder{Manager: o.Manager}
	return binder.DeleteStoredWith(ctx, id, func(
		ctx context.Context, stored *lifecycle.StateRecord,
	) (request *binding.Request, err error) {
		if err := stored.CheckSupplied(supplied); err != nil {
			return nil, err
		}
		switch {
		case running != nil && len(stored.Live)+len(stored.Ephemeral) > 0:
			request, err = o.runningRequest(ctx, running, stored)
		case len(stored.Ephemeral) > 0:
			request, err = o.recordedRequest(stored)
		default:
			request = &binding.Request{}
		}
		if err == nil {
			request.Supplied = supplied
		}
		return request, err
	}, only...)
}

// runningRequest returns the request to delete the stored binding with the record stored, with the data of its
// running service instance, from which all inputs must be evaluated again. It registers for masking the credentials
// of running, and the secrets in the manifest's record and among the outputs of the instance.
//
// runningRequest returns nil and an error if the record does not contain the name of the deployment, if the
// deployment does not exist or cannot be read (the error of running.Deployment), or if its manifest is not a YAML
// mapping; an empty manifest is allowed. A record in the manifest that cannot be decoded, outputs of the instance
// that cannot be read, and a service that no pak has are only logged, because the inputs may not need them.
func (o *Operator) runningRequest(
	ctx context.Context, running *Running, stored *lifecycle.StateRecord,
) (*binding.Request, error) {
	view, err := o.runningInstance(ctx, running, stored.Deployment)
	if err != nil {
		return nil, err
	}
	request := &binding.Request{
		BindingID: stored.BindingID, Instance: view, Body: stored.Request, MustEvaluate: true,
	}
	if err := o.session.CompleteUnbind(request); err != nil {
		return nil, err
	}
	if _, err := o.session.ReadApplied(ctx, o.Manager, request, false); err != nil { // perhaps no input needs them
		o.session.Logger.Warn("the outputs of the instance are not available", "error", err)
	}
	return request, nil
}

// DestroyInstance destroys the resources of a stored service instance and removes its state, with events in the audit
// log. If the last apply may have been interrupted, it first applies the template again. The resources of an
// unfinished import are not destroyed but only dropped from the state. id is the id of the instance, or the name of
// its workspace if that contains a hash instead of the id. The texts in supplied, the secrets of the manifest and the
// credentials of running are registered for masking.
//
// If running is nil, DestroyInstance uses the recorded inputs. Otherwise the secret inputs that the manifest contains
// for the errand apply-instance have the values of the deployed manifest, and the other inputs are the recorded ones.
//
// supplied contains the texts of ephemeral inputs, by name, and may be nil. It applies with and without running, and
// takes precedence over the manifest. Ephemeral inputs that neither supplied nor the manifest has are evaluated
// again.
//
// only lists the conditions that the instance may have; an empty only permits every condition. The error wraps
// lifecycle.ErrNotStored if there is no such instance. It is another one, and nothing is destroyed, in these cases:
//   - The condition is not permitted, the state or the record cannot be read, or the record names resources that are
//     in no state (*lifecycle.LostResourcesError).
//   - supplied has a name that is not an ephemeral input.
//   - running is not nil, and the record does not contain the name of the deployment, the deployment does not exist
//     or cannot be read, its manifest is empty or not a YAML mapping, a secret does not fit the type of its input, or
//     a reference in the secrets has no value, which the error names.
//   - No installed pak has a usable OpenTofu, or none has a provider that the recorded template uses.
//   - An ephemeral variable that a provider needs has no value.
//
// It is also an error if OpenTofu fails, if another run takes over the workspace, or if ctx ends. The state then
// keeps the resources that remain; a *lifecycle.LostResourcesError names those that could not be stored in it. See
// lifecycle.DestroyWithInputs.
func (o *Operator) DestroyInstance(
	ctx context.Context, id string, running *Running, supplied map[string]string, only ...lifecycle.Condition,
) error {
	for _, text := range supplied {
		o.session.Secrets.Add(text)
	}
	return lifecycle.DestroyWithInputs(ctx, o.Manager, lifecycle.Instance, id, func(
		ctx context.Context, stored *lifecycle.StateRecord,
	) (inputs map[string]any, unevaluated map[string]error, err error) {
		if err := stored.CheckSupplied(supplied); err != nil {
			return nil, nil, err
		}
		if running == nil {
			inputs, unevaluated = o.instanceInputs(stored, supplied)
			return inputs, unevaluated, nil
		}
		view, err := o.runningInstance(ctx, running, stored.Deployment)
		if err != nil {
			return nil, nil, err
		}
		secrets, err := errandSecrets(view)
		if err != nil {
			return nil, nil, err
		}
		for _, secret := range secrets {
			o.session.Secrets.Add(secret)
		}
		inputs, err = replaceInputs(stored.Inputs, secrets, o.Service(stored))
		if err != nil {
			return nil, nil, err
		}
		texts := map[string]string{}
		for name, secret := range secrets {
			texts[name] = value.Text(secret)
		}
		again, unevaluated := o.instanceInputs(stored, value.Merge(ephemeralOf(stored, texts), supplied))
		return value.Merge(again, inputs), unevaluated, nil
	}, only...)
}

// runningInstance returns the view of a running service instance: its manifest, its addresses, and a function that
// resolves references with running.Credentials. name is the name of the deployment. It registers the credentials for
// masking. It returns nil and an error if name is "", because an older release did not record it, and passes on the
// error of running.Deployment.
func (o *Operator) runningInstance(ctx context.Context, running *Running, name string) (*instance.View, error) {
	o.session.Secrets.Add(running.Credentials)
	if name == "" {
		return nil, errors.New("the record does not contain the name of its deployment")
	}
	deployment, err := running.Deployment(ctx, name)
	if err != nil {
		return nil, err
	}
	return &instance.View{
		Manifest: []byte(deployment.Manifest), VMs: deployment.VMs, DNS: deployment.DNS,
		Resolve: func(reference string) (string, error) { return running.resolve(name, reference) },
	}, nil
}

// resolve returns the value of a reference in the manifest of the deployment called deployment. It looks the name up
// in the map r.Credentials and sends no request. reference has the form ((name)) or ((name.key)). The name may be a
// full name, such as /full/name, and the key may consist of several, as in ((name.key.subkey)), for nested mappings.
// ((name.key)) is a key of the mapping called name, unless a credential is called name.key.
//
// For a relative name, a credential with the full name "/DIRECTOR/DEPLOYMENT/NAME", whose DIRECTOR may be the name of
// any Director, takes precedence over one with the relative name; of several such full names, the first in
// alphabetical order counts. A list or mapping is returned as JSON, a credential that is null as "", and other values
// as text. resolve returns "" and an error that names the reference if it is malformed or if r.Credentials has no
// value for it; a key with the value null counts as missing.
func (r *Running) resolve(deployment, reference string) (string, error) {
	name, wrong := vars.ReferenceName(reference, true)
	if wrong != "" {
		return "", fmt.Errorf("%s %s", reference, wrong)
	}
	credential, keys := vars.Split(reference)
	for _, candidate := range []string{name, credential} {
		item, exists := r.credential(deployment, candidate)
		if exists && candidate == credential && keys != "" {
			mapping, _ := item.(map[string]any)
			item, exists = value.Lookup(mapping, keys)
		}
		if exists {
			return value.Text(item), nil
		}
	}
	return "", fmt.Errorf("%s has no value: supply it with --secrets", reference)
}

// credential returns the value of a credential in r.Credentials, and reports whether it exists. name is a full name,
// which begins with a slash, or a name relative to the manifest of deployment; it must not be "". For a relative name,
// the full name "/DIRECTOR/DEPLOYMENT/NAME", whose DIRECTOR may be the name of any Director, takes precedence, because
// the manifests of several deployments can use the same relative name. Of several such full names, the first in
// alphabetical order counts. item is nil if the credential does not exist.
func (r *Running) credential(deployment, name string) (item any, exists bool) {
	if !strings.HasPrefix(name, "/") {
		for _, full := range value.Keys(r.Credentials) {
			if directorName(full, deployment) == name {
				return r.Credentials[full], true
			}
		}
	}
	item, exists = r.Credentials[name]
	return item, exists
}

// directorName returns NAME if full, the full name of a credential, has the form /DIRECTOR/DEPLOYMENT/NAME with the
// name deployment in second position. DIRECTOR may be any text without a slash, and NAME may contain slashes.
// directorName returns "" for any other name.
func directorName(full, deployment string) string {
	parts := strings.SplitN(full, "/", 4)
	if len(parts) == 4 && parts[0] == "" && parts[2] == deployment {
		return parts[3]
	}
	return ""
}

// errandSecrets returns the secret inputs that the manifest of a running instance contains for the errand
// apply-instance, by name, with references replaced by their values. They are the property secrets of the first job
// apply-instance that has the properties intent and secrets. The result is nil if there is no such job, or if that
// property is not a mapping. errandSecrets returns nil and an error if the manifest is empty or not a YAML mapping,
// or if a reference in the secrets has no value.
func errandSecrets(view *instance.View) (map[string]any, error) {
	root, err := view.GetRaw("/instance_groups?")
	if err != nil {
		return nil, err
	}
	groups, _ := root.([]any)
	for i := range groups {
		group, _ := groups[i].(map[string]any)
		jobs, _ := group["jobs"].([]any)
		for j := range jobs {
			job, _ := jobs[j].(map[string]any)
			properties, _ := job["properties"].(map[string]any)
			if job["name"] != record.ApplyErrand || properties["intent"] == nil || properties["secrets"] == nil {
				continue
			}
			secrets, err := view.Get(fmt.Sprintf("/instance_groups/%d/jobs/%d/properties/secrets", i, j))
			if err != nil {
				return nil, err
			}
			inputs, _ := secrets.(map[string]any)
			return inputs, nil
		}
	}
	return nil, nil
}

// replaceInputs returns a copy of the recorded inputs of an instance in which the values of secrets replace those of
// the same names. A secret that is not a recorded input is left out, because the template does not use it. service
// declares the types to which the secrets are converted; with a nil service, or for an input that it does not declare,
// the secret is not converted. replaceInputs returns nil and an error if a secret cannot be converted to the type of
// its input.
func replaceInputs(
	recorded, secrets map[string]any, service *brokerpak.Service,
) (map[string]any, error) {
	var declared []brokerpak.Variable
	if service != nil {
		action := &service.Provision
		declared = slices.Concat(action.PlanInputs, action.UserInputs, action.ComputedInputs)
	}
	inputs := maps.Clone(recorded)
	for name := range recorded {
		secret, isSecret := secrets[name]
		if !isSecret {
			continue
		}
		inputs[name] = secret
		at := slices.IndexFunc(declared, func(input brokerpak.Variable) bool { return input.Name == name })
		if at < 0 {
			continue
		}
		typed, err := expr.Cast(secret, declared[at].Type)
		if err != nil {
			return nil, fmt.Errorf("the secret input %q cannot be used: %w", name, err)
		}
		inputs[name] = typed
	}
	return inputs, nil
}
