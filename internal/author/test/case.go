// Package test runs the examples and the test cases of a pak. It calls the adapter in this process, as the on-demand
// broker would, for plan schemas, create, the check for pending changes, update, upgrade, bind, unbind and the
// lifecycle errands. The adapter in turn runs the pak's own OpenTofu and providers. The outcome of every step is
// compared with the expectations of the case.
package test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"service-adapter/adapter/config"
	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
	"service-adapter/internal/fault"
	"service-adapter/internal/odb"
	"service-adapter/internal/strictyaml"
	"service-adapter/internal/value"
	"service-adapter/internal/yamltree"
)

// A Case is a test case: a file tests/*.yml of the pak, or an example of a service definition. It consists of a
// service, the steps with their environment, and the expected outcome. Cases and New return cases that are complete and
// can be played, unless Unplayable is set; Steps then includes the steps that the keys "create", "update" and "bind"
// represent. The zero value cannot be played. The doc tags of the fields are the descriptions in the JSON Schema of
// test cases and in docs/testing.md.
type Case struct {
	// Name is the name of the file without its extension, or "SERVICE/EXAMPLE". File is the path of the file, and ""
	// for an example. Dir is the directory tests of the pak. It is "" for a case of New.
	Name string `yaml:"-"`
	File string `yaml:"-"`
	Dir  string `yaml:"-"`
	// Unplayable is the reason why an example cannot be played, without a final period: its plan is one that the
	// operator declares. It is "" for every other case.
	Unplayable string `yaml:"-"`

	Service          string          `yaml:"service" doc:"The name of the service that the case tests. It may be left out if the pak has only one service."`
	Create           *map[string]any `yaml:"create" doc:"The parameters of the request that creates the instance."`
	Update           *map[string]any `yaml:"update" doc:"The parameters of an update request. Without this key, the case does not update the instance."`
	Bind             *map[string]any `yaml:"bind" doc:"The parameters of a bind request. Without this key, the case does not create a binding."`
	BindCanFail      bool            `yaml:"bind_can_fail" doc:"If this is true, the case also passes when the bind request fails, for example because no server runs."`
	PreviousManifest string          `yaml:"previous_manifest" doc:"The path of a file, relative to the case, with the manifest of an instance that is already deployed. Unless 'create' is set, the case begins with an upgrade of this instance."`
	Steps            []Step          `yaml:"steps" doc:"The steps of the case, in the order in which they are performed. They replace the keys 'create', 'update' and 'bind'."`
	Expect           Expectation     `yaml:"expect" doc:"The expected outcome of the whole case. Sections that are left out are not compared."`
	Defaults         `yaml:",inline"`

	commands []brokerpak.Command // the programs that the service requires
}

// Defaults are the keys that the file tests/defaults.yml of a pak may contain. They apply to every case of Cases,
// also to an example, and to the manifests of Generate, but not to a case of New. Each case may contain the same
// keys: a mapping of the case is then merged with that of the defaults key by key, at all depths, and any other value
// of the case, also null, replaces the default. The zero value sets no defaults.
type Defaults struct {
	Deployment `yaml:",inline"`

	Server Server `yaml:"server" doc:"A program that runs while the steps of the case are performed."`
}

// A Deployment is the environment of an instance in a test case: the adapter's configuration, and the data that the
// broker, BOSH and the platform contribute, such as the plan, releases and stemcells. The zero value means the first
// plan, sample releases, stemcells, instance groups and addresses of VMs, and a configuration with secure_manifests; it
// has no errands, plan properties, DNS addresses, UAA client and values of variables. A value that a step sets also
// applies to the steps after it.
type Deployment struct {
	odb.Environment `yaml:",inline"`

	Config config.Config `yaml:"config" doc:"[The adapter's configuration](configuration.md). The test itself sets 'paks', 'state' and 'cache_dir'."`
}

// A Server is the declaration of a program that runs while a case is played, such as the database that bindings use,
// and of the command that reports whether the program is ready. Its commands are run by the shell. An empty Start, as
// in the zero value, means that the case needs no program; the other fields then have no effect when the case is
// played.
type Server struct {
	Start string `yaml:"start" doc:"The shell command that runs the program in the foreground. Its working directory is empty at first and belongs to the case."`
	Ready string `yaml:"ready" doc:"A shell command that succeeds when the program is ready. Without it, the case does not wait for the program."`
	// ReadyTimeout limits the time until Ready succeeds. 0 means 2 minutes.
	ReadyTimeout time.Duration `yaml:"ready_timeout" doc:"The time after which the case fails if the program is not ready. The default is 2m."`
	Ports        []string      `yaml:"ports" doc:"The names of environment variables. Each is set to the number of a free port on 127.0.0.1."`
}

// A Step is one action of a case, such as a request of the broker or a shell command, with its parameters, its
// environment and its expected outcome. A case without the key "steps" has steps that represent its keys "create",
// "update" and "bind". Only steps of cases that Cases and New return can be played.
type Step struct {
	Do         string         `yaml:"do" doc:"The action of the step."`
	Parameters map[string]any `yaml:"parameters" doc:"The parameters of the request."`
	ID         string         `yaml:"id" doc:"The id of the binding that the step creates or deletes. It is needed only in cases with several bindings."`
	Command    string         `yaml:"command" doc:"The shell command of the action 'run', which must succeed. It reads the last binding as JSON from its standard input and has the environment of the server."`
	Expect     Expectation    `yaml:"expect" doc:"The expected outcome of the step. After a rejected request, the case continues only if the step expects the rejection."`
	Deployment `yaml:",inline"`

	node *yaml.Node // the step, merged with the values of the defaults, the case and the steps before it
	line int        // the line of the step in the file; 0 for a step that the file does not list
}

// An Expectation is the expected outcome of a step or a case, as its file contains it. It consists of sections, such
// as "manifest", "binding" and "error"; a section that is left out is not compared. The exported fields only declare
// the sections for the schema and the documentation and are never set. The zero value has no sections: it matches the
// outcome of every request that succeeds, and expects no rejection; see Fails.
type Expectation struct {
	Manifest       map[string]any   `yaml:"manifest" doc:"The deployed manifest without the adapter's record."`
	Outputs        map[string]any   `yaml:"outputs" doc:"The outputs of the provision template."`
	Binding        map[string]any   `yaml:"binding" doc:"The response to the bind request, with keys such as 'credentials' and 'syslog_drain_url'."`
	DashboardURL   string           `yaml:"dashboard_url" doc:"The URL of the dashboard."`
	Schemas        map[string]any   `yaml:"schemas" doc:"The JSON Schemas of the plan that the adapter returns to the broker."`
	Labels         map[string]any   `yaml:"labels" doc:"The labels of the service instance."`
	Configs        map[string]any   `yaml:"configs" doc:"The BOSH configs by their type."`
	Error          string           `yaml:"error" doc:"The message that the user reads if the request is rejected."`
	OperatorError  string           `yaml:"operator_error" doc:"The message in the operator's log if the request is rejected."`
	Exit           int              `yaml:"exit" doc:"The exit code of the adapter if the request is rejected: 41, 42, 49, 10 or 1."`
	Unchanged      bool             `yaml:"unchanged" doc:"Whether the step left the manifest and the outputs unchanged."`
	PendingChanges []map[string]any `yaml:"pending_changes" doc:"The changes that the command 'pending-changes --json' lists."`

	sections map[string]any // the expected values by the key of the section; nil without expectations
}

// UnmarshalYAML sets the sections of the expectation to the keys and values of a mapping. It does not check that the
// keys are names of sections. null means no sections. It returns an error if the node is not a mapping or null, or if
// the mapping repeats a key.
func (e *Expectation) UnmarshalYAML(node *yaml.Node) error {
	err := node.Decode(&e.sections)
	e.sections, _ = value.Normalise(e.sections).(map[string]any)
	return err
}

// actions returns the methods that perform the actions of steps, by the values that the key "do" of a step may have,
// such as "create" and "bind". Each call returns a new map.
func actions() map[string]func(*run) error {
	return map[string]func(*run) error{
		"create": (*run).create, "update": (*run).update, "upgrade": (*run).upgrade, "bind": (*run).bind,
		"unbind":         (*run).unbind,
		"apply-instance": (*run).applyInstance, "destroy-instance": (*run).destroyInstance, "delete": (*run).delete,
		"pending-changes": (*run).listPending, "run": (*run).command,
	}
}

// A reader builds the cases of a pak from their files or keys, with the defaults in tests/defaults.yml. newReader reads
// the defaults; a reader that only has a pak applies none.
type reader struct {
	pak      *brokerpak.Pak
	defaults *yaml.Node // the content of tests/defaults.yml; nil or an empty mapping without defaults
	dir      string     // the directory tests of the pak; "" for cases without one
}

// newReader returns a reader for the cases of a pak, with the defaults in tests/defaults.yml. The defaults are empty if
// a pak directory does not have that file, and for every pak file (a zip). It returns nil and a *fault.UserError if the
// file has invalid content or cannot be read.
func newReader(pak *brokerpak.Pak) (*reader, error) {
	r := &reader{pak: pak, defaults: &yaml.Node{Kind: yaml.MappingNode}, dir: filepath.Join(pak.Path, "tests")}
	if pak.IsZip() {
		return r, nil
	}
	var err error
	if r.defaults, err = parseFile(r.defaultsFile(), &Defaults{}); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, &fault.UserError{Message: err.Error()}
	}
	return r, nil
}

// defaultsFile returns the path of the file tests/defaults.yml of a pak directory. It begins with the path of the pak,
// and is relative if that is. The file need not exist.
func (r *reader) defaultsFile() string { return filepath.Join(r.dir, "defaults.yml") }

// Cases returns the cases of a pak directory or pak file: first the examples of its definitions, in their order, then
// those in tests/*.yml except defaults.yml, sorted by file name. An example creates an instance and, if the service has
// bindings, a binding. A pak file contains no tests, so that it has only examples; so has a pak directory whose
// directory tests is missing or cannot be listed. If errands is true, the provision templates of examples are applied
// and destroyed by lifecycle errands. If it is false, and for cases in files always, the keys of the case and of
// tests/defaults.yml decide that. The result is nil if the pak has no cases.
//
// If the service of an example does not have the plan of the example, the case has the reason in Unplayable, and no
// plan.
//
// If tests/defaults.yml is invalid or cannot be read, Cases returns no cases and a *fault.UserError. If case files are
// invalid or cannot be read, it returns the errors of all of them, joined; each is a *fault.UserError that names the
// file and, where possible, the line. The defaults may also make an example invalid; its error is joined to the others
// but is not a *fault.UserError. The cases must not be used after an error.
func Cases(pak *brokerpak.Pak, errands bool) (cases []Case, err error) {
	r, err := newReader(pak)
	if err != nil {
		return nil, err
	}
	var files []string
	if !pak.IsZip() {
		names, _ := fs.Glob(os.DirFS(r.dir), "*.yml") // the only error is that of an invalid pattern
		files = value.Convert(names, func(name string) string { return filepath.Join(r.dir, name) })
		files = slices.DeleteFunc(files, func(file string) bool { return file == r.defaultsFile() })
	}
	var failed []error
	for _, service := range pak.Services {
		for _, example := range service.Examples {
			keys := map[string]any{
				"service": service.Name, "plan": example.PlanID, "create": value.Merge(example.ProvisionParams),
				"bind_can_fail": example.BindCanFail,
			}
			if service.Binds() {
				keys["bind"] = value.Merge(example.BindParams)
			}
			if errands {
				keys["errands"] = true
			}
			unplayable := ""
			if example.PlanID != "" && service.Plan(example.PlanID) == nil {
				keys["plan"] = ""
				unplayable = fmt.Sprintf(
					"the pak has no plan %q; if the operator declares it, set GSB_SERVICE_%s_PLANS",
					example.PlanID, service.EnvName())
			}
			testCase, err := r.fromKeys(service.Name+"/"+example.Name, keys)
			testCase.Unplayable = unplayable
			cases, failed = append(cases, testCase), append(failed, err)
		}
	}
	for _, file := range files { // Glob sorts them
		root, err := parseFile(file, &Case{})
		var testCase Case
		if err == nil {
			testCase, err = r.build(Case{
				Name: strings.TrimSuffix(filepath.Base(file), ".yml"), File: file, Dir: r.dir,
			}, root)
		}
		if err != nil {
			err = &fault.UserError{Message: err.Error()}
		}
		cases, failed = append(cases, testCase), append(failed, err)
	}
	return cases, errors.Join(failed...)
}

// New returns a case that has no file, from a name for messages and the keys that a case file would contain, such as
// "service", "plan" and "create". tests/defaults.yml is not applied, and keys that do not exist are ignored. The path
// under "previous_manifest" is relative to the working directory.
//
// New returns an error, after which the case must not be used, if the keys cannot be encoded as YAML, if a value has
// the wrong type, if the service is left out and the pak has several, or if the pak does not have the service or the
// plan of a step. It also returns an error if the keys contain "steps" together with "create", "update" or "bind", if
// "steps" is empty, if a step has an unknown action, and if a step has a command although its action is not "run", or
// no command although it is.
func New(pak *brokerpak.Pak, name string, keys map[string]any) (Case, error) {
	return (&reader{pak: pak}).fromKeys(name, keys)
}

// fromKeys returns a case without a file, which consists of the reader's defaults and these keys, the keys that a case
// file would contain. name is its name. It returns an error if the keys cannot be encoded as YAML, have values of the
// wrong type, or contradict the pak or each other, as New describes; the case is incomplete then. Keys that do not
// exist are ignored.
func (r *reader) fromKeys(name string, keys map[string]any) (Case, error) {
	root := &yaml.Node{}
	if err := root.Encode(keys); err != nil {
		return Case{}, err
	}
	return r.build(Case{Name: name, Dir: r.dir}, root)
}

// parseFile reads a YAML file, decodes it into target, a pointer to a struct, and also returns its root node with
// aliases and merge keys resolved. It returns nil and an error if the content is not one valid YAML document, or has a
// key that the struct does not declare, a repeated key, or a value of the wrong type. An empty file, and one with the
// value null, result in a mapping node without keys. If the file cannot be read, parseFile returns an empty mapping
// node along with the error, which wraps fs.ErrNotExist for a file that does not exist. After an error, target must not
// be used.
func parseFile(file string, target any) (*yaml.Node, error) {
	text, err := os.ReadFile(file) //nolint:gosec // a file of the pak
	if err != nil {
		return &yaml.Node{Kind: yaml.MappingNode}, err
	}
	if err := strictyaml.Decode(file, "", string(text), target); err != nil {
		return nil, err
	}
	root, _, err := yamltree.Read(string(text))
	if errors.Is(err, io.EOF) || err == nil && yamltree.IsNull(root) {
		return &yaml.Node{Kind: yaml.MappingNode}, nil
	}
	flat, _ := yamltree.Flatten(root)
	return flat, err
}

// build completes testCase, which has only the fields Name, File and Dir, from root and the reader's defaults. root is
// the mapping with the keys of the case. build selects the service, which may be left out if the pak has only one, adds
// the steps that "create", "update" and "bind" represent if "steps" is missing or null, and merges into each step the
// environment of the defaults, of the case and of the steps before it.
//
// It returns an error if a value has the wrong type, if the pak does not have the service or the plan of a step, if the
// case has both "steps" and one of the three keys with another value than null, if "steps" is empty, or if a step has
// an unknown action, a command although its action is not "run", or no command although it is. The error names the line
// if root was read from a file; the case is incomplete then.
func (r *reader) build(testCase Case, root *yaml.Node) (Case, error) {
	all := overlay(r.defaults, root)
	if err := all.Decode(&testCase); err != nil {
		return testCase, err
	}
	names := r.pak.ServiceNames()
	if testCase.Service == "" && len(names) == 1 {
		testCase.Service = names[0]
	}
	if !slices.Contains(names, testCase.Service) {
		return testCase, errorAt(testCase, root, "service", "service %q is not in the pak; it has: %s",
			testCase.Service, strings.Join(names, ", "))
	}
	testCase.commands = r.pak.Service(testCase.Service).RequiredCommands
	_, steps := yamltree.Get(root, "steps")
	explicit := steps != nil && !yamltree.IsNull(steps)
	switch {
	case !explicit:
		steps = implicitSteps(testCase, root)
	case testCase.Create != nil || testCase.Update != nil || testCase.Bind != nil:
		return testCase, errorAt(testCase, root, "steps", "a case has either steps, or create, update and bind")
	case len(steps.Content) == 0:
		return testCase, errorAt(testCase, root, "steps", "a case has at least one step")
	}
	testCase.Steps = nil
	base := without(all, "steps", "expect")
	for _, node := range steps.Content {
		base = overlay(base, node)
		step := Step{node: base}
		if err := base.Decode(&step); err != nil {
			return testCase, err
		}
		if explicit {
			step.line = node.Line
		}
		if err := r.checkStep(testCase, node, step); err != nil {
			return testCase, err
		}
		testCase.Steps = append(testCase.Steps, step)
		base = without(base, "do", "parameters", "id", "command", "expect")
	}
	return testCase, nil
}

// checkStep returns an error with the file and the line if the action of a step does not exist, if its plan is not ""
// and not one of the service, or if it has a command although its action is not "run", or no command although it is.
// The service of testCase must exist. node is the step as the file contains it, for the line; step also has the values
// of the defaults and earlier steps.
func (r *reader) checkStep(testCase Case, node *yaml.Node, step Step) error {
	service, allowed := r.pak.Service(testCase.Service), value.Keys(actions())
	switch {
	case !slices.Contains(allowed, step.Do):
		return errorAt(testCase, node, "do", "unknown action %q%s; allowed: %s",
			step.Do, diag.Suggest(step.Do, allowed), strings.Join(allowed, ", "))
	case (step.Do == "run") != (step.Command != ""):
		return errorAt(testCase, node, "command",
			"a step with `do: run` must have a command, and other steps must not have one")
	case step.Plan != "" && service.Plan(step.Plan) == nil:
		return errorAt(testCase, node, "plan", "service %q has no plan %q; it has: %s",
			testCase.Service, step.Plan, strings.Join(service.PlanNames(), ", "))
	}
	return nil
}

// errorAt returns an error with the text FILE:LINE: MESSAGE. FILE is the file of the case, and LINE the line of the
// key in the mapping, or that of the mapping if it does not have the key. For a case without a file, FILE is "" and
// LINE is 0. MESSAGE is formatted from format and args as by fmt.Sprintf. The error is never nil and wraps no other
// error.
func errorAt(testCase Case, mapping *yaml.Node, key, format string, args ...any) error {
	line := mapping.Line
	if name, _ := yamltree.Get(mapping, key); name != nil {
		line = name.Line
	}
	return fmt.Errorf("%s:%d: %s", testCase.File, line, fmt.Sprintf(format, args...))
}

// implicitSteps returns the list of the steps of a case without a "steps" key, as YAML. root is the mapping with the
// keys of the case. Each of its keys "create", "update" and "bind" results in a step with that action and the value as
// parameters; an "update" or "bind" that is null does not count. The first step exists even without the key "create".
// It is an upgrade if the case has a previous manifest and no "create" key, else a create.
func implicitSteps(testCase Case, root *yaml.Node) *yaml.Node {
	steps := &yaml.Node{Kind: yaml.SequenceNode}
	for _, do := range []string{"create", "update", "bind"} {
		_, parameters := yamltree.Get(root, do)
		if do != "create" && (parameters == nil || yamltree.IsNull(parameters)) {
			continue
		}
		if do == "create" && parameters == nil && testCase.PreviousManifest != "" {
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

// overlay returns lower with the values of upper merged into it. Where both are mappings, they are merged key by key,
// at all depths. Otherwise the value of upper, also if it is null, replaces that of lower; lists are not merged. The
// arguments are not modified, but the result shares nodes with them. lower may be nil, and the result is then upper.
// upper must not be nil.
func overlay(lower, upper *yaml.Node) *yaml.Node {
	if lower == nil || lower.Kind != yaml.MappingNode || upper.Kind != yaml.MappingNode {
		return upper
	}
	merged := without(lower)
	for i := 0; i+1 < len(upper.Content); i += 2 {
		name := upper.Content[i].Value
		_, below := yamltree.Get(lower, name)
		yamltree.Set(merged, name, overlay(below, upper.Content[i+1]))
	}
	return merged
}

// without returns a shallow copy of a mapping node that lacks the named keys. Keys that the mapping does not have are
// ignored. The nodes of the remaining keys and values are shared with the original, which is not modified.
func without(mapping *yaml.Node, names ...string) *yaml.Node {
	copied := *mapping
	copied.Content = nil
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if !slices.Contains(names, mapping.Content[i].Value) {
			copied.Content = append(copied.Content, mapping.Content[i], mapping.Content[i+1])
		}
	}
	return &copied
}
