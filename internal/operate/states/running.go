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

// A Deployment describes the running deployment of a service instance, as the broker describes it to adapters.
type Deployment struct {
	// Manifest is the deployed manifest, with references to credentials.
	Manifest string
	// VMs maps instance groups to IP addresses, and DNS maps the names of binding_with_dns to DNS addresses.
	VMs map[string][]string
	DNS map[string]string
}

// Running supplies the data about running instances from which the inputs of a deletion are evaluated again.
type Running struct {
	// Deployment returns the deployment of this name. It returns an error if the deployment does not exist or cannot be
	// read. It must not be nil.
	Deployment func(ctx context.Context, name string) (*Deployment, error)
	// Credentials maps the names of references, without parentheses, to texts, or to mappings of keys to such values.
	// A relative name is that of the manifest, or the full name /DIRECTOR/DEPLOYMENT/NAME. It may be nil.
	Credentials map[string]any
}

// DeleteBinding deletes a stored binding as delete-binding does, with an entry in the audit log. If running is nil, it
// uses the inputs with which the binding was created. Otherwise it evaluates the inputs that depend on the instance
// again; nothing is changed if one of them cannot be evaluated, and the error then names the input, and the reference
// if a reference has no value. supplied are the texts of ephemeral inputs, by name; other ephemeral inputs are
// evaluated again in both cases. It may be nil.
//
// only lists the conditions that the binding may have; an empty only permits every condition. The error wraps
// lifecycle.ErrNotStored if there is no such binding. It is another one if the condition of the binding is not
// permitted, if its state or record cannot be read, if supplied has a name that is not an ephemeral input of the
// binding, if OpenTofu fails, or if ctx ends.
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

// runningRequest returns the request of a deletion of a stored binding whose instance runs. See DeleteBinding for the
// errors.
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
	if _, err := o.session.ReadApplied(ctx, o.Manager, request, false); err != nil {
		o.session.Logger.Warn("the instance's outputs are not known", "error", err) // an input may not need them
	}
	return request, nil
}

// DestroyInstance destroys the resources of a stored instance and removes its state, with an entry in the audit log. If
// running is nil, it uses the recorded inputs. Otherwise the secret inputs that the errand apply-instance gets from the
// deployed manifest have the values of that manifest, and only the other inputs are the recorded ones. Nothing is
// changed if the deployment cannot be read or if a reference in the manifest has no value; in the latter case the error
// names the reference. Ephemeral inputs that have no value from the manifest have the supplied texts, by name, or are
// evaluated again. supplied may be nil.
//
// only lists the conditions that the instance may have; an empty only permits every condition. It is an error if
// supplied has a name that is not an ephemeral input of the instance. See lifecycle.DestroyWithInputs for the other
// errors, such as lifecycle.ErrNotStored.
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

// runningInstance returns the view of a running instance, and registers the credentials for masking. It returns an
// error if the name of the deployment is "", because an older release did not record it, and the error of
// Running.Deployment.
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

// resolve returns the value of a reference, with its parentheses, in the manifest of a deployment. A mapping is
// returned as JSON. It returns an error that names the reference if it is malformed or has no value.
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

// credential returns the value of a credential in the manifest of a deployment, and reports whether it exists. name
// must not be "". For a relative name, the full name with the deployment in it takes precedence, because the manifests
// of several deployments can use the same relative name.
func (r *Running) credential(deployment, name string) (item any, exists bool) {
	if name[0] != '/' {
		for _, full := range value.Keys(r.Credentials) {
			if directorName(full, deployment) == name {
				return r.Credentials[full], true
			}
		}
	}
	item, exists = r.Credentials[name]
	return item, exists
}

// directorName returns the relative name in the full name /DIRECTOR/DEPLOYMENT/NAME of a credential of the deployment.
// It returns "" for any other name.
func directorName(full, deployment string) string {
	parts := strings.SplitN(full, "/", 4)
	if len(parts) == 4 && parts[0] == "" && parts[2] == deployment {
		return parts[3]
	}
	return ""
}

// errandSecrets returns the secret inputs that the manifest contains for the errand apply-instance, by name and with
// their references resolved. They are those of the first job of that errand which has the properties intent and
// secrets; the result is nil if there is no such job. errandSecrets returns an error if the manifest is not valid YAML
// or a reference has no value.
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

// replaceInputs returns a copy of the recorded inputs in which the secrets replace those of the same names. A secret
// that is not a recorded input is left out, because the template does not use it. The service, which may be nil,
// declares the types of the inputs. It returns an error if a secret does not fit its type.
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
