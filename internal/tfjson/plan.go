package tfjson

import (
	"bytes"
	"fmt"
	"slices"

	"service-adapter/internal/value"
)

// The actions of a plan, as Change.Action holds them.
const (
	Create  = "create"
	Update  = "change"
	Destroy = "destroy"
	Replace = "replace"
)

// A Change is a difference in one resource or output that a plan will make, or that was detected as drift. Address is
// the address of the resource, such as "aws_instance.web[0]", or "output.NAME". Action is Create, Update, Destroy or
// Replace for a plan, and "changed" or "gone" for drift. Attributes are the sorted names of the top-level attributes
// that differ; it is empty for an output, and for an object that does not exist both before and after the change. A
// Change contains no values.
type Change struct {
	// Address is the address of a managed resource with its instance keys, or "output." and the name of an output.
	Address string `json:"address"`
	// Action is Create, Update, Destroy or Replace for a plan. For drift, which was caused outside of OpenTofu, it is
	// "changed" or "gone".
	Action string `json:"action"`
	// Attributes are the sorted names of the top-level attributes that differ. It is empty if the object does not exist
	// both before and after the change.
	Attributes []string `json:"attributes,omitempty"`
}

// DecodePlan returns the changes of managed resources in a plan, in the order of the document: those that are created,
// changed, destroyed or replaced. The destruction of a deposed object counts as one of its resource. A resource that
// OpenTofu forgets and creates again, because its lifecycle block sets destroy = false, counts as replaced. Resources
// that stay as they are, or that are only read or forgotten, are left out, and so are outputs. planJSON is the output
// of "tofu show -json" for a plan file.
//
// If drift is true, the plan must be one of "-refresh-only". DecodePlan then returns the managed resources that differ
// from the state, with the action "changed" or "gone", followed by the outputs that differ, sorted by name, with the
// action "changed" and without Attributes.
//
// DecodePlan returns nil if there are no changes. It returns nil and an error, which contains no values of the plan, if
// planJSON is not exactly one valid JSON document or a field has another type.
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
	all, actions := plan.Changes, map[string]string{
		"[create]": Create, "[update]": Update, "[delete]": Destroy, "[delete create]": Replace,
		"[create delete]": Replace, "[forget create]": Replace, "[create forget]": Replace,
	}
	if drift {
		all, actions = plan.Drift, map[string]string{"[update]": "changed", "[delete]": "gone"}
	}
	var changes []Change
	for _, c := range all {
		if action := actions[fmt.Sprint(c.Change.Actions)]; action != "" && c.Mode == "managed" {
			differing := Differing(c.Change.Before, c.Change.After)
			changes = append(changes, Change{Address: c.Address, Action: action, Attributes: differing})
		}
	}
	for _, name := range value.Keys(plan.Outputs) {
		if drift && !slices.Contains(plan.Outputs[name].Actions, "no-op") {
			changes = append(changes, Change{Address: "output." + name, Action: "changed"})
		}
	}
	return changes, nil
}

// Differing returns the sorted names of the attributes, or of the variables, whose values differ between two objects,
// before and after, which are of the type map[string]any. Values are compared as JSON, so the same number in another
// notation differs, and a name that only one object has counts as null in the other. The result is empty if no values
// differ, and also if before or after is nil or not of that type.
func Differing(before, after any) []string {
	earlier, _ := before.(map[string]any)
	later, _ := after.(map[string]any)
	if earlier == nil || later == nil {
		return nil
	}
	return slices.DeleteFunc(value.Keys(value.Merge(earlier, later)), func(name string) bool {
		return bytes.Equal(value.MustJSON(earlier[name]), value.MustJSON(later[name]))
	})
}
