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

// edition is what tells the versions of a state apart.
type edition struct {
	Lineage   string          `json:"lineage"`
	Serial    uint64          `json:"serial"`
	Resources json.RawMessage `json:"resources"`
}

// Superseded tells whether the stored state is not the one that an unsaved state follows: it is newer, or of another lineage or
// reservation.
func Superseded(unsaved, stored []byte, unsavedState, storedState *State) (bool, error) {
	if len(bytes.TrimSpace(stored)) == 0 {
		return false, nil
	}
	var ours, theirs edition
	if err := errors.Join(json.Unmarshal(unsaved, &ours), json.Unmarshal(stored, &theirs)); err != nil {
		return false, fmt.Errorf("reading state: %w", err)
	}
	if unsavedState != nil && storedState != nil && storedState.Nonce != "" && unsavedState.Nonce != storedState.Nonce {
		return true, nil
	}
	var a, b bytes.Buffer
	if err := errors.Join(compact(&a, ours.Resources), compact(&b, theirs.Resources)); err != nil {
		return false, fmt.Errorf("reading state: %w", err)
	}
	return ours.Lineage != theirs.Lineage || theirs.Serial > ours.Serial ||
		theirs.Serial == ours.Serial && !bytes.Equal(a.Bytes(), b.Bytes()), nil
}

func compact(to *bytes.Buffer, text json.RawMessage) error {
	if len(text) == 0 {
		return nil
	}
	return json.Compact(to, text)
}

// Exists tells whether the output of "state pull" is a stored state. Where there is none, OpenTofu tells an empty one without lineage.
func Exists(text []byte) bool {
	var told edition
	return json.Unmarshal(text, &told) != nil || told.Lineage != ""
}

// Changed tells whether a state is another one than before: every change raises the serial.
func Changed(before, now []byte) bool {
	var old, present edition
	if json.Unmarshal(now, &present) != nil || json.Unmarshal(before, &old) != nil {
		return !bytes.Equal(now, before)
	}
	return present.Lineage != old.Lineage || present.Serial != old.Serial
}

// Same tells whether two states hold the same, however they are written. OpenTofu raises the serial of what it stores in another place.
func Same(a, b *State) bool {
	one, err := value.DecodeObject(a.Text)
	other, otherErr := value.DecodeObject(b.Text)
	if err != nil || otherErr != nil {
		return false
	}
	for _, part := range []string{"lineage", "outputs", "resources"} {
		if !reflect.DeepEqual(one[part], other[part]) {
			return false
		}
	}
	return true
}

// NextSerial raises the serial of a state, and changes nothing else.
func NextSerial(text []byte) ([]byte, error) {
	var file map[string]json.RawMessage
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("reading state: %w", err)
	}
	serial, err := strconv.ParseUint(string(file["serial"]), 10, 64)
	if err != nil {
		return nil, errors.New("reading state: it has no serial")
	}
	file["serial"] = strconv.AppendUint(nil, serial+1, 10)
	return json.Marshal(file)
}

// WithoutContent is a state that holds nothing, with the lineage and the serial of another one.
func WithoutContent(text []byte) ([]byte, error) {
	var file map[string]json.RawMessage
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("reading state: %w", err)
	}
	delete(file, "check_results")
	file["resources"], file["outputs"] = json.RawMessage("[]"), json.RawMessage("{}")
	return json.Marshal(file)
}

// WithRecord is a state whose guard holds another record, which the caller must not take for applied.
func WithRecord(text, record []byte) ([]byte, error) {
	var file struct {
		Resources []map[string]json.RawMessage `json:"resources"`
	}
	all := map[string]json.RawMessage{}
	if err := errors.Join(json.Unmarshal(text, &file), json.Unmarshal(text, &all)); err != nil {
		return nil, fmt.Errorf("reading state: %w", err)
	}
	kind, name := SplitAddress(GuardAddress)
	for _, resource := range file.Resources {
		if string(resource["type"]) != strconv.Quote(kind) || string(resource["name"]) != strconv.Quote(name) || resource["module"] != nil {
			continue
		}
		var instances []map[string]any
		if err := value.Decode(resource["instances"], &instances); err != nil || len(instances) != 1 {
			return nil, errors.New("reading state: its guard is not as it should be")
		}
		attributes, _ := instances[0]["attributes"].(map[string]any)
		for _, part := range []string{"input", "output"} {
			dynamic, _ := attributes[part].(map[string]any)
			held, ok := dynamic["value"].(map[string]any)
			if !ok {
				return nil, errors.New("reading state: its guard is not as it should be")
			}
			held["record"] = string(record)
		}
		encoded, err := json.Marshal(instances)
		if err != nil {
			return nil, err
		}
		resource["instances"] = encoded
		if all["resources"], err = json.Marshal(file.Resources); err != nil {
			return nil, err
		}
		return json.Marshal(all)
	}
	return nil, errors.New("reading state: it has no guard")
}
