package lifecycle

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"service-adapter/brokerpak"
	"service-adapter/internal/opentofu"
	"service-adapter/internal/record"
	"service-adapter/internal/statestore"
	"service-adapter/internal/tofu"
	"service-adapter/internal/value"
)

// RecordFormat is the version of the record; it changes only when an older adapter could misread a newer record.
const RecordFormat = 1

// Record is what a state remembers of the binding or instance it belongs to, so that it can be deleted whatever pak is installed
// by then.
type Record struct {
	Format int `json:"format"`
	// BindingID is empty for an instance.
	BindingID string `json:"binding_id,omitempty"`
	record.Instance
	Pak        string              `json:"pak"`
	PakVersion string              `json:"pak_version"`
	Tofu       string              `json:"tofu_version"`
	Providers  []opentofu.Provider `json:"providers,omitempty"`
	// CreatedAt is when it was first asked for, UpdatedAt when the record was last changed, as Now tells; "" in records of older releases.
	CreatedAt string `json:"created_at,omitempty"`
	UpdatedAt string `json:"updated_at,omitempty"`
	// Owner is whose an instance is; what a binding is for is in its request.
	record.Owner
	// Templates are the HCL files; Declared are the inputs that may be declared for them.
	Templates map[string]string `json:"templates"`
	Declared  []string          `json:"declared,omitempty"`
	// Request is the request as it came; an instance remembers none.
	Request map[string]any `json:"request,omitempty"`
	// Inputs are the resolved variables.
	Inputs map[string]any `json:"inputs"`
	// Live are the inputs that depend on the running instance, in the order of evaluation.
	Live []LiveInput `json:"live,omitempty"`
	// Generated are the generated values: input → call → value.
	Generated map[string]map[string]any `json:"generated,omitempty"`
	// Imported are resources that existed before the instance and were taken over, address → id. Found are the values that their
	// attributes had then, by input, where no parameter of the instance has them; Parameters are those that count as parameters.
	Imported   map[string]string `json:"imported,omitempty"`
	Found      map[string]any    `json:"found,omitempty"`
	Parameters map[string]any    `json:"found_parameters,omitempty"`
	// Attempt differs in each request that ran OpenTofu for an instance: to change it back to what it was, after an update that
	// failed, is a change as well.
	Attempt string `json:"attempt,omitempty"`
	// Outputs are those of the last complete apply, where an errand applies: bindings use them until the next one is complete.
	Outputs map[string]any `json:"outputs,omitempty"`
	// Failure says why the last apply of an errand failed in order, with all that it made in the state; nil when it did not.
	Failure *Failure `json:"failure,omitempty"`
	// Lost are the addresses of resources that a creation made and that are in no state.
	Lost []string `json:"lost,omitempty"`
}

// Failure is why an errand failed.
type Failure struct {
	// User is the sentence of the service definition's errors, "" without one; Operator is the whole error.
	User     string `json:"user,omitempty"`
	Operator string `json:"operator"`
}

// LiveInput is an input whose expression reads the running instance: its manifest, secrets, addresses or outputs.
type LiveInput struct {
	Name string `json:"name"`
	Type string `json:"type,omitempty"`
	Expr string `json:"expr"`
}

// Of returns the kind of what the record belongs to, and its id.
func (r *Record) Of() (Kind, string) {
	if r.BindingID == "" {
		return Instance, r.InstanceID
	}
	return Binding, r.BindingID
}

// Importing tells whether an import was not finished: to undo it is to forget the imported resources. It is finished by the first
// apply that is complete.
func (r *Record) Importing(state *statestore.State) bool {
	return len(r.Imported) > 0 && state.Applied == nil
}

// MadeBy notes the pak, and what it runs with.
func (r *Record) MadeBy(pak *brokerpak.Pak, installation opentofu.Installation) {
	r.Pak, r.PakVersion, r.Tofu = pak.Manifest.Name, pak.Manifest.Version, installation.Version
	r.Providers = slices.Clone(installation.Providers)
}

// Now is the time as records have it: RFC 3339 in UTC and whole seconds, so that texts sort as times do.
func Now() string { return Time(time.Now()) }

// Time is a time as records have it.
func Time(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Encode renders the record for the state, as of now. It fails where the request holds a number that no double holds: what has a record that
// cannot be read could never be deleted.
func (r *Record) Encode() ([]byte, error) {
	r.Format, r.UpdatedAt = RecordFormat, Now()
	text, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encoding the record: %w", err)
	}
	return text, nil
}

// StoreWith has the next operation of a workspace store the record.
func (r *Record) StoreWith(space *tofu.Workspace) error {
	text, err := r.Encode()
	if err == nil {
		space.SetRecord(text)
	}
	return err
}

// DecodeRecord reads a record from the state.
func DecodeRecord(data []byte) (*Record, error) {
	if len(data) == 0 {
		return nil, errors.New("reading the record: the state holds none; its resource terraform_data._binding was removed")
	}
	var r Record
	if err := value.Decode(data, &r); err != nil {
		return nil, fmt.Errorf("reading the record: %w", err)
	}
	if r.Format < 1 || r.Format > RecordFormat {
		return nil, fmt.Errorf("reading the record: format %d is not supported; was it made by a newer adapter?", r.Format)
	}
	for _, field := range []*map[string]any{&r.Request, &r.Inputs, &r.Found, &r.Parameters, &r.Outputs} {
		if *field != nil {
			*field, _ = value.Normalise(*field).(map[string]any)
		}
	}
	for input, calls := range r.Generated {
		r.Generated[input], _ = value.Normalise(calls).(map[string]any)
	}
	return &r, nil
}

// Template is the OpenTofu configuration.
func (r *Record) Template() tofu.Template {
	return tofu.Template{Files: r.Templates, Inputs: r.Declared}
}
