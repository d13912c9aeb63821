package manifestgen

import (
	"fmt"
	"maps"
	"strconv"

	"service-adapter/internal/value"
)

// defaultUpdate completes an update block: the Director needs all four keys, and the broker max_in_flight.
func defaultUpdate() map[string]any {
	return map[string]any{
		"canaries": int64(1), "max_in_flight": int64(1),
		"canary_watch_time": "30000-240000", "update_watch_time": "30000-240000",
	}
}

// update is the plan's update block, else that of the definition's `update`, else the template's; what is missing comes from
// the default. The broker ignores update blocks when it compares manifests.
func (w *generation) update(template any) (map[string]any, error) {
	update := defaultUpdate()
	if given, ok := template.(map[string]any); ok {
		maps.Copy(update, given)
	}
	if err := w.evaluateUpdate(update); err != nil {
		return nil, err
	}
	plan := w.BrokerPlan.Update
	if plan == nil {
		return update, nil
	}
	chosen := map[string]any{"canaries": int64(plan.Canaries), "max_in_flight": value.Normalise(plan.MaxInFlight)}
	for key, text := range map[string]string{
		"canary_watch_time": plan.CanaryWatchTime, "update_watch_time": plan.UpdateWatchTime,
		"initial_deploy_az_update_strategy": string(plan.InitialDeployAZUpdateStrategy),
	} {
		if text != "" {
			chosen[key] = text
		}
	}
	if plan.Serial != nil {
		chosen["serial"] = *plan.Serial
	}
	maps.Copy(update, chosen)
	return update, nil
}

func (w *generation) evaluateUpdate(update map[string]any) error {
	scope := w.withPrevious()
	for _, key := range value.Keys(w.bosh.Update) {
		text, err := scope.Text("update."+key, w.bosh.Update[key])
		if err != nil {
			return fmt.Errorf("evaluating update.%s: %w", key, err)
		}
		switch number, err := strconv.ParseInt(text, 10, 64); {
		case text == "":
		case err == nil:
			update[key] = number
		case text == "true", text == "false":
			update[key] = text == "true"
		default:
			update[key] = text
		}
	}
	return nil
}

// completeUpdates gives the update blocks of instance groups the max_in_flight of the deployment where they have none: the
// Director takes that anyway, but the broker cannot read such a block.
func completeUpdates(tree map[string]any) {
	general, _ := tree["update"].(map[string]any)
	for _, group := range mappings(tree["instance_groups"]) {
		if update, ok := group["update"].(map[string]any); ok && update["max_in_flight"] == nil {
			update["max_in_flight"] = general["max_in_flight"]
		}
	}
}
