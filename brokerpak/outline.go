package brokerpak

import (
	"slices"

	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak/expr"
	"service-adapter/internal/value"
)

// InstanceGroup is what a manifest template says about an instance group.
type InstanceGroup struct {
	Name      string
	Jobs      []string
	Lifecycle string // "" or "service", or "errand"
	Optional  bool   // a plan may leave it out
	Sized     bool   // the definition sizes it, so that plans need not have it
}

// owners reads the instance groups or the addons of the manifest template, in its order. What is no manifest has none; whether it is one is
// checked where it is rendered.
func (b *Bosh) owners(key string) []InstanceGroup {
	var manifest map[string]any
	if err := yaml.Unmarshal([]byte(b.Manifest.Text), &manifest); err != nil {
		return nil
	}
	name := func(entry map[string]any) string { return value.Text(entry["name"]) }
	return value.Each(value.Mappings(value.Normalise(manifest[key])), func(owner map[string]any) InstanceGroup {
		return InstanceGroup{Name: name(owner), Lifecycle: value.Text(owner["lifecycle"]), Jobs: value.Each(value.Mappings(owner["jobs"]), name)}
	})
}

// InstanceGroups are those of the manifest template.
func (b *Bosh) InstanceGroups() []InstanceGroup {
	groups := b.owners("instance_groups")
	for i, group := range groups {
		size := b.Group(group.Name)
		groups[i].Optional = slices.Contains(b.OptionalInstanceGroups, group.Name)
		groups[i].Sized = size != nil && size.Complete()
	}
	return groups
}

// HasGroupOrJob tells whether the manifest template has an instance group or a job of a name.
func (b *Bosh) HasGroupOrJob(name string) bool {
	return b != nil && slices.ContainsFunc(b.InstanceGroups(), func(group InstanceGroup) bool {
		return group.Name == name || slices.Contains(group.Jobs, name)
	})
}

// AddonJobs are the names of the jobs of the manifest template's addons.
func (b *Bosh) AddonJobs() []string {
	return slices.Concat(value.Each(b.owners("addons"), func(addon InstanceGroup) []string { return addon.Jobs })...)
}

// Example is a value that the declaration itself gives: an example, its constant, or the first of its enum.
func (v Variable) Example() (example any, ok bool) {
	if listed, _ := v.Constraints["examples"].([]any); len(listed) > 0 {
		return listed[0], true
	}
	if fixed, ok := v.Constraints["const"]; ok {
		return fixed, true
	}
	if len(v.Enum) > 0 {
		return v.Enum[0].Value, true
	}
	return nil, false
}

// ConstantDefault is the default that is the same for every request, cast to the variable's type; nil for none and for one that is computed.
// The error says why it cannot be of the type.
func (v Variable) ConstantDefault() (any, error) {
	if v.DefaultExpr == nil {
		return v.Default, nil
	}
	if !v.DefaultExpr.IsLiteral() {
		return nil, nil
	}
	text, err := v.DefaultExpr.Eval(nil)
	if err != nil {
		return nil, err
	}
	return expr.Cast(text, v.Type)
}

// Typical is a value for documents and checks that have no better one: an example of the declaration, else one of the variable's type,
// such as the least number allowed or an empty list.
func (v Variable) Typical() any {
	if example, ok := v.Example(); ok {
		return example
	}
	typ := v.Type
	if len(v.Types) > 0 {
		typ = v.Types[0]
	}
	switch typ {
	case "integer", "number":
		if least, ok := v.Constraints["minimum"]; ok {
			return least
		}
		return int64(1)
	case "boolean":
		return false
	case "array":
		return []any{}
	case "object":
		return map[string]any{}
	default:
		return "example"
	}
}
