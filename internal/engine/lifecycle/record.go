package lifecycle

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"service-adapter/brokerpak"
	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/statestore"
	"service-adapter/internal/engine/templates"
	"service-adapter/internal/engine/workspace"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
)

// RecordFormat is the version of the record's format. It changes only when an older adapter could misread a newer
// record.
const RecordFormat = 1

// A StateRecord describes the binding or the instance that a state belongs to. It is stored in the state, and contains
// everything that is needed to finish, apply or destroy the binding or the instance, whichever paks are installed at
// that time. It contains secrets. Its JSON form is one object with the fields of all parts.
type StateRecord struct {
	// Format is the RecordFormat of the adapter that wrote the record, and Adapter is the version of that adapter, ""
	// in records of releases before 1.0. Encode sets both. Differences of Adapter are no change of the binding or the
	// instance.
	Format  int    `json:"format"`
	Adapter string `json:"adapter_version,omitempty"`
	Subject
	Source
	ResolvedInputs
	LastApply
	Import
	Times
}

// A Subject identifies the binding or the instance of a record.
type Subject struct {
	// BindingID is "" in the record of an instance.
	BindingID string `json:"binding_id,omitempty"`
	// Instance is the instance, or the one that the binding belongs to.
	record.Instance
	// Owner is the organization and space of an instance. It is empty for a binding, whose Request contains its owner.
	record.Owner
}

// KindAndID returns the kind of the subject, and the id of the binding or the instance.
func (s Subject) KindAndID() (Kind, string) {
	if s.BindingID == "" {
		return Instance, s.InstanceID
	}
	return Binding, s.BindingID
}

// A Source is the template of a record and the installation that last applied it.
type Source struct {
	AppliedWith
	// Providers are the providers that this OpenTofu then had.
	Providers []opentofu.Provider `json:"providers,omitempty"`
	// Templates are the HCL files of the template, by file name.
	Templates map[string]string `json:"templates"`
	// Declared are the names of the inputs that may be declared as variables where a file uses one without declaring
	// it.
	Declared []string `json:"declared,omitempty"`
}

// AppliedWith names the pak, its version and the version of OpenTofu that last applied a template.
type AppliedWith struct {
	Pak        string `json:"pak,omitempty"`
	PakVersion string `json:"pak_version,omitempty"`
	Tofu       string `json:"tofu_version,omitempty"`
}

// SetInstallation sets the pak, the OpenTofu version and the providers that are used for the template, in place of the
// previous ones. The list of providers is copied.
func (s *Source) SetInstallation(pak *brokerpak.Pak, installation opentofu.Installation) {
	s.Pak, s.PakVersion, s.Tofu = pak.Manifest.Name, pak.Manifest.Version, installation.Version
	s.Providers = slices.Clone(installation.Providers)
}

// Template returns the OpenTofu configuration that the record contains.
func (s *Source) Template() templates.Template {
	return templates.Template{Files: s.Templates, Inputs: s.Declared}
}

// ResolvedInputs are the values of a template's variables, with the request and the expressions that they were resolved
// from.
type ResolvedInputs struct {
	// Request is the body of the create-binding request, unchanged. It is nil for an instance.
	Request map[string]any `json:"request,omitempty"`
	// Inputs are the resolved values of the template's variables. They may be secret.
	Inputs map[string]any `json:"inputs"`
	// Live are the inputs that depend on the running instance, in the order of their evaluation.
	Live []LiveInput `json:"live,omitempty"`
	// Generated are the values that function calls generated, such as passwords: input → call → value.
	Generated map[string]map[string]any `json:"generated,omitempty"`
	// Ephemeral are the inputs whose values Encode leaves out, in the order of their evaluation. Inputs contains their
	// values only in a record that was not decoded, and after they were evaluated again.
	Ephemeral []EphemeralInput `json:"ephemeral,omitempty"`
}

// LastApply describes the last apply of a template.
type LastApply struct {
	// Attempt is a random text that each request sets anew when it runs OpenTofu for an instance. Because of it, the
	// record of an update that reverts a failed update differs from the record of the last successful apply. It is ""
	// for a binding.
	Attempt string `json:"attempt,omitempty"`
	// Outputs are the outputs of the last complete apply, if an errand applies the template, and nil otherwise.
	// Bindings use them until the next apply is complete.
	Outputs map[string]any `json:"outputs,omitempty"`
	// Failure is the reason why the last apply of an errand or of an operator's upgrade failed, if OpenTofu was not
	// killed, so that the state contains all created resources. It is nil otherwise.
	Failure *Failure `json:"failure,omitempty"`
	// Lost are the addresses of resources that were created, or may have been, and that are in no state.
	Lost []string `json:"lost,omitempty"`
}

// An Import describes resources that existed before the instance and that its creation imported. All its fields are
// empty for a binding, and for an instance without an import.
type Import struct {
	// Imported are the imported resources, address → id.
	Imported map[string]string `json:"imported,omitempty"`
	// ImportedValues are values that attributes of these resources had at that time, by input, which are not parameters
	// of the instance.
	ImportedValues map[string]any `json:"found,omitempty"`
	// ImportedParameters are the values that count as parameters of the instance, by input.
	ImportedParameters map[string]any `json:"found_parameters,omitempty"`
}

// Times are the times of a record in the form of Now. They are "" in records of older releases.
type Times struct {
	// CreatedAt is the time of the first request.
	CreatedAt string `json:"created_at,omitempty"`
	// UpdatedAt is the time at which the record was last encoded.
	UpdatedAt string `json:"updated_at,omitempty"`
}

// A Failure is the reason why an errand or an operator's upgrade failed.
type Failure struct {
	// User is the message that the service definition has for the error, and "" if it has none. Operator is the whole
	// error.
	User     string `json:"user,omitempty"`
	Operator string `json:"operator"`
}

// A LiveInput is an input whose expression reads the running instance: its manifest, secrets, addresses or outputs.
type LiveInput struct {
	Name string `json:"name"`
	// Type is the type that the value of the expression is cast to. "" means that the value is not cast.
	Type string `json:"type,omitempty"`
	// Expr is the text of the expression.
	Expr string `json:"expr"`
}

// Importing reports whether the instance of this record has an import that was not finished. The first complete apply
// finishes it. An unfinished import is undone by dropping the imported resources from the state. state is the state
// that contains the record; it must not be nil.
func (r *StateRecord) Importing(state *statestore.State) bool {
	return len(r.Imported) > 0 && state.Applied == nil
}

// Now returns the current time in the form of FormatTime.
func Now() string { return FormatTime(time.Now()) }

// FormatTime returns a time in the form that records use: RFC 3339 in UTC with whole seconds, so that sorting the texts
// sorts the times.
func FormatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Encode sets Format, Adapter and UpdatedAt and returns the record as JSON, for the state. adapterVersion is the
// version of this adapter; see Manager.AdapterVersion. The text does not contain the values of the inputs in Ephemeral;
// records are the only way by which inputs reach a state. Encode returns an error if a value cannot be represented in
// JSON, such as an infinite number, because a binding with an unreadable record could never be deleted.
func (r *StateRecord) Encode(adapterVersion string) ([]byte, error) {
	r.Format, r.Adapter, r.UpdatedAt = RecordFormat, adapterVersion, Now()
	text, err := json.Marshal(r.withoutEphemeral())
	if err != nil {
		return nil, fmt.Errorf("encoding the record: %w", err)
	}
	return text, nil
}

// AssignTo encodes the record and passes it to the workspace, which stores it in the state with its next Apply or
// StoreRecord. AssignTo itself stores nothing in the backend. Like Encode, it sets Format, Adapter and UpdatedAt. After
// an error, which is that of Encode, the workspace does not have the record.
func (r *StateRecord) AssignTo(space *workspace.Workspace, adapterVersion string) error {
	text, err := r.Encode(adapterVersion)
	if err == nil {
		space.SetRecord(text)
	}
	return err
}

// DecodeRecord decodes the record of a state; text is statestore.State.Record. Unknown keys are ignored. DecodeRecord
// returns an error if the text is empty, because the state has no record, if it is not valid JSON, or if its format is
// not supported.
func DecodeRecord(text []byte) (*StateRecord, error) {
	if len(text) == 0 {
		return nil, errors.New("reading the record: the state holds none; " +
			"its resource terraform_data._binding was removed")
	}
	var r StateRecord
	if err := value.Decode(text, &r); err != nil {
		return nil, fmt.Errorf("reading the record: %w", err)
	}
	if r.Format < 1 || r.Format > RecordFormat {
		return nil, fmt.Errorf("reading the record: format %d is not supported; was it made by a newer adapter?",
			r.Format)
	}
	for _, field := range []*map[string]any{
		&r.Request, &r.Inputs, &r.ImportedValues, &r.ImportedParameters, &r.Outputs,
	} {
		if *field != nil {
			*field, _ = value.Normalise(*field).(map[string]any)
		}
	}
	for input, calls := range r.Generated {
		r.Generated[input], _ = value.Normalise(calls).(map[string]any)
	}
	return &r, nil
}
