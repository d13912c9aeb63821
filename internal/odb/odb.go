// Package odb is the on-demand broker as far as an adapter meets it: it builds the broker's exact input, keeps the deployed
// manifest and the secrets as BOSH and CredHub would, and compares manifests as the broker does before an update.
package odb

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"service-adapter/brokerpak/instance"
	"service-adapter/internal/value"

	"github.com/pivotal-cf/on-demand-services-sdk/bosh"
	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"
	"gopkg.in/yaml.v2"
)

// Input is the standard input of a command: strings are sent as they are, anything else as the JSON text that the broker puts
// into a string. All five objects are sent, as the broker does, and a final newline.
func Input(command string, parameters map[string]any) (string, error) {
	input := map[string]map[string]string{
		"generate_manifest": {}, "dashboard_url": {}, "create_binding": {}, "delete_binding": {}, "generate_plan_schemas": {},
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

// encoded is a text as it is, and JSON of anything else.
func encoded(what string, item any) (string, error) {
	if text, ok := item.(string); ok {
		return text, nil
	}
	text, err := json.Marshal(item)
	if err != nil {
		return "", fmt.Errorf("encoding %s: %w", what, err)
	}
	return string(text), nil
}

// Instance is a service instance as broker, BOSH and CredHub know it.
type Instance struct {
	ID        string
	ServiceID string
	PlanID    string
	// Deployment and Plan are what the broker's configuration says.
	Deployment serviceadapter.ServiceDeployment
	Plan       map[string]any
	// Manifest is the deployed manifest, Secrets the values of its references, Configs the BOSH configs.
	Manifest string
	Secrets  map[string]string
	Configs  map[string]string
	// VMs and DNS are what BOSH tells.
	VMs map[string][]string
	DNS map[string]string
}

// DeploymentName is the name of the instance's deployment.
func (i *Instance) DeploymentName() string { return "service-instance_" + i.ID }

// Generate returns the parameters of a generate-manifest call: of a creation when nothing is deployed, else of an update.
func (i *Instance) Generate(body map[string]any) map[string]any {
	parameters := map[string]any{
		"service_deployment": i.Deployment, "plan": i.Plan, "request_parameters": body,
		"previous_plan": "null", "previous_manifest": "", "previous_secrets": "null", "previous_configs": "null", "uaa_client": "null",
	}
	if i.Manifest != "" {
		parameters["previous_plan"], parameters["previous_manifest"] = i.Plan, i.Manifest
		parameters["previous_secrets"], parameters["previous_configs"] = i.Secrets, i.Configs
	}
	return parameters
}

// Deploy stores what generate-manifest returned: secrets in CredHub, and the manifest with the references to them.
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
		reference := "((/odb/" + i.ServiceID + "/" + i.DeploymentName() + "/" + name + "))"
		i.Manifest = strings.ReplaceAll(i.Manifest, placeholder, reference)
		var err error
		if i.Secrets[reference], err = encoded("secret "+name, secret); err != nil {
			return err
		}
	}
	return nil
}

// Adopt makes a manifest the deployed one.
func (i *Instance) Adopt(manifest string) {
	i.Manifest = manifest
	if i.Secrets == nil {
		i.Secrets = map[string]string{}
	}
	// The deployment's own variables, whose values BOSH makes and the broker reads.
	variable := regexp.MustCompile(`\(\([A-Za-z0-9_.-]+\)\)`)
	for _, reference := range variable.FindAllString(i.Manifest, -1) {
		i.Secrets[reference] = "value-of-" + strings.Trim(reference, "()")
	}
}

// JobProperties are the properties of a job of the deployed manifest as the Director renders them, with the values of references. False
// where the manifest has no such job.
func (i *Instance) JobProperties(job string) (properties map[string]any, found bool, err error) {
	var manifest bosh.BoshManifest
	if err := yaml.Unmarshal([]byte(i.Manifest), &manifest); err != nil {
		return nil, false, fmt.Errorf("decoding the manifest: %w", err)
	}
	for _, group := range manifest.InstanceGroups {
		for _, of := range group.Jobs {
			if of.Name == job {
				view := instance.View{Manifest: value.MustJSON(value.Normalise(of.Properties)), Secrets: i.Secrets} // any YAML will do
				item, err := view.Get("")
				properties, _ = item.(map[string]any)
				return properties, true, err
			}
		}
	}
	return nil, false, nil
}

// Bind returns the parameters of create-binding and delete-binding.
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

// SameManifests compares two manifests as the broker does before an update.
func SameManifests(deployed, generated string) (bool, error) {
	before, err := Compared(deployed)
	if err != nil {
		return false, err
	}
	after, err := Compared(generated)
	return reflect.DeepEqual(before, after), err
}

// Compared is a manifest as the broker compares it before an update: through the SDK's struct, without update blocks.
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
