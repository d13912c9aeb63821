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

// revision tells the versions of a state apart.
type revision struct {
	Lineage string `json:"lineage"`
	Serial  uint64 `json:"serial"`
}

// edition is a revision of a state with what it holds.
type edition struct {
	revision
	Outputs   any `json:"outputs"`
	Resources any `json:"resources"`
}

func editionOf(text []byte) (edition, error) {
	var found edition
	if err := value.Decode(text, &found); err != nil {
		return edition{}, fmt.Errorf("reading state: %w", err)
	}
	found.Outputs, found.Resources = value.Normalise(found.Outputs), value.Normalise(found.Resources)
	return found, nil
}

// Superseded tells whether the stored state is not the one that an unsaved state follows: it is newer, or of another lineage or
// reservation.
func Superseded(unsaved, stored []byte, unsavedState, storedState *State) (bool, error) {
	if len(bytes.TrimSpace(stored)) == 0 {
		return false, nil
	}
	ours, err := editionOf(unsaved)
	theirs, otherErr := editionOf(stored)
	if err := errors.Join(err, otherErr); err != nil {
		return false, err
	}
	if unsavedState != nil && storedState != nil && storedState.Nonce != "" && unsavedState.Nonce != storedState.Nonce {
		return true, nil
	}
	return ours.Lineage != theirs.Lineage || theirs.Serial > ours.Serial ||
		theirs.Serial == ours.Serial && !reflect.DeepEqual(ours.Resources, theirs.Resources), nil
}

// Exists tells whether the output of "state pull" is a stored state. Where there is none, OpenTofu tells an empty one without lineage.
func Exists(text []byte) bool {
	var told revision
	return json.Unmarshal(text, &told) != nil || told.Lineage != ""
}

// Changed tells whether a state is another one than before: every change raises the serial.
func Changed(before, now []byte) bool {
	var old, present revision
	if json.Unmarshal(before, &old) != nil || json.Unmarshal(now, &present) != nil {
		return !bytes.Equal(now, before)
	}
	return present != old
}

// Same tells whether two states hold the same, however they are written. OpenTofu raises the serial of what it stores in another place.
func Same(a, b *State) bool {
	one, err := editionOf(a.Text)
	other, otherErr := editionOf(b.Text)
	one.Serial = other.Serial
	return err == nil && otherErr == nil && reflect.DeepEqual(one, other)
}

// edit changes parts of a state. All others stay as they are written: OpenTofu compares what it is given with what is stored as texts, and
// raises the serial once more where a key has another place.
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

// NextSerial raises the serial of a state, and changes nothing else.
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

// WithoutContent is a state that holds nothing, with the lineage and the serial of another one.
func WithoutContent(text []byte) ([]byte, error) {
	return edit(text, func(state map[string]json.RawMessage) error {
		delete(state, "check_results")
		state["resources"], state["outputs"] = json.RawMessage("[]"), json.RawMessage("{}")
		return nil
	})
}

// WithRecord is a state whose guard holds another record, which the caller must not take for applied.
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

func replaceRecord(guard map[string]any, record []byte) error {
	wrong := errors.New("its guard is not as it should be")
	instances := value.Mappings(guard["instances"])
	if len(instances) != 1 {
		return wrong
	}
	attributes, _ := instances[0]["attributes"].(map[string]any)
	for _, part := range []string{"input", "output"} {
		held, ok := valueOf(attributes[part]).(map[string]any)
		if !ok {
			return wrong
		}
		held["record"] = string(record)
	}
	return nil
}

// reservation is a Reservation in OpenTofu's state format, version 4. All versions of OpenTofu since 1.6 write the same for the guard. The
// record is sensitive, because it comes from a variable that is. The holes are the version of OpenTofu, the serial, the lineage, the type,
// the name and the id of the guard, its input and the nonce.
const reservation = `{"version":4,"terraform_version":%s,"serial":%s,"lineage":%s,"outputs":{},"resources":[` +
	`{"mode":"managed","type":%s,"name":%s,"provider":"provider[\"terraform.io/builtin/terraform\"]","instances":[` +
	`{"schema_version":0,"attributes":{"id":%s,"input":%[7]s,"output":%[7]s,"triggers_replace":{"value":%s,"type":"string"}},` +
	`"sensitive_attributes":[[{"type":"get_attr","value":"input"},{"type":"get_attr","value":"record"}]]}]}],"check_results":null}`

// guardInput is the input of the guard: the record and the version of OpenTofu.
const guardInput = `{"value":{"record":%s,"tofu":%s},"type":["object",{"record":"string","tofu":"string"}]}`

// Reservation is the state that "apply" of the guard alone would store, in the place of an empty state or, with nil, of none.
func Reservation(empty []byte, version string, record []byte, nonce string) ([]byte, error) {
	before := revision{Lineage: NewID()}
	if len(empty) > 0 {
		if err := json.Unmarshal(empty, &before); err != nil {
			return nil, fmt.Errorf("reading state: %w", err)
		}
	}
	kind, name := SplitAddress(GuardAddress)
	serial := json.Number(strconv.FormatUint(before.Serial+1, 10))
	input := filled(guardInput, string(record), version)
	return filled(reservation, version, serial, before.Lineage, kind, name, NewID(), json.RawMessage(input), nonce), nil
}

// filled fills the holes of a text in JSON.
func filled(text string, values ...any) []byte {
	for n := range values {
		values[n], _ = json.Marshal(values[n]) // texts and numbers can be encoded
	}
	return fmt.Appendf(nil, text, values...)
}
