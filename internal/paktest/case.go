// Package paktest plays the examples and the test cases of a pak as the on-demand broker would: schemas, create, the check for
// pending changes, update, upgrade, bind, unbind and the lifecycle errands, through the adapter and the pak's own OpenTofu.
package paktest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/adapter"
	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
	"service-adapter/internal/fault"
	"service-adapter/internal/odb"
	"service-adapter/internal/value"
	"service-adapter/internal/yamltree"
)

// Case is a test case: a file tests/*.yml of the pak, or an example of a definition. The tags are what the schema and docs/testing.md say.
type Case struct {
	// Name is the file's name without its ending, or "SERVICE/EXAMPLE"; File is "" for an example.
	Name string `yaml:"-"`
	File string `yaml:"-"`

	Service          string          `yaml:"service" doc:"The name of the service; not needed where the pak has one."`
	Create           *map[string]any `yaml:"create" doc:"Parameters of the create request."`
	Update           *map[string]any `yaml:"update" doc:"Parameters of an update request; without the key there is none."`
	Bind             *map[string]any `yaml:"bind" doc:"Parameters of a bind request; without the key there is none."`
	BindCanFail      bool            `yaml:"bind_can_fail" doc:"Whether the bind may fail, because there is no server."`
	PreviousManifest string          `yaml:"previous_manifest" doc:"A file, relative to the case: the manifest of an instance that is there already. Without 'create' it is upgraded first."`
	Steps            []Step          `yaml:"steps" doc:"What happens, instead of 'create', 'update' and 'bind'."`
	Expect           Expectation     `yaml:"expect" doc:"What all of it must give; what is left out is not compared."`
	Defaults         `yaml:",inline"`
}

// Defaults are the keys of tests/defaults.yml, which every case may have as well.
type Defaults struct {
	Deployment `yaml:",inline"`

	Server Server `yaml:"server" doc:"A program that runs while the case is played."`
}

// Deployment is what the operator says, and what the instance finds. A step changes it for those that follow.
type Deployment struct {
	odb.Surroundings `yaml:",inline"`

	Config adapter.Config `yaml:"config" doc:"[The adapter's configuration](configuration.md); 'paks', 'state' and 'cache_dir' are the test's."`
}

// Server is a program; the zero value is none. Its commands are for the shell.
type Server struct {
	Start string   `yaml:"start" doc:"The command that runs it in the foreground, in a directory of its own."`
	Ready string   `yaml:"ready" doc:"A command that succeeds when it is ready; without it nothing is waited for."`
	Ports []string `yaml:"ports" doc:"Names of environment variables, which get free ports of 127.0.0.1."`
}

// Step is one thing that happens to an instance.
type Step struct {
	Do         string         `yaml:"do" doc:"What happens."`
	Parameters map[string]any `yaml:"parameters" doc:"Parameters of the request."`
	ID         string         `yaml:"id" doc:"The id of the binding that is made or deleted, where there are several."`
	Command    string         `yaml:"command" doc:"For 'run': a command for the shell, which must succeed. It finds the last binding as JSON on its standard input, and the environment of the server."`
	Expect     Expectation    `yaml:"expect" doc:"What the step must give. A refused request that is expected does not end the case."`
	Deployment `yaml:",inline"`

	node *yaml.Node // the step with everything that it takes from the case and from earlier steps
	line int        // where it stands among the steps of the file; 0 where it does not
}

// Expectation is what must come of something, by section. Its fields only declare the sections.
type Expectation struct {
	Manifest       map[string]any   `yaml:"manifest" doc:"The deployed manifest, without the adapter's record."`
	Outputs        map[string]any   `yaml:"outputs" doc:"The outputs of the provision template."`
	Binding        map[string]any   `yaml:"binding" doc:"The answer to the bind request: 'credentials', 'syslog_drain_url' and others."`
	DashboardURL   string           `yaml:"dashboard_url" doc:"The dashboard."`
	Schemas        map[string]any   `yaml:"schemas" doc:"The schemas of the plan, as the broker gets them."`
	Labels         map[string]any   `yaml:"labels" doc:"The labels of the instance."`
	Configs        map[string]any   `yaml:"configs" doc:"The BOSH configs, by their kind."`
	Error          string           `yaml:"error" doc:"What the user reads of a refused request."`
	OperatorError  string           `yaml:"operator_error" doc:"What the operator's log says of a refused request."`
	Exit           int              `yaml:"exit" doc:"The exit code of a refused request: 41, 42, 49, 10 or 1."`
	Unchanged      bool             `yaml:"unchanged" doc:"Whether manifest and outputs are as they were before the step."`
	PendingChanges []map[string]any `yaml:"pending_changes" doc:"What 'pending-changes --json' lists."`

	sections map[string]any
}

// UnmarshalYAML keeps the sections that are there.
func (e *Expectation) UnmarshalYAML(node *yaml.Node) error {
	err := node.Decode(&e.sections)
	e.sections, _ = value.Normalise(e.sections).(map[string]any)
	return err
}

// actions are what a step may do.
func actions() map[string]func(*run) error {
	return map[string]func(*run) error{
		"create": (*run).create, "update": (*run).update, "upgrade": (*run).upgrade, "bind": (*run).bind, "unbind": (*run).unbind,
		"apply-instance": (*run).applyInstance, "destroy-instance": (*run).destroyInstance, "delete": (*run).delete,
		"pending-changes": (*run).listPending, "run": (*run).command,
	}
}

// Schema returns the JSON Schema, draft-07, of a case.
func Schema() map[string]any {
	made := schema(reflect.TypeFor[Case]())
	made["$schema"], made["title"] = "http://json-schema.org/draft-07/schema#", "Test case of a brokerpak"
	steps, _ := made["properties"].(map[string]any)["steps"].(map[string]any)["items"].(map[string]any)
	steps["required"] = []any{"do"}
	steps["properties"].(map[string]any)["do"].(map[string]any)["enum"] = value.Keys(actions()) //nolint:forcetypeassert // made above
	return made
}

// schema is that of a type. Anything may be null.
func schema(of reflect.Type) map[string]any {
	switch of.Kind() {
	case reflect.Pointer:
		return schema(of.Elem())
	case reflect.Struct:
		properties := map[string]any{}
		keys, fields := adapter.FieldsOf(of)
		for i, key := range keys {
			property := schema(fields[i].Type)
			if doc := fields[i].Tag.Get("doc"); doc != "" {
				property["description"] = doc
			}
			properties[key] = property
		}
		return map[string]any{"type": []any{"object", "null"}, "additionalProperties": false, "properties": properties}
	case reflect.Map:
		return map[string]any{"type": []any{"object", "null"}, "additionalProperties": schema(of.Elem())}
	case reflect.Slice:
		return map[string]any{"type": []any{"array", "null"}, "items": schema(of.Elem())}
	case reflect.Bool:
		return map[string]any{"type": []any{"boolean", "null"}}
	case reflect.Int:
		return map[string]any{"type": []any{"integer", "null"}}
	case reflect.Interface:
		return map[string]any{}
	default:
		return map[string]any{"type": []any{"string", "number", "boolean", "null"}} // YAML's scalars are texts as well
	}
}

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
