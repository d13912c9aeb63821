// Package odb imitates the on-demand broker for tests, previews and checks: it builds the input that the broker sends
// to an adapter, keeps the deployed manifest and the secrets as BOSH and CredHub would, and compares manifests as the
// broker does before an update. It also reads the broker's configuration.
package odb

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"service-adapter/internal/instance"
	"service-adapter/internal/value"

	"github.com/pivotal-cf/on-demand-services-sdk/bosh"
	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"
	"gopkg.in/yaml.v2"
)

// Input returns the standard input of an adapter command as JSON. command is generate-manifest, dashboard-url,
// create-binding, delete-binding or generate-plan-schemas, and parameters are the members of its object, such as
// "binding_id". Parameters that are strings are sent as they are; all others are encoded as JSON in a string, as the
// broker does. The input contains the objects of all five commands, which are empty except for that of command, and
// ends in a newline. Input returns "" and an error if a parameter cannot be encoded. It panics if there are parameters
// for an unknown command.
func Input(command string, parameters map[string]any) (string, error) {
	input := map[string]map[string]string{
		"generate_manifest": {}, "dashboard_url": {}, "create_binding": {}, "delete_binding": {},
		"generate_plan_schemas": {},
	}
	for name, parameter := range parameters {
		text, err := encoded(name, parameter)
		if err != nil {
			return "", err
		}
		input[strings.ReplaceAll(command, "-", "_")][name] = text
	}
	text, err := encoded("the input", input)
	return text + "\n", err
}

// encoded returns a string as it is, and any other item as JSON. It returns "" and an error if the item cannot be
// encoded, such as an infinity; name names the item in the error.
func encoded(name string, item any) (string, error) {
	if text, ok := item.(string); ok {
		return text, nil
	}
	text, err := json.Marshal(item)
	if err != nil {
		return "", fmt.Errorf("encoding %s: %w", name, err)
	}
	return string(text), nil
}

// An Instance is a service instance with the data that the broker, BOSH and CredHub store about it: its ids, its plan
// and the broker's releases and stemcells, the deployed manifest with the values of its references, the BOSH configs,
// and the addresses of its VMs. ID must be set for the methods, ServiceID for Reference and Deploy, and Plan for
// AddErrands; all other fields may be empty. An empty Manifest means that nothing is deployed.
type Instance struct {
	ID        string
	ServiceID string
	PlanID    string
	// Deployment and Plan are read from the broker's configuration.
	Deployment serviceadapter.ServiceDeployment
	Plan       map[string]any
	// Manifest is the deployed manifest. It is "" if nothing is deployed.
	Manifest string
	// Secrets are the values of the references in the manifest, by reference with its parentheses.
	Secrets map[string]string
	// Configs are the BOSH configs of the instance by type.
	Configs map[string]string
	// VMs are the addresses that BOSH reports by instance group.
	VMs map[string][]string
	// DNS are the BOSH DNS addresses. If it is nil, the broker sends none.
	DNS map[string]string
}

// DeploymentName returns the name of the instance's deployment, "service-instance_" and the id.
func (i *Instance) DeploymentName() string { return "service-instance_" + i.ID }

// Reference returns the reference that the broker writes into the manifest in place of ((odb_secret:NAME)):
// "((/odb/SERVICE_ID/service-instance_ID/NAME))", with the parentheses, where NAME is name. The text between the
// parentheses is the path of the secret in CredHub.
func (i *Instance) Reference(name string) string {
	return "((/odb/" + i.ServiceID + "/" + i.DeploymentName() + "/" + name + "))"
}

// Generate returns the parameters of a generate-manifest call for Input, by their names in the broker's input. plan and
// service_deployment are the Plan and the Deployment of i. If i.Manifest is "", the call creates the instance:
// previous_plan, previous_secrets and previous_configs are the text "null", which Input sends unchanged, and
// previous_manifest is "". Otherwise the call updates the instance: these are the Plan, Secrets, Configs and Manifest
// of i, so the previous plan equals the current one. body becomes request_parameters, the body of the user's request; a
// nil body is sent as null. uaa_client is the text "null" in both cases. The map is new; its values are shared with i
// and body.
func (i *Instance) Generate(body map[string]any) map[string]any {
	parameters := map[string]any{
		"service_deployment": i.Deployment, "plan": i.Plan, "request_parameters": body,
		"previous_plan": "null", "previous_manifest": "", "previous_secrets": "null",
		"previous_configs": "null", "uaa_client": "null",
	}
	if i.Manifest != "" {
		parameters["previous_plan"], parameters["previous_manifest"] = i.Plan, i.Manifest
		parameters["previous_secrets"], parameters["previous_configs"] = i.Secrets, i.Configs
	}
	return parameters
}

// Deploy stores the output of generate-manifest in i as the broker does: the manifest, in which references to CredHub
// replace ((odb_secret:NAME)), the BOSH configs, and the values of the secrets to which the manifest refers. Other
// variables of the manifest get invented values; see Adopt. Secrets to which only earlier manifests refer are kept.
// stdout is the output of the command as JSON. Deploy returns an error, and changes nothing, if stdout cannot be
// decoded, and another one if a secret cannot be encoded; the manifest is already replaced then.
func (i *Instance) Deploy(stdout string) error {
	var product serviceadapter.MarshalledGenerateManifest
	if err := json.Unmarshal([]byte(stdout), &product); err != nil {
		return fmt.Errorf("decoding the product of generate-manifest: %w", err)
	}
	i.Adopt(product.Manifest)
	i.Configs = product.Configs
	for name, secret := range product.ODBManagedSecrets {
		placeholder := "((" + serviceadapter.ODBSecretPrefix + ":" + name + "))"
		if !strings.Contains(i.Manifest, placeholder) {
			continue
		}
		reference := i.Reference(name)
		i.Manifest = strings.ReplaceAll(i.Manifest, placeholder, reference)
		var err error
		if i.Secrets[reference], err = encoded("secret "+name, secret); err != nil {
			return err
		}
	}
	return nil
}

// Adopt stores a manifest in i as the deployed one, without changing the BOSH configs. Each variable of the
// deployment in the manifest gets an invented value in i.Secrets, even if it had another value: ((name)) gets
// "value-of-name", and ((tls.ca)) gets "value-of-tls.ca". The keys are the references with their parentheses.
// References with other characters in their names, such as ((/path)) and ((odb_secret:name)), get none, and the
// values of all other references are kept. A nil i.Secrets is replaced by a new map. Adopt does not check whether the
// manifest is valid.
func (i *Instance) Adopt(manifest string) {
	i.Manifest = manifest
	if i.Secrets == nil {
		i.Secrets = map[string]string{}
	}
	// The deployment's own variables. BOSH generates their values, and the broker reads them.
	variable := regexp.MustCompile(`\(\([A-Za-z0-9_.-]+\)\)`)
	for _, reference := range variable.FindAllString(i.Manifest, -1) {
		i.Secrets[reference] = "value-of-" + strings.Trim(reference, "()")
	}
}

// JobProperties returns the properties of the job named job in the deployed manifest as the Director renders them, in
// which the values in i.Secrets replace references. If several instance groups have the job, it returns those of the
// first; a job without properties has an empty map. ok is false, without an error, if no group has the job or nothing
// is deployed. JobProperties returns nil and an error if the manifest is invalid or a reference has no value; in the
// latter case ok is true.
func (i *Instance) JobProperties(job string) (properties map[string]any, ok bool, err error) {
	var manifest bosh.BoshManifest
	if err := yaml.Unmarshal([]byte(i.Manifest), &manifest); err != nil {
		return nil, false, fmt.Errorf("decoding the manifest: %w", err)
	}
	for _, group := range manifest.InstanceGroups {
		for _, candidate := range group.Jobs {
			if candidate.Name == job {
				// A View reads YAML, of which JSON is a subset.
				text := value.MustJSON(value.Normalise(candidate.Properties))
				view := instance.View{Manifest: text, Secrets: i.Secrets}
				item, err := view.Get("")
				properties, _ = item.(map[string]any)
				return properties, true, err
			}
		}
	}
	return nil, false, nil
}

// Bind returns the parameters of a create-binding or delete-binding call for Input, by their names in the broker's
// input: the id of the binding, which is bindingID, the addresses of VMs, the manifest, its secrets, the DNS addresses
// and the request. body is the body of the user's request. Input sends a nil body, and VMs, secrets and DNS addresses
// that are nil in i, as null. The map is never nil and does not copy the values of i.
func (i *Instance) Bind(bindingID string, body map[string]any) map[string]any {
	parameters := map[string]any{
		"binding_id": bindingID, "bosh_vms": i.VMs, "manifest": i.Manifest, "request_parameters": body,
		"secrets": i.Secrets, "dns_addresses": "null",
	}
	if i.DNS != nil {
		parameters["dns_addresses"] = i.DNS
	}
	return parameters
}

// SameManifests reports whether two manifests, as YAML, are equal under the comparison that the broker makes before an
// update: it compares only the fields of the SDK's struct for manifests, without update blocks, and ignores all other
// keys. A list or mapping that is empty in one manifest and missing in the other is a difference. If one of the texts
// cannot be decoded, SameManifests returns an error, and the result must not be used.
func SameManifests(deployed, generated string) (bool, error) {
	before, err := Compared(deployed)
	if err != nil {
		return false, err
	}
	after, err := Compared(generated)
	return reflect.DeepEqual(before, after), err
}

// Compared returns the part of a manifest that the broker compares before an update: the fields of the SDK's struct,
// without the update blocks of the manifest and its instance groups. It ignores all other keys. text is the manifest as
// YAML; an empty text results in an empty manifest. Compared returns nil and an error if the text is not valid YAML or
// if a field has the wrong type.
func Compared(text string) (*bosh.BoshManifest, error) {
	var manifest bosh.BoshManifest
	if err := yaml.Unmarshal([]byte(text), &manifest); err != nil {
		return nil, fmt.Errorf("decoding a manifest as the broker does: %w", err)
	}
	manifest.Update = nil
	for group := range manifest.InstanceGroups {
		manifest.InstanceGroups[group].Update = nil
	}
	return &manifest, nil
}
