package manifestgen

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/brokerpak/expr"
	"service-adapter/internal/value"
	"service-adapter/internal/vars"
)

// updateBlock returns the update block of the manifest as a new map. Each key is taken from the first of these sources
// that has it:
//
//   - plan, the update block of the broker's plan. A nil plan has no keys. Any other plan has canaries and
//     max_in_flight, which are 0 if they are not set; its other keys are missing if they are empty. The encoder of the
//     SDK also sets a nil MaxInFlight in plan itself to 0.
//   - expressions, the definition's expressions by key. A text that denotes an integer or a boolean becomes one, and an
//     empty text counts as missing.
//   - template, the block in the manifest template. A template that is not a mapping has no keys.
//   - the defaults of the four keys that the Director requires: 1 for canaries and max_in_flight, and "30000-240000"
//     for canary_watch_time and update_watch_time.
//
// The expressions are evaluated in scope and may read the deployed instance: the block may change at any time, because
// the broker ignores it when it compares manifests.
//
// updateBlock returns an error that wraps that of vars.Scope.Text if an expression cannot be evaluated, and another
// error if max_in_flight of the plan is neither an integer nor a percentage such as "30%". The block must not be used
// then.
func updateBlock(
	template any, expressions map[string]*expr.Template, plan *serviceadapter.Update, scope *vars.Scope,
) (map[string]any, error) {
	templateBlock, _ := template.(map[string]any)
	update := value.Merge(map[string]any{
		"canaries": int64(1), "max_in_flight": int64(1),
		"canary_watch_time": "30000-240000", "update_watch_time": "30000-240000",
	}, templateBlock)
	for _, key := range value.Keys(expressions) {
		text, err := scope.Text("update."+key, expressions[key])
		if err != nil {
			return nil, fmt.Errorf("evaluating update.%s: %w", key, err)
		}
		if text != "" {
			update[key] = parseScalar(text)
		}
	}
	if plan == nil {
		return update, nil
	}
	text, err := json.Marshal(plan)
	if err != nil {
		return nil, fmt.Errorf("reading the plan's update block: %w", err)
	}
	planned, err := value.DecodeObject(text)
	maps.DeleteFunc(planned, func(_ string, item any) bool { return item == "" })
	maps.Copy(update, planned)
	return update, err
}

// parseScalar returns the int64 that the text denotes in decimal notation, or true or false for "true" or "false". Any
// other text, such as "10%", "True" or an integer that does not fit into 64 bits, is returned as it is.
func parseScalar(text string) any {
	if number, err := strconv.ParseInt(text, 10, 64); err == nil {
		return number
	}
	if text == "true" || text == "false" {
		return text == "true"
	}
	return text
}

// completeUpdates sets max_in_flight, in place, in the update block of each instance group of the manifest whose
// block lacks it or sets it to null. The value is that of the manifest's own update block, which must have one.
// Groups without an update block are not changed. The Director does the same, but the broker cannot decode a block
// without max_in_flight.
func completeUpdates(tree map[string]any) {
	general, _ := tree["update"].(map[string]any)
	for _, group := range value.Mappings(tree["instance_groups"]) {
		if update, ok := group["update"].(map[string]any); ok && update["max_in_flight"] == nil {
			update["max_in_flight"] = general["max_in_flight"]
		}
	}
}
