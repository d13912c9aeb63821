package statestore

import (
	"encoding/json"
	"fmt"
)

// The parts of OpenTofu's state format, version 4, that a Reservation consists of. All versions of OpenTofu since 1.6 write the same
// for the guard.
type (
	reservedState struct {
		Version   int                `json:"version"`
		Tofu      string             `json:"terraform_version"`
		Serial    uint64             `json:"serial"`
		Lineage   string             `json:"lineage"`
		Outputs   struct{}           `json:"outputs"`
		Resources []reservedResource `json:"resources"`
		Checks    any                `json:"check_results"`
	}
	reservedResource struct {
		Mode      string             `json:"mode"`
		Type      string             `json:"type"`
		Name      string             `json:"name"`
		Provider  string             `json:"provider"`
		Instances []reservedInstance `json:"instances"`
	}
	reservedInstance struct {
		SchemaVersion int            `json:"schema_version"`
		Attributes    map[string]any `json:"attributes"`
		Sensitive     any            `json:"sensitive_attributes"`
	}
	typedValue struct {
		Value any `json:"value"`
		Type  any `json:"type"`
	}
	pathStep struct {
		Type  string `json:"type"`
		Value string `json:"value"`
	}
)

// builtinProvider is the provider of terraform_data.
const builtinProvider = `provider["terraform.io/builtin/terraform"]`

// Reservation is the state that "apply" of the guard alone would store, in the place of an empty state or, with nil, of none.
func Reservation(empty []byte, version string, record []byte, nonce string) ([]byte, error) {
	before := edition{Lineage: NewID()}
	if len(empty) > 0 {
		if err := json.Unmarshal(empty, &before); err != nil {
			return nil, fmt.Errorf("reading state: %w", err)
		}
	}
	kind, name := SplitAddress(GuardAddress)
	input := typedValue{
		Value: guardInput{Record: string(record), Tofu: version},
		Type:  []any{"object", map[string]string{"record": "string", "tofu": "string"}},
	}
	return json.Marshal(reservedState{
		Version: 4, Tofu: version, Serial: before.Serial + 1, Lineage: before.Lineage,
		Resources: []reservedResource{{
			Mode: "managed", Type: kind, Name: name, Provider: builtinProvider,
			Instances: []reservedInstance{{
				Attributes: map[string]any{
					"id": NewID(), "input": input, "output": input, "triggers_replace": typedValue{Value: nonce, Type: "string"},
				},
				// The record is sensitive, because it comes from a variable that is.
				Sensitive: [][]pathStep{{{"get_attr", "input"}, {"get_attr", "record"}}},
			}},
		}},
	})
}
