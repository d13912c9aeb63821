package statestore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"

	"service-adapter/internal/value"
)

// A revision identifies a version of a state by its lineage and its serial. The lineage is a random id that is chosen
// when the state is created. States with different lineages are not versions of each other, even if their workspaces
// have the same name. OpenTofu raises the serial with every change. The lineage is "" in the empty state that
// OpenTofu prints for a workspace without a stored state.
type revision struct {
	Lineage string `json:"lineage"`
	Serial  uint64 `json:"serial"`
}

// A content is the part of a state that is compared with another state: its revision, outputs and resources, decoded
// from JSON into a form that reflect.DeepEqual can compare. Outputs or resources that the state lacks are nil.
type content struct {
	revision
	Outputs   any `json:"outputs"`
	Resources any `json:"resources"`
}

// contentOf decodes the text of an unencrypted state. A missing key yields the zero value, so null and any JSON object
// without the keys of a state yield a zero content and no error. contentOf returns a zero content and an error if the
// text is any other JSON value, is not valid JSON, or is followed by more data, or if the lineage is not a string or
// the serial is not an integer from 0 to 2⁶⁴-1.
func contentOf(text []byte) (content, error) {
	var decoded content
	if err := value.Decode(text, &decoded); err != nil {
		return content{}, fmt.Errorf("reading state: %w", err)
	}
	decoded.Outputs, decoded.Resources = value.Normalise(decoded.Outputs), value.Normalise(decoded.Resources)
	return decoded, nil
}

// Superseded reports whether unsaved, the text of a state that a run could not store, must not replace stored, the text
// of the stored state, because the stored state is not the predecessor of the unsaved one. That is so if the stored
// state has another lineage, a higher serial, the same serial with other resources, or the nonce of another
// reservation. Outputs are not compared. Both texts are unencrypted.
//
// A stored text that is empty or white space means that the backend has no state, and yields false without reading the
// unsaved text. unsavedState and storedState are the results of Parse for the two texts. The nonces are compared only
// if both are not nil and the stored one has a nonce; an unsaved state without a nonce then counts as one of another
// reservation. Superseded returns false and an error if the unsaved text is empty, or if one of the texts is neither a
// JSON object nor null, or has a lineage or serial of another type.
func Superseded(unsaved, stored []byte, unsavedState, storedState *State) (bool, error) {
	if len(bytes.TrimSpace(stored)) == 0 {
		return false, nil
	}
	ours, err := contentOf(unsaved)
	theirs, otherErr := contentOf(stored)
	if err := errors.Join(err, otherErr); err != nil {
		return false, err
	}
	if unsavedState != nil && storedState != nil && storedState.Nonce != "" && unsavedState.Nonce != storedState.Nonce {
		return true, nil
	}
	return ours.Lineage != theirs.Lineage || theirs.Serial > ours.Serial ||
		theirs.Serial == ours.Serial && !reflect.DeepEqual(ours.Resources, theirs.Resources), nil
}

// IsStored reports whether the output of "tofu state pull" is a stored state. It is false for a JSON object without a
// lineage, or with an empty lineage, because OpenTofu prints such an empty state if no state is stored. It is true for
// a text that cannot be decoded, such as an empty text and a text that is not JSON.
func IsStored(text []byte) bool {
	var pulled revision
	return json.Unmarshal(text, &pulled) != nil || pulled.Lineage != ""
}

// Changed reports whether the serial or the lineage of a state differs between the texts before and now. Both are
// unencrypted. It does not compare resources or outputs. If one of the texts cannot be decoded, for example because it
// is empty or not JSON, Changed reports whether the texts differ in any byte; two empty texts are equal.
func Changed(before, now []byte) bool {
	var old, current revision
	if json.Unmarshal(before, &old) != nil || json.Unmarshal(now, &current) != nil {
		return !bytes.Equal(now, before)
	}
	return current != old
}

// SameContent reports whether two states have the same lineage, outputs and resources. It decodes only the field Text
// of each. It ignores the serial, which OpenTofu raises when it stores a state in another backend, and the layout of
// the texts. It returns false if a text is empty or is not a state in JSON. Neither a nor b may be nil.
func SameContent(a, b *State) bool {
	one, err := contentOf(a.Text)
	other, otherErr := contentOf(b.Text)
	one.Serial = other.Serial
	return err == nil && otherErr == nil && reflect.DeepEqual(one, other)
}

// edit decodes the text of an unencrypted state, lets change modify the keys of the JSON object, and returns the new
// text as compact JSON with sorted keys. The values that change does not replace keep the order of their nested keys
// and the digits of their numbers: OpenTofu compares texts when it decides whether to raise the serial, and would raise
// it once more if a nested key moved. edit returns an error that starts with "reading state: " if the text is not a
// JSON object, and wraps any error of change likewise. For the text null, change is called with a nil map.
func edit(text []byte, change func(state map[string]json.RawMessage) error) ([]byte, error) {
	var state map[string]json.RawMessage
	err := json.Unmarshal(text, &state)
	if err == nil {
		err = change(state)
	}
	if err != nil {
		return nil, fmt.Errorf("reading state: %w", err)
	}
	return json.Marshal(state)
}

// NextSerial returns the text of an unencrypted state with a serial that is higher by one and with all other content
// unchanged. The result is compact JSON, with the top-level keys in sorted order. NextSerial returns an error if the
// text is not a JSON object, or if its serial is missing or is not an integer of at least 0.
func NextSerial(text []byte) ([]byte, error) {
	return edit(text, func(state map[string]json.RawMessage) error {
		serial, err := strconv.ParseUint(string(state["serial"]), 10, 64)
		if err != nil {
			return errors.New("it has no serial")
		}
		state["serial"] = strconv.AppendUint(nil, serial+1, 10)
		return nil
	})
}

// WithoutContent returns the text of an unencrypted state with an empty list of resources, no outputs and no check
// results. All other keys, among them the lineage and the serial, are unchanged. The result is compact JSON, with the
// top-level keys in sorted order. WithoutContent returns an error if the text is not a JSON object. The text must not
// be null.
func WithoutContent(text []byte) ([]byte, error) {
	return edit(text, func(state map[string]json.RawMessage) error {
		delete(state, "check_results")
		state["resources"], state["outputs"] = json.RawMessage("[]"), json.RawMessage("{}")
		return nil
	})
}

// WithRecord returns the text of an unencrypted state in which the guard holds another record. The guard is the
// resource terraform_data._binding, which the adapter adds to every template to reserve the workspace and to hold the
// adapter's record. The record is stored as a string and not checked. The serial and the nonce do not change. The mark
// of a complete apply and the output with the applied record also stay, and still describe the old record; the caller
// must therefore not treat the new record as applied.
//
// WithRecord returns an error if the text is not a JSON object, if it has no list of resources or no guard in it, or if
// the guard does not have exactly one instance with an input and an output.
func WithRecord(text, record []byte) ([]byte, error) {
	return edit(text, func(state map[string]json.RawMessage) error {
		var resources []json.RawMessage
		err := json.Unmarshal(state["resources"], &resources)
		for n := range resources {
			guard, err := value.DecodeObject(resources[n])
			if err != nil || !isGuard(guard) {
				continue
			}
			if err := replaceRecord(guard, record); err != nil {
				return err
			}
			resources[n] = value.MustJSON(guard)
			state["resources"] = value.MustJSON(resources)
			return nil
		}
		return errors.Join(err, errors.New("it has no guard"))
	})
}

// replaceRecord changes guard, the decoded JSON object of the guard in the resources of a state: it sets the record as
// a string in the attributes input and output of the guard's instance. It returns an error if the guard does not have
// exactly one instance, or if the "value" of its input or output is not an object; in the latter case the input may
// have been changed.
func replaceRecord(guard map[string]any, record []byte) error {
	unexpected := errors.New("its guard has an unexpected form")
	instances := value.Mappings(guard["instances"])
	if len(instances) != 1 {
		return unexpected
	}
	attributes, _ := instances[0]["attributes"].(map[string]any)
	for _, name := range []string{"input", "output"} {
		attribute, ok := valueOf(attributes[name]).(map[string]any)
		if !ok {
			return unexpected
		}
		attribute["record"] = string(record)
	}
	return nil
}

// reservation is the state that Reservation returns, in OpenTofu's state format, version 4. OpenTofu has written the
// guard in this form since version 1.6. The record is marked as sensitive because its variable is. The formatting verbs
// are filled with the version of OpenTofu, the serial, the lineage, the type, the name and the id of the guard, its
// input and the nonce.
const reservation = `{"version":4,"terraform_version":%s,"serial":%s,"lineage":%s,"outputs":{},"resources":[` +
	`{"mode":"managed","type":%s,"name":%s,"provider":"provider[\"terraform.io/builtin/terraform\"]","instances":[` +
	`{"schema_version":0,"attributes":{"id":%s,"input":%[7]s,"output":%[7]s,` +
	`"triggers_replace":{"value":%s,"type":"string"}},` +
	`"sensitive_attributes":[[{"type":"get_attr","value":"input"},{"type":"get_attr","value":"record"}]]}]}],` +
	`"check_results":null}`

// guardInput is the input of the guard in a state. The formatting verbs are filled with the record and the version of
// OpenTofu.
const guardInput = `{"value":{"record":%s,"tofu":%s},"type":["object",{"record":"string","tofu":"string"}]}`

// Reservation returns the text of an unencrypted state that contains only the guard with the record, as OpenTofu would
// store it after an apply of the guard alone. Storing it reserves the workspace. The parameter empty is the text of the
// stored state that it replaces, which must have no resources and outputs. The result has the next serial and the
// lineage of that state, or a new lineage if that state has no key "lineage". If empty has no bytes, the backend has no
// state, and the result has a new lineage and the serial 1.
//
// The version is that of OpenTofu, such as "1.10.6". The nonce identifies the reservation; it and the record are stored
// as strings and not checked. Reservation returns nil and an error if the text empty is neither a JSON object nor null,
// or has a lineage or serial of another type.
func Reservation(empty []byte, version string, record []byte, nonce string) ([]byte, error) {
	before := revision{Lineage: NewID()}
	if len(empty) > 0 {
		if err := json.Unmarshal(empty, &before); err != nil {
			return nil, fmt.Errorf("reading state: %w", err)
		}
	}
	kind, name := SplitAddress(GuardAddress)
	serial := json.Number(strconv.FormatUint(before.Serial+1, 10))
	input := formatJSON(guardInput, string(record), version)
	return formatJSON(reservation, version, serial, before.Lineage, kind, name, NewID(), json.RawMessage(input), nonce),
		nil
}

// formatJSON formats a text like fmt.Appendf, with each value encoded as JSON. The verbs in the text must be %s, or
// %[n]s for the n-th value. formatJSON overwrites the elements of values with their encodings. A value that cannot be
// encoded as JSON is formatted as an empty text.
func formatJSON(text string, values ...any) []byte {
	for n := range values {
		values[n], _ = json.Marshal(values[n]) // strings, numbers and valid JSON are always encoded without an error
	}
	return fmt.Appendf(nil, text, values...)
}
