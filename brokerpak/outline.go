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

// owner is an instance group or an addon of a manifest template.
type owner struct {
	Name      string `yaml:"name"`
	Lifecycle string `yaml:"lifecycle"`
	Jobs      []job  `yaml:"jobs"`
}

type job struct {
	Name string `yaml:"name"`
}

func (o owner) jobs() []string { return value.Each(o.Jobs, func(j job) string { return j.Name }) }

// owners reads the manifest template, in its order. What is no manifest has none; whether it is one is checked where it is rendered.
func (b *Bosh) owners() (groups, addons []owner) {
	var manifest struct {
		Groups []owner `yaml:"instance_groups"`
		Addons []owner `yaml:"addons"`
	}
	if err := yaml.Unmarshal([]byte(b.Manifest.Text), &manifest); err != nil {
		return nil, nil
	}
	return manifest.Groups, manifest.Addons
}

// InstanceGroups are those of the manifest template.
func (b *Bosh) InstanceGroups() []InstanceGroup {
	var groups []InstanceGroup
	declared, _ := b.owners()
	for _, group := range declared {
		size := b.Group(group.Name)
		groups = append(groups, InstanceGroup{
			Name: group.Name, Lifecycle: group.Lifecycle, Jobs: group.jobs(),
			Optional: slices.Contains(b.OptionalInstanceGroups, group.Name), Sized: size != nil && size.Complete(),
		})
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
	_, addons := b.owners()
	return slices.Concat(value.Each(addons, owner.jobs)...)
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
