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

// A StateRecord describes the binding or the instance that a state belongs to: its ids, the template, the values of the
// template's variables, the pak and the OpenTofu of the last apply, and its outcome. It is stored in the state, and
// contains everything that is needed to finish, apply or destroy the binding or the instance, except the values of
// ephemeral inputs and the executables. The executables, such as OpenTofu and the providers, are those of the installed
// paks, among which the recorded pak need not be. The record contains secrets. Its JSON form is one flat object with
// the fields of all parts. The zero value has no id and no template, and DecodeRecord rejects its JSON, which has no
// valid Format.
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

// A Subject identifies the binding or the instance of a record: the ids and names of the instance, the id of the
// binding if the record is that of a binding, and the organization and space of an instance. A Subject with an empty
// BindingID is an instance. The zero value identifies none.
type Subject struct {
	// BindingID is "" in the record of an instance.
	BindingID string `json:"binding_id,omitempty"`
	// Instance is the instance, or the one that the binding belongs to.
	record.Instance
	// Owner is the organization and space of an instance. It is empty for a binding, whose Request contains its owner.
	record.Owner
}

// KindAndID returns Binding and the id of the binding if the subject has a BindingID, and otherwise Instance and the id
// of the instance, which is "" for the zero Subject.
func (s Subject) KindAndID() (Kind, string) {
	if s.BindingID == "" {
		return Instance, s.InstanceID
	}
	return Binding, s.BindingID
}

// A Source is the template of a record, together with the pak, the OpenTofu and the providers that last applied it or
// are about to apply it. The template consists of its HCL files and the names of the inputs that may be declared as
// variables where a file uses one without declaring it. The zero value has no files and names no pak.
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

// AppliedWith names the pak, its version and the version of OpenTofu that last applied a template, for example
// "postgres", "1.2.0" and "1.10.6". A field is "" if it is unknown, and so are all fields of the zero value.
type AppliedWith struct {
	Pak        string `json:"pak,omitempty"`
	PakVersion string `json:"pak_version,omitempty"`
	Tofu       string `json:"tofu_version,omitempty"`
}

// SetInstallation sets the name and version of the pak, and the OpenTofu version and the providers of the installation,
// in place of the previous ones. The template does not change. The list of providers is copied. The pak must not be
// nil.
func (s *Source) SetInstallation(pak *brokerpak.Pak, installation opentofu.Installation) {
	s.Pak, s.PakVersion, s.Tofu = pak.Manifest.Name, pak.Manifest.Version, installation.Version
	s.Providers = slices.Clone(installation.Providers)
}

// Template returns the OpenTofu configuration that the record contains: its files by name, and the names of the inputs
// that may be declared as variables where a file uses one without declaring it. The result shares both with the record.
func (s *Source) Template() templates.Template {
	return templates.Template{Files: s.Templates, Inputs: s.Declared}
}

// ResolvedInputs are the values of the variables of a record's template, together with their origin: the request of a
// binding, the expressions that read the running instance, the generated values, and the descriptions of the ephemeral
// inputs. They contain secrets. The zero value means that the template has no inputs and that no request is recorded,
// as for an instance.
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

// LastApply describes the last apply of a record's template: the random id of the request's attempt, the outputs that
// bindings use until the next apply is complete, the reason of a failure, and the resources that are in no state. The
// outputs are recorded only if an errand applies the template. The zero value means that no failure, no lost resources
// and no outputs are recorded. It does not mean that an apply succeeded; the state itself contains the mark of a
// complete apply.
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

// An Import describes the existing resources that the creation of an instance imported: the import id of each address,
// the values of their attributes that count as parameters of the instance, and those that only fill inputs without any
// other value. All its fields are empty for a binding, and for an instance without an import.
type Import struct {
	// Imported are the imported resources, address → id.
	Imported map[string]string `json:"imported,omitempty"`
	// ImportedValues are values that attributes of these resources had at that time, by input, which are not parameters
	// of the instance.
	ImportedValues map[string]any `json:"found,omitempty"`
	// ImportedParameters are the values that count as parameters of the instance, by input.
	ImportedParameters map[string]any `json:"found_parameters,omitempty"`
}

// Times are the times of the first request and of the last change of a record, as RFC 3339 in UTC with whole seconds,
// for example "2025-01-31T12:00:00Z". They are "" in records of older releases and in the zero value.
type Times struct {
	// CreatedAt is the time of the first request.
	CreatedAt string `json:"created_at,omitempty"`
	// UpdatedAt is the time at which the record was last encoded.
	UpdatedAt string `json:"updated_at,omitempty"`
}

// A Failure is the reason why the last apply of an errand, or an operator's upgrade, failed: the message for the user,
// which may be "", and the whole error for operators. A nil *Failure in a record means that no failure is recorded. The
// zero value contains no text.
type Failure struct {
	// User is the message that the service definition has for the error, and "" if it has none. Operator is the whole
	// error.
	User     string `json:"user,omitempty"`
	Operator string `json:"operator"`
}

// A LiveInput is an input of a record whose expression reads the running instance, directly or through another such
// input: its manifest, secrets, addresses or outputs. It contains the name, the type to which the value is cast and
// the text of the expression, but not its value. A Type "" means that the value is not cast. The zero value describes
// no input.
type LiveInput struct {
	Name string `json:"name"`
	// Type is the type that the value of the expression is cast to. "" means that the value is not cast.
	Type string `json:"type,omitempty"`
	// Expr is the text of the expression.
	Expr string `json:"expr"`
}

// Importing reports whether the instance of this record has imported resources and no apply of it was ever complete, so
// that its import was not finished. An unfinished import is undone by dropping the imported resources from the state.
// state is the state that contains the record; it must not be nil. Importing returns false for a binding.
func (r *StateRecord) Importing(state *statestore.State) bool {
	return len(r.Imported) > 0 && state.Applied == nil
}

// Now returns the current time in the form of FormatTime: RFC 3339 in UTC with whole seconds, such as
// "2025-01-31T12:00:00Z".
func Now() string { return FormatTime(time.Now()) }

// FormatTime returns a time in the form that records use: RFC 3339 in UTC with whole seconds, such as
// "2025-01-31T12:00:00Z", so that sorting the texts sorts the times.
func FormatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Encode sets Format, Adapter and UpdatedAt of the record, the last to the current time, also if it then returns an
// error. It returns the record as JSON, for the state. adapterVersion is the version of this adapter, and becomes
// Adapter. The JSON does not contain the values of the inputs in Ephemeral, neither in Inputs nor among the generated
// and imported values; the record itself keeps them. Encode returns nil and an error if a value cannot be represented
// in JSON, such as an infinite number.
func (r *StateRecord) Encode(adapterVersion string) ([]byte, error) {
	r.Format, r.Adapter, r.UpdatedAt = RecordFormat, adapterVersion, Now()
	text, err := json.Marshal(r.withoutEphemeral())
	if err != nil {
		return nil, fmt.Errorf("encoding the record: %w", err)
	}
	return text, nil
}

// AssignTo encodes the record and passes it to the open workspace, which stores it in the state with its next Apply or
// StoreRecord. AssignTo itself stores nothing in the backend. Like Encode, it sets Format, Adapter and UpdatedAt, also
// if it fails; adapterVersion is the version of this adapter. It returns an error if a value of the record cannot be
// represented in JSON; the workspace does not get the record then.
func (r *StateRecord) AssignTo(space *workspace.Workspace, adapterVersion string) error {
	text, err := r.Encode(adapterVersion)
	if err == nil {
		space.SetRecord(text)
	}
	return err
}

// DecodeRecord decodes the JSON of a record, which is the field Record of a statestore.State. Unknown keys are ignored.
// The values in the maps of the result have the types that value.Normalise returns, such as int64 for integers. The
// values of ephemeral inputs are missing. DecodeRecord returns nil and an error if the text is empty, which means that
// the state has no record, if it is not valid JSON or does not fit a StateRecord, or if its format is not from 1 to
// RecordFormat.
func DecodeRecord(text []byte) (*StateRecord, error) {
	if len(text) == 0 {
		return nil, errors.New("reading the record: the state contains none; its resource terraform_data._binding " +
			"was removed")
	}
	var r StateRecord
	if err := value.Decode(text, &r); err != nil {
		return nil, fmt.Errorf("reading the record: %w", err)
	}
	if r.Format < 1 || r.Format > RecordFormat {
		return nil, fmt.Errorf("reading the record: format %d is not supported; a newer adapter may have written it",
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
