package manifestgen

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/brokerpak/expr"
	"service-adapter/brokerpak/vars"
	"service-adapter/internal/value"
)

// update is the plan's update block, else that of the definition's `update`, else the template's; what is missing comes from a
// default, because the Director needs all four keys, and the broker max_in_flight. The broker ignores update blocks when it compares
// manifests.
func update(template any, expressions map[string]*expr.Template, plan *serviceadapter.Update, scope *vars.Scope) (map[string]any, error) {
	given, _ := template.(map[string]any)
	update := value.Merge(map[string]any{
		"canaries": int64(1), "max_in_flight": int64(1),
		"canary_watch_time": "30000-240000", "update_watch_time": "30000-240000",
	}, given)
	for _, key := range value.Keys(expressions) {
		text, err := scope.Text("update."+key, expressions[key])
		if err != nil {
			return nil, fmt.Errorf("evaluating update.%s: %w", key, err)
		}
		if text != "" {
			update[key] = typed(text)
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

// typed reads an integer or a boolean from a text that is one.
func typed(text string) any {
	if number, err := strconv.ParseInt(text, 10, 64); err == nil {
		return number
	}
	if text == "true" || text == "false" {
		return text == "true"
	}
	return text
}

// completeUpdates gives the update blocks of instance groups the max_in_flight of the deployment where they have none: the
// Director takes that anyway, but the broker cannot read such a block.
func completeUpdates(tree map[string]any) {
	general, _ := tree["update"].(map[string]any)
	for _, group := range value.Mappings(tree["instance_groups"]) {
		if update, ok := group["update"].(map[string]any); ok && update["max_in_flight"] == nil {
			update["max_in_flight"] = general["max_in_flight"]
		}
	}
}
