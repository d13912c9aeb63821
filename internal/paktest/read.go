package paktest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/adapter"
	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
	"service-adapter/internal/fault"
	"service-adapter/internal/value"
	"service-adapter/internal/yamltree"
)

// reader reads the cases of a pak.
type reader struct {
	pak      *brokerpak.Pak
	defaults *yaml.Node
}

// Cases returns the cases of a pak directory or zip: the examples of its definitions, then the files of tests/ by name. A zip
// has examples only. Errands lets examples use lifecycle errands. All faults of the files are returned at once.
func Cases(pak *brokerpak.Pak, errands bool) (cases []Case, err error) {
	r := &reader{pak: pak, defaults: &yaml.Node{Kind: yaml.MappingNode}}
	var files []string
	if !pak.IsZip() {
		defaults := filepath.Join(pak.Path, "tests", "defaults.yml")
		if r.defaults, err = parse(defaults, &Defaults{}); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, &fault.UserError{Message: err.Error()}
		}
		if files, err = filepath.Glob(filepath.Join(pak.Path, "tests", "*.yml")); err != nil {
			return nil, fmt.Errorf("looking for test cases: %w", err)
		}
		files = slices.DeleteFunc(files, func(file string) bool { return file == defaults })
	}
	var failed []error
	for _, service := range pak.Services {
		for _, example := range service.Examples {
			given := map[string]any{
				"service": service.Name, "plan": example.PlanID, "create": value.Merge(example.ProvisionParams), "bind_can_fail": example.BindCanFail,
			}
			if service.Binds() {
				given["bind"] = value.Merge(example.BindParams)
			}
			if errands {
				given["errands"] = true
			}
			made, err := r.made(service.Name+"/"+example.Name, given)
			cases, failed = append(cases, made), append(failed, err)
		}
	}
	for _, file := range files { // Glob sorts them
		root, err := parse(file, &Case{})
		var made Case
		if err == nil {
			made, err = r.read(Case{Name: strings.TrimSuffix(filepath.Base(file), ".yml"), File: file}, root)
		}
		if err != nil {
			err = &fault.UserError{Message: err.Error()}
		}
		cases, failed = append(cases, made), append(failed, err)
	}
	return cases, errors.Join(failed...)
}

// New returns a case that has these keys and no file.
func New(pak *brokerpak.Pak, name string, keys map[string]any) (Case, error) {
	return (&reader{pak: pak}).made(name, keys)
}

func (r *reader) made(name string, keys map[string]any) (Case, error) {
	root := &yaml.Node{}
	if err := root.Encode(keys); err != nil {
		return Case{}, err
	}
	return r.read(Case{Name: name}, root)
}

// parse reads a file and checks it against a type. An empty one is a mapping without keys.
func parse(file string, as any) (*yaml.Node, error) {
	text, err := os.ReadFile(file) //nolint:gosec // a file of the pak
	if err != nil {
		return &yaml.Node{Kind: yaml.MappingNode}, err
	}
	if err := adapter.DecodeStrict(file, "", string(text), as); err != nil {
		return nil, err
	}
	root, _, err := yamltree.Read(string(text))
	if errors.Is(err, io.EOF) {
		return &yaml.Node{Kind: yaml.MappingNode}, nil
	}
	flat, _ := yamltree.Flatten(root)
	return flat, err
}

// read makes a case of what its file or its example says. What is wrong names the line.
func (r *reader) read(made Case, root *yaml.Node) (Case, error) {
	all := overlay(r.defaults, root)
	if err := all.Decode(&made); err != nil {
		return made, err
	}
	names := r.pak.ServiceNames()
	if made.Service == "" && len(names) == 1 {
		made.Service = names[0]
	}
	if !slices.Contains(names, made.Service) {
		return made, faultAt(made, root, "service", "service %q is not in the pak; it has: %s", made.Service, strings.Join(names, ", "))
	}
	_, steps := yamltree.Get(root, "steps")
	written := steps != nil && !yamltree.IsNull(steps)
	switch {
	case !written:
		steps = requests(made, root)
	case made.Create != nil || made.Update != nil || made.Bind != nil:
		return made, faultAt(made, root, "steps", "a case has either steps, or create, update and bind")
	case len(steps.Content) == 0:
		return made, faultAt(made, root, "steps", "a case has at least one step")
	}
	made.Steps = nil
	base := without(all, "steps", "expect")
	for _, node := range steps.Content {
		base = overlay(base, node)
		step := Step{node: base}
		if err := base.Decode(&step); err != nil {
			return made, err
		}
		if written {
			step.line = node.Line
		}
		if err := r.check(made, node, step); err != nil {
			return made, err
		}
		made.Steps = append(made.Steps, step)
		base = without(base, "do", "parameters", "id", "command", "expect")
	}
	return made, nil
}

// check holds a step against what there is.
func (r *reader) check(of Case, node *yaml.Node, step Step) error {
	service, known := r.pak.Service(of.Service), value.Keys(actions())
	switch {
	case !slices.Contains(known, step.Do):
		return faultAt(of, node, "do", "unknown action %q%s; allowed: %s", step.Do, diag.Suggest(step.Do, known), strings.Join(known, ", "))
	case (step.Do == "run") != (step.Command != ""):
		return faultAt(of, node, "command", "a step has a command if it is `do: run`, and only then")
	case step.Plan != "" && service.Plan(step.Plan) == nil:
		return faultAt(of, node, "plan", "service %q has no plan %q; it has: %s", of.Service, step.Plan, strings.Join(service.PlanNames(), ", "))
	}
	return nil
}

// faultAt is an error at a key of a mapping, or at the mapping where it has no such key.
func faultAt(of Case, mapping *yaml.Node, key, format string, args ...any) error {
	line := mapping.Line
	if name, _ := yamltree.Get(mapping, key); name != nil {
		line = name.Line
	}
	return fmt.Errorf("%s:%d: %s", of.File, line, fmt.Sprintf(format, args...))
}

// requests are the steps of a case that says none.
func requests(of Case, root *yaml.Node) *yaml.Node {
	steps := &yaml.Node{Kind: yaml.SequenceNode}
	for _, do := range []string{"create", "update", "bind"} {
		_, parameters := yamltree.Get(root, do)
		if do != "create" && (parameters == nil || yamltree.IsNull(parameters)) {
			continue
		}
		if do == "create" && parameters == nil && of.PreviousManifest != "" {
			do = "upgrade"
		}
		step := &yaml.Node{Kind: yaml.MappingNode, Line: root.Line}
		yamltree.Set(step, "do", &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: do})
		if parameters != nil {
			yamltree.Set(step, "parameters", parameters)
		}
		steps.Content = append(steps.Content, step)
	}
	return steps
}

// overlay lays one mapping over another: mappings in them merge, anything else is that of the upper one. Neither is changed.
func overlay(lower, upper *yaml.Node) *yaml.Node {
	if lower == nil || lower.Kind != yaml.MappingNode || upper.Kind != yaml.MappingNode {
		return upper
	}
	made := without(lower)
	for i := 0; i+1 < len(upper.Content); i += 2 {
		name := upper.Content[i].Value
		_, below := yamltree.Get(lower, name)
		yamltree.Set(made, name, overlay(below, upper.Content[i+1]))
	}
	return made
}

// without is a mapping without some keys.
func without(mapping *yaml.Node, names ...string) *yaml.Node {
	made := *mapping
	made.Content = nil
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if !slices.Contains(names, mapping.Content[i].Value) {
			made.Content = append(made.Content, mapping.Content[i], mapping.Content[i+1])
		}
	}
	return &made
}
