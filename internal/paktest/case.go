// Package paktest plays the examples and the test cases of a pak as the on-demand broker would: schemas, create, the check for
// pending changes, update, upgrade, bind, unbind and the lifecycle errands, through the adapter and the pak's own OpenTofu.
package paktest

import (
	"reflect"

	"gopkg.in/yaml.v3"

	"service-adapter/adapter"
	"service-adapter/internal/odb"
	"service-adapter/internal/value"
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
