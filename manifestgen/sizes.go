package manifestgen

import (
	"fmt"
	"slices"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/expr"
	"service-adapter/brokerpak/instance"
	"service-adapter/brokerpak/vars"
	"service-adapter/internal/fault"
	"service-adapter/internal/value"
)

// size returns the plan's instance groups with the sizes that the definition computes, and the groups that it adds.
func size(in *input, scope *vars.Scope) ([]serviceadapter.InstanceGroup, error) {
	sized := &serviceadapter.Plan{InstanceGroups: slices.Clone(in.BrokerPlan.InstanceGroups)}
	for i := range in.bosh.Groups {
		rule := &in.bosh.Groups[i]
		if instance.FindGroup(sized, rule.Name) == nil {
			added, err := addedGroup(in, rule)
			if err != nil {
				return nil, err
			}
			if added == nil {
				continue // optional
			}
			sized.InstanceGroups = append(sized.InstanceGroups, *added)
		}
		if err := resize(scope, rule, instance.FindGroup(sized, rule.Name)); err != nil {
			return nil, fmt.Errorf("sizing the instance group %q: %w", rule.Name, err)
		}
	}
	return sized.InstanceGroups, nil
}

// addedGroup is a group that the plan does not have, before its own size; nil where it is optional and like nothing that is there.
func addedGroup(in *input, rule *brokerpak.GroupSize) (*serviceadapter.InstanceGroup, error) {
	var added serviceadapter.InstanceGroup
	switch model := instance.FindGroup(&in.BrokerPlan, rule.Like); {
	case !rule.Complete():
		return nil, nil // what the plan lacks is reported with all it lacks
	case rule.Like == "":
	case model != nil:
		added = *model
		added.MigratedFrom, added.Lifecycle = nil, "" // which are the other's own
	case slices.Contains(in.bosh.OptionalInstanceGroups, rule.Name):
		return nil, nil
	default:
		return nil, fault.Operatorf("the plan lacks the instance group %q, which the service requires: its group %q is like it", rule.Like, rule.Name)
	}
	added.Name = rule.Name
	return &added, nil
}

// resize sets what the definition computes of a group.
func resize(scope *vars.Scope, rule *brokerpak.GroupSize, group *serviceadapter.InstanceGroup) error {
	for _, size := range rule.Sizes {
		if size.Template == nil {
			continue
		}
		item, err := scope.Eval("instance_groups."+rule.Name+"."+size.Key, size.Template)
		if err != nil {
			return err
		}
		if item, err = expr.Cast(item, size.Type); err != nil {
			return fmt.Errorf("%s: %s: %w", size.Pos(), size.Key, err)
		}
		count, _ := item.(int64)
		elements, _ := item.([]any)
		if count < 0 {
			return fmt.Errorf("%s: %s must be a number of instances, not %d", size.Pos(), size.Key, count)
		}
		switch list := value.Each(elements, value.Text); size.Key {
		case "instances":
			group.Instances = int(count)
		case "at_most": // the user asked for more, and reads it
			if group.Instances > int(count) {
				return fault.Userf("the service instance would have %d instances of %q, and at most %d are allowed", group.Instances, rule.Name, count)
			}
		case "vm_type":
			group.VMType = value.Text(item)
		case "persistent_disk_type":
			group.PersistentDiskType = value.Text(item)
		case "vm_extensions":
			group.VMExtensions = list
		case "networks":
			group.Networks = list
		case "azs":
			group.AZs = list
		}
	}
	return nil
}
