package manifestgen

import (
	"fmt"
	"slices"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/expr"
	"service-adapter/internal/fault"
	"service-adapter/internal/instance"
	"service-adapter/internal/value"
	"service-adapter/internal/vars"
)

// sizedGroups returns the plan's instance groups with the sizes that the definition computes, followed by groups that
// only the definition has, if the definition computes them completely. The broker's plan is not changed. It returns an
// error if an expression fails or gives an invalid size; the error is a *fault.UserError if the user asked for too many
// instances or the operator's plan lacks a group that another group is declared like.
func sizedGroups(in *inputs, scope *vars.Scope) ([]serviceadapter.InstanceGroup, error) {
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

// addedGroup returns the group that a rule of the definition describes and the plan does not have, before its size is
// computed. A group that is declared like another one, its model, starts as a copy of that group of the plan.
// addedGroup returns nil if the group is optional and its model is missing, or if the rule does not compute the group
// completely, so that the plan must have it: checkGroups reports that later. It returns a *fault.UserError if the group
// is required and its model is missing.
func addedGroup(in *inputs, rule *brokerpak.GroupSize) (*serviceadapter.InstanceGroup, error) {
	var added serviceadapter.InstanceGroup
	switch model := instance.FindGroup(&in.BrokerPlan, rule.Like); {
	case !rule.Complete():
		return nil, nil // checkGroups reports the missing group
	case rule.Like == "":
	case model != nil:
		added = *model
		added.MigratedFrom, added.Lifecycle = nil, "" // these belong to the model only
	case slices.Contains(in.bosh.OptionalInstanceGroups, rule.Name):
		return nil, nil
	default:
		return nil, fault.Operatorf("the plan lacks the instance group %q, which the service requires: "+
			"the group %q is declared like it", rule.Like, rule.Name)
	}
	added.Name = rule.Name
	return &added, nil
}

// resize evaluates the size expressions of the rule and sets the results in the group, in place. Properties without an
// expression stay. It returns an error if an expression fails, or if its result has another type or is negative, and a
// *fault.UserError if the group has more instances than at_most. The group may then be partly changed.
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
		switch list := value.Convert(elements, value.Text); size.Key {
		case "instances":
			group.Instances = int(count)
		case "at_most": // evaluated after instances
			if group.Instances > int(count) {
				return fault.Userf("the service instance would have %d instances of %q, and at most %d are allowed",
					group.Instances, rule.Name, count)
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
