// Package record defines the data about a service instance that the adapter stores in BOSH manifests: the
// InstanceRecord in the instance's own manifest, and the Intent that the errand apply-instance reads. A record is the
// value of one top-level key, which BOSH and the on-demand broker ignore. The broker never sends old parameters again,
// so the record contains everything that the next call needs to generate the same manifest.
package record

import (
	"errors"
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/internal/value"
	"service-adapter/internal/yamltree"
)

// Key is the top-level key of a BOSH manifest that holds the record.
const Key = "brokerpak"

// OutputsKey is the top-level key under which a manifest refers to the sensitive outputs of a provision template. Each
// of them is a secret that the broker stores.
const OutputsKey = "brokerpak_outputs"

// Format is the newest format of a record. A record is written in the oldest format that an older adapter cannot
// misread. Format 2 is used if an errand applies the provision template, because an older adapter would generate its
// secrets again, and if inputs are sticky, because an older adapter would change them.
const Format = 2

// An InstanceRecord contains the data about a service instance that the adapter stores in the instance's manifest: the
// identity of the instance, the data from requests, values that must not change, and the results of the provision
// action. Optional fields with zero values are left out of the text. The order of the fields is the order of the keys
// in the text, which must not change: all versions of the adapter write the same record as the same text. The zero
// value names no service, and Decode rejects its text.
type InstanceRecord struct {
	// Format is set by Encode.
	Format int `json:"format"`
	Identity
	Received
	KeptValues
	Provisioned
}

// An Identity names the BOSH deployment of a service instance, and the pak, service and plan that the manifest was
// generated from. ServiceID, Plan and PlanID are "" if they are not known.
type Identity struct {
	Pak        string `json:"pak"`
	PakVersion string `json:"pak_version"`
	Service    string `json:"service"`
	ServiceID  string `json:"service_id,omitempty"`
	Plan       string `json:"plan,omitempty"`
	// Deployment is the name of the BOSH deployment.
	Deployment string `json:"deployment"`
	PlanID     string `json:"plan_id,omitempty"`
}

// Received contains the data from the broker's requests that later requests no longer contain: the user's parameters,
// the names of the secrets that hold the values of secret parameters, and the parts of the request context, the owner,
// the UAA client and the plan properties that later calls use. All fields may be empty.
type Received struct {
	// Parameters are the user's parameters, without those that are stored as secrets.
	Parameters map[string]any `json:"parameters,omitempty"`
	// SecretParameters maps the name of a parameter to the name of the secret that holds its value.
	SecretParameters map[string]string `json:"secret_parameters,omitempty"`
	// Context holds the keys of the request context that expressions use.
	Context map[string]any `json:"context,omitempty"`
	// Owner is stored if expressions use request.default_labels, and for the errand apply-instance.
	Owner
	// UAAClient holds the fields of the UAA client that expressions use, because the broker sends the client's secret
	// only once.
	UAAClient map[string]any `json:"uaa_client,omitempty"`
	// PlanProperties are the plan properties that the bind action uses.
	PlanProperties map[string]any `json:"plan_properties,omitempty"`
}

// KeptValues contains the values that were determined for an earlier manifest and must be the same in later ones: the
// versions of secrets, the results of functions such as rand.base64, and the values of sticky inputs. All fields may be
// nil, which means that no such values exist.
type KeptValues struct {
	// Secrets are the instance's secrets by name.
	Secrets map[string]Secret `json:"secrets,omitempty"`
	// Generated are the values of the calls of rand.base64, time.nano and counter.next: input → call → value.
	Generated map[string]map[string]any `json:"generated,omitempty"`
	// Sticky are the values of sticky inputs.
	Sticky map[string]any `json:"sticky,omitempty"`
}

// Provisioned describes the results of the provision action, for bindings, the dashboard and the lifecycle errands:
// outputs that are available before the deployment, the stored outputs of the provision template, the versions that the
// errand apply-instance uses, variables that later calls need, and the URL of the dashboard. All fields may be empty;
// Errand is nil if no errand builds the instance.
type Provisioned struct {
	// Outputs are the values of provision.bosh.outputs that are available before the deployment. Expressions of the
	// bind action read them as instance.details.
	Outputs map[string]any `json:"outputs,omitempty"`
	// Template is the result of the provision template. It is nil if the service has no provision template, and if an
	// errand applies it.
	Template *Template `json:"template,omitempty"`
	// Errand identifies the pak, template and OpenTofu version with which the errand apply-instance builds the
	// instance. It is nil if no errand does.
	Errand *Versions `json:"errand,omitempty"`
	// Variables are the variables that the outputs and the dashboard URL use, if a later call must evaluate these:
	// because they read the deployed manifest or BOSH, or outputs of a template that an errand applies.
	Variables map[string]any `json:"variables,omitempty"`
	// DashboardURL is the URL of the dashboard. It is "" if the service has no dashboard, and if a later call must
	// evaluate the URL, for the same reasons as for Variables.
	DashboardURL string `json:"dashboard_url,omitempty"`
}

// A Template is the stored result of a provision template: the values of its outputs that are neither sensitive nor
// null, and the names of the sensitive outputs, whose values are stored as secrets.
type Template struct {
	// Outputs are the outputs of the template, without sensitive outputs and without those that are null.
	Outputs map[string]any `json:"outputs,omitempty"`
	// Sensitive are the names of the sensitive outputs, which are stored as secrets of the same names.
	Sensitive []string `json:"sensitive,omitempty"`
}

// A Secret is the stored data about a secret of an instance: the number of its current version, its value if the broker
// does not manage secrets, the digest of its keepers if it is generated, and a reference that is kept from a manifest
// of another adapter. The zero value is a secret of which the broker has stored no value yet.
type Secret struct {
	// Version counts the values that the broker has stored. It is 0 before the first one. From 2 on, it is a part of
	// the secret's name in CredHub; see StoredName.
	Version int `json:"version"`
	// Value is the value itself. It is set only if the broker does not manage secrets, so that the manifest contains
	// the value anyway.
	Value any `json:"value,omitempty"`
	// Keepers is the digest of the values of a generated secret's keepers.
	Keepers string `json:"keepers,omitempty"`
	// Reference is a reference from a manifest of another adapter that is kept unchanged, with its parentheses.
	Reference string `json:"reference,omitempty"`
}

// StoredName returns the name in CredHub of the current version of the secret. name is the secret's name in the
// definition. The result is name itself up to version 1, and name-VERSION from version 2 on.
func (s Secret) StoredName(name string) string {
	if s.Version < 2 {
		return name
	}
	return fmt.Sprintf("%s-%d", name, s.Version)
}

// Encode returns the record as one line of JSON. It is written in format 1, whatever r.Format is, unless an errand
// applies the provision template or inputs are sticky: then it has format 2, which older adapters reject. If a value
// cannot be represented in JSON, such as an infinite number, the result is "null", which Decode rejects. Every "(" is
// escaped, so that neither the Director nor the broker finds a reference in the text.
func (r InstanceRecord) Encode() string {
	r.Format = 1
	if r.Errand != nil || len(r.Sticky) > 0 {
		r.Format = Format
	}
	return strings.ReplaceAll(string(value.MustJSON(r)), "(", `\u0028`)
}

// Decode decodes a text that InstanceRecord.Encode returned. It returns nil and an error if the text is not valid JSON,
// if a field has the wrong type, if its format is not supported, or if it names no service. The error may contain parts
// of the text, but not its secrets. Unknown keys are ignored. The maps of the record contain the types that
// value.Normalise returns, such as int64 for integers; a map that the text lacks may be nil.
func Decode(text string) (*InstanceRecord, error) {
	var r InstanceRecord
	if err := value.Decode([]byte(text), &r); err != nil {
		return nil, fmt.Errorf("reading the record %q of the manifest: %w", Key, err)
	}
	if r.Format < 1 || r.Format > Format {
		return nil, fmt.Errorf("reading the record %q of the manifest: format %d is not supported; "+
			"a newer adapter may have written it", Key, r.Format)
	}
	if r.Service == "" {
		return nil, fmt.Errorf("reading the record %q of the manifest: "+
			"it does not name a service, so the adapter did not write it", Key)
	}
	// The JSON decoder returns json.Number, which the rest of the adapter does not use.
	fields := []*map[string]any{
		&r.Parameters, &r.Context, &r.UAAClient, &r.PlanProperties, &r.Sticky, &r.Outputs, &r.Variables,
	}
	for _, field := range fields {
		if *field != nil {
			*field, _ = value.Normalise(*field).(map[string]any)
		}
	}
	if r.Template != nil {
		r.Template.Outputs, _ = value.Normalise(r.Template.Outputs).(map[string]any)
	}
	for name, secret := range r.Secrets {
		secret.Value = value.Normalise(secret.Value)
		r.Secrets[name] = secret
	}
	for input, calls := range r.Generated {
		r.Generated[input], _ = value.Normalise(calls).(map[string]any)
	}
	return &r, nil
}

// ErrNoManifest means that a text is not a BOSH manifest: it is not valid YAML, or not a mapping.
var ErrNoManifest = errors.New("it must be a YAML mapping")

// FromManifest returns the record in a BOSH manifest, which is the text at the top-level key Key, "brokerpak". It
// returns nil without an error if the manifest is empty or null, or if it has no record, as that of another adapter. It
// returns nil and an error that wraps ErrNoManifest if the text is not valid YAML or not a mapping, and another error
// if the manifest has a record that is not a string or that Decode rejects.
func FromManifest(manifest string) (*InstanceRecord, error) {
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(manifest), &document); err != nil {
		return nil, fmt.Errorf("reading the record %q of the manifest: %w: %w", Key, err, ErrNoManifest)
	}
	if len(document.Content) == 0 || yamltree.IsNull(document.Content[0]) {
		return nil, nil
	}
	if document.Content[0].Kind != yaml.MappingNode {
		return nil, fmt.Errorf("reading the record %q of the manifest: %w", Key, ErrNoManifest)
	}
	_, item := yamltree.Get(document.Content[0], Key)
	if item == nil {
		return nil, nil
	}
	if item.Kind == yaml.AliasNode {
		item = item.Alias
	}
	// A value that is not a string is damaged. Ignoring it would generate new passwords for a server that has others.
	if item.Kind != yaml.ScalarNode || item.ShortTag() != "!!str" {
		return nil, fmt.Errorf("reading the record %q of the manifest: line %d: "+
			"it must be a string, as the adapter wrote it, not %s", Key, item.Line, yamltree.Kind(item))
	}
	return Decode(item.Value)
}
