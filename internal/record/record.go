// Package record holds what the adapter remembers of an instance in its own BOSH manifest: one top-level key that BOSH and the
// on-demand broker ignore. The broker sends old parameters never again, so everything that the next call needs to rebuild the
// same manifest is in it.
package record

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/internal/value"
	"service-adapter/internal/yamltree"
)

// Key is the top-level key of a BOSH manifest under which the record stands.
const Key = "brokerpak"

// OutputsKey is the top-level key under which a manifest refers to the sensitive outputs of a provision template, each a secret that
// the broker stores.
const OutputsKey = "brokerpak_outputs"

// Format is the newest version of the record. A record has the oldest one with which an older adapter cannot misread it: 2 where an
// errand applies the provision template, whose secrets it would make anew, and where inputs are sticky, which it would change.
const Format = 2

// Record is what an instance's manifest remembers. The zero values of its fields are left out of the text.
type Record struct {
	Format     int    `json:"format"`
	Pak        string `json:"pak"`
	PakVersion string `json:"pak_version"`
	Service    string `json:"service"`
	ServiceID  string `json:"service_id,omitempty"`
	Plan       string `json:"plan,omitempty"`
	Deployment string `json:"deployment"`
	PlanID     string `json:"plan_id,omitempty"`
	// Parameters are the user's, without those that are values of secrets.
	Parameters map[string]any `json:"parameters,omitempty"`
	// SecretParameters names the secret that holds a parameter's value: parameter → secret.
	SecretParameters map[string]string `json:"secret_parameters,omitempty"`
	// Context holds the keys of the request context that expressions use.
	Context map[string]any `json:"context,omitempty"`
	// Owner is kept for request.default_labels where expressions use it, and for the errand apply-instance.
	Owner
	// UAAClient holds the fields of the UAA client that expressions use: the broker sends its secret only once.
	UAAClient map[string]any `json:"uaa_client,omitempty"`
	// PlanProperties are the plan properties that the bind action uses.
	PlanProperties map[string]any `json:"plan_properties,omitempty"`
	// Secrets by name.
	Secrets map[string]Secret `json:"secrets,omitempty"`
	// Generated are values of rand.base64, time.nano and counter.next: input → call → value.
	Generated map[string]map[string]any `json:"generated,omitempty"`
	// Sticky are the values of sticky inputs.
	Sticky map[string]any `json:"sticky,omitempty"`
	// Outputs are the values of provision.bosh.outputs that do not wait for the deployment; they become instance.details.
	Outputs map[string]any `json:"outputs,omitempty"`
	// Template is what the provision template gave; nil where there is none.
	Template *Template `json:"template,omitempty"`
	// Errand says by what the errand apply-instance makes the instance; nil where no errand does.
	Errand *Versions `json:"errand,omitempty"`
	// Variables are those that the outputs and the dashboard use which read the deployed manifest or BOSH.
	Variables map[string]any `json:"variables,omitempty"`
	// DashboardURL is the dashboard unless it reads the deployed manifest or BOSH.
	DashboardURL string `json:"dashboard_url,omitempty"`
}

// Template is what is remembered of a provision template.
type Template struct {
	// Outputs are its outputs, but for the sensitive ones and those that are null.
	Outputs map[string]any `json:"outputs,omitempty"`
	// Sensitive names the sensitive outputs, which are secrets of the same names.
	Sensitive []string `json:"sensitive,omitempty"`
}

// Secret is what is remembered of a secret.
type Secret struct {
	// Version counts the values that the broker has stored; 0 while it has stored none. It numbers the secret's name in CredHub
	// from 2 on.
	Version int `json:"version"`
	// Value is the value itself, only where the broker manages no secrets, so that it stands in the manifest anyway.
	Value any `json:"value,omitempty"`
	// Keepers is the digest of what the keepers of a generated secret gave.
	Keepers string `json:"keepers,omitempty"`
	// Reference is a reference of a foreign manifest that is kept as it was, with its parentheses.
	Reference string `json:"reference,omitempty"`
}

// StoredName is the secret's name in CredHub.
func (s Secret) StoredName(name string) string {
	if s.Version < 2 {
		return name
	}
	return fmt.Sprintf("%s-%d", name, s.Version)
}

// Encode renders the record as one JSON text with sorted keys. Every "(" is escaped, so that neither the Director nor the
// broker finds a reference in it.
func (r Record) Encode() string {
	r.Format = 1
	if r.Errand != nil || len(r.Sticky) > 0 {
		r.Format = Format
	}
	return strings.ReplaceAll(string(value.MustJSON(r)), "(", `\u0028`)
}

// Decode reads a text that Encode made.
func Decode(text string) (*Record, error) {
	var r Record
	if err := value.Decode([]byte(text), &r); err != nil {
		return nil, fmt.Errorf("reading the record %q of the manifest: %w", Key, err)
	}
	if r.Format < 1 || r.Format > Format {
		return nil, fmt.Errorf("reading the record %q of the manifest: format %d is not supported; was it made by a newer adapter?",
			Key, r.Format)
	}
	if r.Service == "" {
		return nil, fmt.Errorf("reading the record %q of the manifest: it names no service, as every record does that the adapter wrote", Key)
	}
	// The numbers that package json made become values.
	for _, field := range []*map[string]any{&r.Parameters, &r.Context, &r.UAAClient, &r.PlanProperties, &r.Sticky, &r.Outputs, &r.Variables} {
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

// ErrNoManifest says that a text is no BOSH manifest at all: it is no YAML, or no mapping.
var ErrNoManifest = errors.New("it must be a YAML mapping")

// FromManifest returns the record of a BOSH manifest, nil when it has none: no manifest, or one of another adapter, which lacks the
// key. The error says that there is one and it cannot be used, or is ErrNoManifest.
func FromManifest(manifest string) (*Record, error) {
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(manifest), &document); err != nil {
		return nil, fmt.Errorf("looking for the record %q in the manifest: %w: %w", Key, err, ErrNoManifest)
	}
	if len(document.Content) == 0 || yamltree.IsNull(document.Content[0]) {
		return nil, nil
	}
	if document.Content[0].Kind != yaml.MappingNode {
		return nil, fmt.Errorf("looking for the record %q in the manifest: %w", Key, ErrNoManifest)
	}
	_, item := yamltree.Get(document.Content[0], Key)
	if item == nil {
		return nil, nil
	}
	if item.Kind == yaml.AliasNode {
		item = item.Alias
	}
	// Whatever is no text is damaged: to take it for none would make new passwords for a server that has others.
	if item.Kind != yaml.ScalarNode || item.ShortTag() != "!!str" {
		return nil, fmt.Errorf("reading the record %q of the manifest: line %d: it must be a text, as the adapter wrote it, not %s",
			Key, item.Line, yamltree.Kind(item))
	}
	return Decode(item.Value)
}

// The errands of the broker's plans by which a provision template is applied and destroyed. Their jobs have the same names.
const (
	ApplyErrand   = "apply-instance"
	DestroyErrand = "destroy-instance"
)

// IntentFormat is the version of the intent; it changes only when an older errand could misread a newer intent.
const IntentFormat = 1

// Intent is an instance as the errand apply-instance shall make it. It stands in a BOSH manifest and holds no secrets.
type Intent struct {
	Format int `json:"format"`
	Instance
	Owner
	Versions
	// Inputs are the variables of the provision template, but for the secret ones.
	Inputs map[string]any `json:"inputs,omitempty"`
	// Later names the inputs that the errand evaluates, because they depend on the configuration or the environment; Constants are the
	// published names that their expressions read.
	Later     []string       `json:"later,omitempty"`
	Constants map[string]any `json:"constants,omitempty"`
}

// Instance says which service instance something is about or belongs to, by names and ids.
type Instance struct {
	InstanceID string `json:"instance_id"`
	Deployment string `json:"deployment"`
	Service    string `json:"service"`
	ServiceID  string `json:"service_id,omitempty"`
	Plan       string `json:"plan,omitempty"`
	PlanID     string `json:"plan_id,omitempty"`
}

// Owner is what a binding or an instance is for in Cloud Foundry, by GUIDs; "" where the request does not tell.
type Owner struct {
	App          string `json:"app_guid,omitempty"`
	Organization string `json:"organization_guid,omitempty"`
	Space        string `json:"space_guid,omitempty"`
}

// Or takes from another owner what this one lacks.
func (o Owner) Or(other Owner) Owner {
	return Owner{cmp.Or(o.App, other.App), cmp.Or(o.Organization, other.Organization), cmp.Or(o.Space, other.Space)}
}

// OwnerOf reads the body of a request.
func OwnerOf(body map[string]any) Owner {
	context, _ := body["context"].(map[string]any)
	resource, _ := body["bind_resource"].(map[string]any)
	text := func(key string, preferred map[string]any) string {
		first, _ := preferred[key].(string)
		second, _ := body[key].(string)
		return cmp.Or(first, second)
	}
	return Owner{App: text("app_guid", resource), Organization: text("organization_guid", context), Space: text("space_guid", context)}
}

// Versions say by what an instance is made.
type Versions struct {
	Pak        string `json:"pak"`
	PakVersion string `json:"pak_version"`
	// Template is the digest of the provision template (brokerpak.Digest), and Tofu the version of OpenTofu; "" for what the instance
	// has.
	Template string `json:"template,omitempty"`
	Tofu     string `json:"tofu_version,omitempty"`
}

// Encode renders the intent as one JSON text with sorted keys. Every "(" is escaped, as in a record.
func (i Intent) Encode() string {
	i.Format = IntentFormat
	return strings.ReplaceAll(string(value.MustJSON(i)), "(", `\u0028`)
}

// DecodeIntent reads a text that Encode made.
func DecodeIntent(text string) (*Intent, error) {
	var i Intent
	if err := value.Decode([]byte(text), &i); err != nil {
		return nil, fmt.Errorf("reading the intent: %w", err)
	}
	if i.Format < 1 || i.Format > IntentFormat {
		return nil, fmt.Errorf("reading the intent: format %d is not supported; was it made by a newer adapter?", i.Format)
	}
	if i.InstanceID == "" || i.Service == "" {
		return nil, fmt.Errorf("reading the intent: it names no instance or no service")
	}
	for _, field := range []*map[string]any{&i.Inputs, &i.Constants} {
		*field, _ = value.Normalise(*field).(map[string]any)
	}
	return &i, nil
}
