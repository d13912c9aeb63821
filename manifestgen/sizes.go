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
		if err := (sizing{scope, rule, instance.FindGroup(sized, rule.Name)}).apply(); err != nil {
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

// sizing is what a definition computes of a group.
type sizing struct {
	scope *vars.Scope
	rule  *brokerpak.GroupSize
	group *serviceadapter.InstanceGroup
}

func (s sizing) apply() error {
	if err := s.instances(); err != nil {
		return err
	}
	group := s.group
	texts := map[string]*string{"vm_type": &group.VMType, "persistent_disk_type": &group.PersistentDiskType}
	lists := map[string]*[]string{"vm_extensions": (*[]string)(&group.VMExtensions), "networks": &group.Networks, "azs": &group.AZs}
	expressions := s.rule.Expressions()
	for _, key := range value.Keys(expressions) {
		text, list, template := texts[key], lists[key], expressions[key]
		typ := "string"
		switch {
		case template == nil || text == nil && list == nil:
			continue
		case list != nil:
			typ = "array"
		}
		item, err := s.eval(key, template, typ)
		if err != nil {
			return err
		}
		if list == nil {
			*text = value.Text(item)
			continue
		}
		elements, _ := item.([]any)
		*list = make([]string, len(elements))
		for i, element := range elements {
			(*list)[i] = value.Text(element)
		}
	}
	return nil
}

// instances sets the number of instances. That it is too high is for the user, who asked for it.
func (s sizing) instances() error {
	count, err := s.number("instances", s.rule.Instances, int64(s.group.Instances))
	if err != nil {
		return err
	}
	most, err := s.number("at_most", s.rule.AtMost, count)
	if err != nil {
		return err
	}
	if count > most {
		return fault.Userf("the service instance would have %d instances of %q, and at most %d are allowed", count, s.rule.Name, most)
	}
	s.group.Instances = int(count)
	return nil
}

// number evaluates an expression that gives a number of instances; nil gives the other one.
func (s sizing) number(key string, template *expr.Template, otherwise int64) (int64, error) {
	if template == nil {
		return otherwise, nil
	}
	item, err := s.eval(key, template, "integer")
	if err != nil {
		return 0, err
	}
	count, ok := item.(int64)
	if !ok || count < 0 {
		return 0, fmt.Errorf("%s: %s must be a number of instances, not %s", template.Pos(), key, value.Text(item))
	}
	return count, nil
}

// eval evaluates an expression and casts the result to a type.
func (s sizing) eval(key string, template *expr.Template, typ string) (any, error) {
	item, err := s.scope.Eval("instance_groups."+s.rule.Name+"."+key, template)
	if err != nil {
		return nil, err
	}
	cast, err := expr.Cast(item, typ)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", template.Pos(), key, err)
	}
	return cast, nil
}
