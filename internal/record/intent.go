package record

import (
	"fmt"
	"strings"

	"service-adapter/internal/value"
)

// The errands of the broker's plans by which a provision template is applied and destroyed. Their jobs have the same names.
const (
	ApplyErrand   = "apply-instance"
	DestroyErrand = "destroy-instance"
)

// IntentFormat is the version of the intent; it changes only when an older errand could misread a newer intent.
const IntentFormat = 1

// Intent is an instance as the errand apply-instance shall make it. It stands in a BOSH manifest and holds no secrets.
type Intent struct {
	Format     int    `json:"format"`
	InstanceID string `json:"instance_id"`
	Deployment string `json:"deployment"`
	Service    string `json:"service"`
	ServiceID  string `json:"service_id,omitempty"`
	Plan       string `json:"plan,omitempty"`
	PlanID     string `json:"plan_id,omitempty"`
	// OrganizationGUID and SpaceGUID say whose the instance is.
	OrganizationGUID string `json:"organization_guid,omitempty"`
	SpaceGUID        string `json:"space_guid,omitempty"`
	Versions
	// Inputs are the variables of the provision template, but for the secret ones.
	Inputs map[string]any `json:"inputs,omitempty"`
	// Later names the inputs that the errand evaluates, because they depend on the configuration or the environment; Constants are the
	// published names that their expressions read.
	Later     []string       `json:"later,omitempty"`
	Constants map[string]any `json:"constants,omitempty"`
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
