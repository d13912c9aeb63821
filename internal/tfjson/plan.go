package tfjson

import (
	"bytes"
	"fmt"
	"slices"

	"service-adapter/internal/value"
)

// What a plan does.
const (
	Create  = "create"
	Update  = "change"
	Destroy = "destroy"
	Replace = "replace"
)

// Change is what is, or will be, different at one place. It holds no values.
type Change struct {
	// Address is that of a managed resource with its instance keys, or "output." and the name of an output.
	Address string `json:"address"`
	// Action is what a plan does, or what somebody did: "changed" or "gone".
	Action string `json:"action"`
	// Attributes are the names of the top-level attributes that differ, sorted, where the object exists before and after.
	Attributes []string `json:"attributes,omitempty"`
}

// DecodePlan reads from what "tofu show -json" prints of a plan what it does to managed resources, in the order of the document. Of a plan of
// "-refresh-only", drift, it reads what differs from the state, and then the outputs that do so. Errors tell nothing of its values.
func DecodePlan(planJSON []byte, drift bool) ([]Change, error) {
	type change struct {
		Address, Mode string
		Change        struct {
			Actions       []string
			Before, After any
		}
	}
	var plan struct {
		Changes []change `json:"resource_changes"`
		Drift   []change `json:"resource_drift"`
		Outputs map[string]struct {
			Actions []string
		} `json:"output_changes"`
	}
	if err := value.Decode(planJSON, &plan); err != nil {
		return nil, fmt.Errorf("reading the plan that OpenTofu shows: %w", err)
	}
	all, words := plan.Changes, map[string]string{
		"[create]": Create, "[update]": Update, "[delete]": Destroy, "[delete create]": Replace, "[create delete]": Replace,
	}
	if drift {
		all, words = plan.Drift, map[string]string{"[update]": "changed", "[delete]": "gone"}
	}
	var found []Change
	for _, c := range all {
		if action := words[fmt.Sprint(c.Change.Actions)]; action != "" && c.Mode == "managed" {
			found = append(found, Change{Address: c.Address, Action: action, Attributes: Differing(c.Change.Before, c.Change.After)})
		}
	}
	for _, name := range value.Keys(plan.Outputs) {
		if drift && !slices.Contains(plan.Outputs[name].Actions, "no-op") {
			found = append(found, Change{Address: "output." + name, Action: "changed"})
		}
	}
	return found, nil
}

// Differing are the names of attributes, or of variables, that differ between two objects, sorted; none where one of them does not exist.
func Differing(before, after any) []string {
	old, _ := before.(map[string]any)
	now, _ := after.(map[string]any)
	if old == nil || now == nil {
		return nil
	}
	return slices.DeleteFunc(value.Keys(value.Merge(old, now)), func(name string) bool {
		return bytes.Equal(value.MustJSON(old[name]), value.MustJSON(now[name]))
	})
}
