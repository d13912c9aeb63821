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

// updateBlock returns the update block of the manifest. Each key is taken from the plan, otherwise from the
// definition's expressions, otherwise from the template, otherwise from a default: one canary, one instance at a time
// and watch times of 30000-240000. An empty text in the plan or from an expression counts as missing. The Director
// requires all four keys, and the broker requires max_in_flight. The scope is that of the expressions. The plan may be
// nil, and a template that is not a mapping counts as missing. The block may change at any time, because the broker
// ignores it when it compares manifests. An error means that an expression failed or that the plan could not be
// encoded.
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

// parseScalar returns the integer or boolean that the text denotes, or the text itself if it denotes neither.
func parseScalar(text string) any {
	if number, err := strconv.ParseInt(text, 10, 64); err == nil {
		return number
	}
	if text == "true" || text == "false" {
		return text == "true"
	}
	return text
}

// completeUpdates sets max_in_flight, in place, in the update blocks of instance groups that lack it, to the value in
// the update block of the tree. Groups without an update block are not changed. The Director does the same, but the
// broker cannot decode a block without it.
func completeUpdates(tree map[string]any) {
	general, _ := tree["update"].(map[string]any)
	for _, group := range value.Mappings(tree["instance_groups"]) {
		if update, ok := group["update"].(map[string]any); ok && update["max_in_flight"] == nil {
			update["max_in_flight"] = general["max_in_flight"]
		}
	}
}
