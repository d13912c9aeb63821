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

// An Intent is the state of an instance that the errand apply-instance must bring about: the instance and its owner,
// the versions of the pak, the template and OpenTofu, and the inputs of the provision template. It also lists the names
// of the inputs that the errand itself must evaluate, with the constants that their expressions read. An Intent is
// stored in a BOSH manifest, and contains no secrets. The zero value names no instance, and DecodeIntent rejects its
// text.
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

// An Instance identifies a service instance by its id, the name of its BOSH deployment, and the names and ids of its
// service and plan. ServiceID, Plan and PlanID are "" if they are not known. The zero value identifies no instance.
type Instance struct {
	InstanceID string `json:"instance_id"`
	Deployment string `json:"deployment"`
	Service    string `json:"service"`
	ServiceID  string `json:"service_id,omitempty"`
	Plan       string `json:"plan,omitempty"`
	PlanID     string `json:"plan_id,omitempty"`
}

// An Owner identifies the app, the organization and the space in Cloud Foundry to which a binding or an instance
// belongs, by GUIDs. A GUID is "" if the request does not contain it, as that of the app for an instance.
type Owner struct {
	App          string `json:"app_guid,omitempty"`
	Organization string `json:"organization_guid,omitempty"`
	Space        string `json:"space_guid,omitempty"`
}

// Or returns a copy of the owner in which each GUID that is "" is replaced by that of other, which may be "" as well.
func (o Owner) Or(other Owner) Owner {
	return Owner{cmp.Or(o.App, other.App), cmp.Or(o.Organization, other.Organization), cmp.Or(o.Space, other.Space)}
}

// OwnerOf returns the owner that the body of a request names: the app in bind_resource, and the organization and space
// in the context. A GUID that is missing, empty or not a string there is read from the top level of the body. A GUID
// that is in neither, or is not a string, is "". The body may be nil.
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

// Versions identifies the versions that build an instance: the name and the version of the pak, the digest of the
// provision template, and the version of OpenTofu. If the template or the version of OpenTofu is "", the instance keeps
// the one that it has.
type Versions struct {
	Pak        string `json:"pak"`
	PakVersion string `json:"pak_version"`
	// Template is the digest of the provision template (brokerpak.Digest). If it is "", the instance keeps the template
	// that it has.
	Template string `json:"template,omitempty"`
	// Tofu is the version of OpenTofu. If it is "", the instance keeps the version that it has.
	Tofu string `json:"tofu_version,omitempty"`
}

// Encode returns the intent as one line of JSON. Its format is always IntentFormat, whatever i.Format is. If a value
// cannot be represented in JSON, such as an infinite number, the result is "null", which DecodeIntent rejects. Every
// "(" is escaped, so that neither the Director nor the broker finds a reference in the text.
func (i Intent) Encode() string {
	i.Format = IntentFormat
	return strings.ReplaceAll(string(value.MustJSON(i)), "(", `\u0028`)
}

// DecodeIntent decodes a text that Intent.Encode returned. It returns nil and an error if the text is not valid JSON,
// if a field has the wrong type, if its format is not supported, or if it lacks the instance or the service. The error
// may contain parts of the text. Unknown keys are ignored. Inputs and Constants are never nil, and contain the types
// that value.Normalise returns, such as int64 for integers.
func DecodeIntent(text string) (*Intent, error) {
	var i Intent
	if err := value.Decode([]byte(text), &i); err != nil {
		return nil, fmt.Errorf("reading the intent: %w", err)
	}
	if i.Format < 1 || i.Format > IntentFormat {
		return nil, fmt.Errorf("reading the intent: format %d is not supported; a newer adapter may have written it",
			i.Format)
	}
	if i.InstanceID == "" || i.Service == "" {
		return nil, errors.New("reading the intent: it lacks the instance or the service")
	}
	for _, field := range []*map[string]any{&i.Inputs, &i.Constants} {
		*field, _ = value.Normalise(*field).(map[string]any)
	}
	return &i, nil
}
