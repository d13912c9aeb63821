package record

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"service-adapter/internal/value"
)

// The names of the lifecycle errands of a plan that apply and destroy a provision template. Their jobs have the same
// names.
const (
	ApplyErrand   = "apply-instance"
	DestroyErrand = "destroy-instance"
)

// IntentFormat is the format of an intent. It changes only if an older errand could misread a newer intent.
const IntentFormat = 1

// An Intent is the state of an instance that the errand apply-instance must bring about. It is stored in a BOSH
// manifest, and contains no secrets.
type Intent struct {
	// Format is set by Encode.
	Format int `json:"format"`
	Instance
	Owner
	Versions
	// Inputs are the variables of the provision template, without the secret ones.
	Inputs map[string]any `json:"inputs,omitempty"`
	// EvaluatedByErrand are the names of the inputs that the errand evaluates, because they depend on the configuration
	// or the environment on its VM.
	EvaluatedByErrand []string `json:"later,omitempty"`
	// Constants are the published names that the expressions of these inputs read.
	Constants map[string]any `json:"constants,omitempty"`
}

// An Instance identifies a service instance by names and ids. ServiceID, Plan and PlanID are "" if they are not known.
type Instance struct {
	InstanceID string `json:"instance_id"`
	Deployment string `json:"deployment"`
	Service    string `json:"service"`
	ServiceID  string `json:"service_id,omitempty"`
	Plan       string `json:"plan,omitempty"`
	PlanID     string `json:"plan_id,omitempty"`
}

// An Owner identifies what a binding or an instance belongs to in Cloud Foundry, by GUIDs. A GUID is "" if the request
// does not contain it.
type Owner struct {
	App          string `json:"app_guid,omitempty"`
	Organization string `json:"organization_guid,omitempty"`
	Space        string `json:"space_guid,omitempty"`
}

// Or returns the owner with its missing GUIDs taken from another owner.
func (o Owner) Or(other Owner) Owner {
	return Owner{cmp.Or(o.App, other.App), cmp.Or(o.Organization, other.Organization), cmp.Or(o.Space, other.Space)}
}

// OwnerOf returns the owner that the body of a request names: the app in bind_resource, and the organization and space
// in the context. GUIDs that are missing there are read from the top level of the body. A GUID that is in neither, or
// is not a string, is "". The body may be nil.
func OwnerOf(body map[string]any) Owner {
	context, _ := body["context"].(map[string]any)
	resource, _ := body["bind_resource"].(map[string]any)
	text := func(key string, preferred map[string]any) string {
		first, _ := preferred[key].(string)
		second, _ := body[key].(string)
		return cmp.Or(first, second)
	}
	return Owner{
		App:          text("app_guid", resource),
		Organization: text("organization_guid", context),
		Space:        text("space_guid", context),
	}
}

// Versions identifies the pak, template and OpenTofu version that build an instance.
type Versions struct {
	Pak        string `json:"pak"`
	PakVersion string `json:"pak_version"`
	// Template is the digest of the provision template (brokerpak.Digest). If it is "", the instance keeps the template
	// that it has.
	Template string `json:"template,omitempty"`
	// Tofu is the version of OpenTofu. If it is "", the instance keeps the version that it has.
	Tofu string `json:"tofu_version,omitempty"`
}

// Encode returns the intent as one line of JSON, in the format IntentFormat. If a value cannot be represented in JSON,
// such as an infinite number, the result is "null", which DecodeIntent rejects. Every "(" is escaped, so that neither
// the Director nor the broker finds a reference in the text.
func (i Intent) Encode() string {
	i.Format = IntentFormat
	return strings.ReplaceAll(string(value.MustJSON(i)), "(", `\u0028`)
}

// DecodeIntent decodes a text that Intent.Encode returned. It returns an error if the text is not valid JSON, if its
// format is not supported, or if it names no instance or no service. Inputs and Constants are never nil, and contain
// the types that package value lists.
func DecodeIntent(text string) (*Intent, error) {
	var i Intent
	if err := value.Decode([]byte(text), &i); err != nil {
		return nil, fmt.Errorf("reading the intent: %w", err)
	}
	if i.Format < 1 || i.Format > IntentFormat {
		return nil, fmt.Errorf("reading the intent: format %d is not supported; was it made by a newer adapter?",
			i.Format)
	}
	if i.InstanceID == "" || i.Service == "" {
		return nil, errors.New("reading the intent: it names no instance or no service")
	}
	for _, field := range []*map[string]any{&i.Inputs, &i.Constants} {
		*field, _ = value.Normalise(*field).(map[string]any)
	}
	return &i, nil
}
