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

// revision identifies a version of a state. OpenTofu raises the serial with every change. Two states with different
// lineages do not belong to the same workspace.
type revision struct {
	Lineage string `json:"lineage"`
	Serial  uint64 `json:"serial"`
}

// content is the revision of a state with its outputs and resources, in a form that reflect.DeepEqual can compare.
type content struct {
	revision
	Outputs   any `json:"outputs"`
	Resources any `json:"resources"`
}

// contentOf decodes the text of a state. It returns an error if the text is not JSON of this form.
func contentOf(text []byte) (content, error) {
	var decoded content
	if err := value.Decode(text, &decoded); err != nil {
		return content{}, fmt.Errorf("reading state: %w", err)
	}
	decoded.Outputs, decoded.Resources = value.Normalise(decoded.Outputs), value.Normalise(decoded.Resources)
	return decoded, nil
}

// Superseded reports whether an unsaved state must not replace the stored one, because the stored state is not the
// predecessor of the unsaved one. That is so if the stored state has a higher serial, the same serial with other
// resources, another lineage, or the nonce of another reservation. An empty stored text means that the backend has no
// state, and yields false. The states are those that Parse returns for the texts; a nil state has no nonce to compare.
// Superseded returns an error if a text is not a state.
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

// IsStored reports whether the output of "state pull" is a stored state. If no state is stored, OpenTofu prints an
// empty state without a lineage. A text that is not JSON, also an empty one, counts as a stored state.
func IsStored(text []byte) bool {
	var pulled revision
	return json.Unmarshal(text, &pulled) != nil || pulled.Lineage != ""
}

// Changed reports whether the serial or the lineage of a state changed. If a text is not JSON, it reports whether the
// texts differ.
func Changed(before, now []byte) bool {
	var old, current revision
	if json.Unmarshal(before, &old) != nil || json.Unmarshal(now, &current) != nil {
		return !bytes.Equal(now, before)
	}
	return current != old
}

// SameContent reports whether two states have the same lineage, outputs and resources. It ignores the serial, which
// OpenTofu raises when it stores a state in another backend, and the layout of the texts. Neither may be nil. It
// returns false if a text is not a state.
func SameContent(a, b *State) bool {
	one, err := contentOf(a.Text)
	other, otherErr := contentOf(b.Text)
	one.Serial = other.Serial
	return err == nil && otherErr == nil && reflect.DeepEqual(one, other)
}

// edit decodes the text of a state, lets change modify its keys, and returns the new text. It returns an error if the
// text is not a JSON object, and the errors of change. The values of all other keys keep their exact text: OpenTofu
// compares texts when it decides whether to raise the serial, and would raise it once more if a nested key moved.
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

// NextSerial returns the text of a state with a serial that is higher by one. It returns an error if the text is not a
// state with a serial.
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

// WithoutContent returns the text of a state without resources, outputs and check results, with the lineage and the
// serial unchanged. It returns an error if the text is not a JSON object.
func WithoutContent(text []byte) ([]byte, error) {
	return edit(text, func(state map[string]json.RawMessage) error {
		delete(state, "check_results")
		state["resources"], state["outputs"] = json.RawMessage("[]"), json.RawMessage("{}")
		return nil
	})
}

// WithRecord returns the text of a state in which the guard holds another record. The serial and the nonce do not
// change. The mark of a complete apply and the output with the applied record stay, so the caller must not treat the
// new record as applied. It returns an error if the text is not a state or its guard is missing or has an unexpected
// form.
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

// replaceRecord changes a guard that was decoded from a state: it sets the record in its input and its output. It
// returns an error if the guard does not have exactly one instance with an input and an output; the guard may then be
// changed in part.
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

// Reservation returns a state that contains only the guard with the record, as OpenTofu would store it after an apply
// of the guard. It has the lineage of the empty state that it replaces, and the next serial. If empty is nil, the
// backend has no state, and the lineage is new. The version is that of OpenTofu, and the nonce identifies the
// reservation. Reservation returns an error if the empty state is not JSON.
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

// formatJSON formats a text like fmt.Appendf, with each value encoded as JSON. It overwrites the elements of values.
func formatJSON(text string, values ...any) []byte {
	for n := range values {
		values[n], _ = json.Marshal(values[n]) // strings, numbers and valid JSON are always encoded without an error
	}
	return fmt.Appendf(nil, text, values...)
}
