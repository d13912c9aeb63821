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

// sizedGroups returns the instance groups of the broker's plan with the sizes that the definition computes, followed
// by groups that only the definition has (see addedGroup), in its order. scope contains the resolved variables. The
// broker's plan is not changed. sizedGroups returns nil and an error if an expression fails, or if its result is
// negative or cannot be converted to the type of the property (see resize). The error is or contains a
// *fault.UserError if an expression fails because of the user's parameters, if a group would have more instances than
// the definition allows, or if the operator's plan lacks a group that a required group is declared like.
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

// addedGroup returns the instance group for rule, a group that the definition describes and the plan does not have,
// before its size is computed. If the rule declares the group like another one, its model, the result is a copy of
// that group of the plan with the new name, without migrated_from and lifecycle. If the plan lacks the model,
// addedGroup returns nil and no error for an optional group, and nil and a *fault.UserError for the operator for a
// required one.
//
// If the rule has no model, the result has only the name. If such a rule does not compute all mandatory properties,
// addedGroup returns nil and no error, because only the plan can add the group; checkGroups later reports a required
// group that is missing.
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
		return nil, fault.Operatorf("the plan lacks the instance group %q, which the service requires: the group %q "+
			"copies its properties", rule.Like, rule.Name)
	}
	added.Name = rule.Name
	return &added, nil
}

// resize evaluates the expressions of the rule, such as that of instances or vm_type, and sets the results in group, in
// place. Properties without an expression are not changed. The results are converted to the types of the properties as
// by expr.Cast, so that the text "3" is a number; null counts as 0, "" or an empty list, also as the result of at_most.
//
// resize returns the error of vars.Scope.Eval if the evaluation of an expression fails, and another error if its result
// cannot be converted or is negative. It returns a *fault.UserError if the group has more instances than the result of
// at_most, which also limits a number from the plan. With an error, the group may be partly changed.
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
