// Package paktest plays the examples and the test cases of a pak as the on-demand broker would: schemas, create, the check for
// pending changes, update, bind and unbind, through the adapter and the pak's own OpenTofu.
package paktest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak"
	"service-adapter/internal/fault"
	"service-adapter/internal/value"
)

// Case is one test case: a file tests/*.yml of the pak, or an entry of a definition's examples.
type Case struct {
	// Name is the file's name without its ending, or "SERVICE/EXAMPLE".
	Name string `yaml:"-"`
	// File is the path of the case's file; "" for an example.
	File string `yaml:"-"`
	// Service and Plan are names; a pak's only service need not be named. Without a plan the first one is played.
	Service string `yaml:"service,omitempty"`
	Plan    string `yaml:"plan,omitempty"`
	// Create and Update are the parameters of create and update requests. No update is played without Update.
	Create map[string]any  `yaml:"create,omitempty"`
	Update *map[string]any `yaml:"update,omitempty"`
	// Bind are the parameters of a bind request. No binding is made without it; an empty mapping binds without parameters.
	Bind *map[string]any `yaml:"bind,omitempty"`
	// Errands applies and destroys the provision template by the lifecycle errands apply-instance and destroy-instance.
	Errands bool `yaml:"errands,omitempty"`
	// BindCanFail makes a failing bind a note instead of a failure.
	BindCanFail bool `yaml:"bind_can_fail,omitempty"`
	// Variables are the values of variables that BOSH would generate: "redis_tls.ca".
	Variables map[string]string `yaml:"variables,omitempty"`
	// VMs are the addresses of instance groups; groups that are not named have one address.
	VMs    map[string][]string `yaml:"vms,omitempty"`
	Expect Expectation         `yaml:"expect,omitempty"`
}

// Expectation is what a case must give; what is left out is not compared. A text may hold <any> for what differs from run to
// run, and holds <secret NAME> for the value of a secret.
type Expectation struct {
	// Manifest is the manifest after the last deployment, without the adapter's record.
	Manifest map[string]any `yaml:"manifest,omitempty"`
	// Outputs are those of the provision template after the last deployment.
	Outputs map[string]any `yaml:"outputs,omitempty"`
	// Binding is the whole answer to the bind request: credentials, syslog_drain_url, ….
	Binding map[string]any `yaml:"binding,omitempty"`
	// Error is the text that the user reads; nothing after the request that gave it is played.
	Error string `yaml:"error,omitempty"`
}

// Cases returns the cases of a pak directory or zip: the examples of its definitions, then the files of tests/ by name. A zip
// has examples only. All faults of the files are returned at once.
func Cases(pak *brokerpak.Pak) ([]Case, error) {
	cases := exampleCases(pak)
	if pak.IsZip() {
		return cases, nil
	}
	files, err := filepath.Glob(filepath.Join(pak.Path, "tests", "*.yml"))
	if err != nil {
		return nil, fmt.Errorf("looking for test cases: %w", err)
	}
	slices.Sort(files)
	var failed []error
	for _, file := range files {
		read, err := readCase(file)
		if err == nil {
			err = read.check(pak)
		}
		if err != nil {
			failed = append(failed, &fault.UserError{Message: file + ": " + err.Error()})
			continue
		}
		cases = append(cases, read)
	}
	return cases, errors.Join(failed...)
}

func exampleCases(pak *brokerpak.Pak) []Case {
	var cases []Case
	for _, service := range pak.Services {
		for _, example := range service.Examples {
			made := Case{
				Name: service.Name + "/" + example.Name, Service: service.Name, Plan: example.PlanID,
				Create: example.ProvisionParams, BindCanFail: example.BindCanFail,
			}
			if service.Binds() {
				bind := nonNil(example.BindParams)
				made.Bind = &bind
			}
			cases = append(cases, made)
		}
	}
	return cases
}

func nonNil(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return m
}

func readCase(file string) (Case, error) {
	var read Case
	opened, err := os.Open(file) //nolint:gosec // a file of the pak
	if err != nil {
		return read, err
	}
	defer func() { _ = opened.Close() }() // opened for reading: closing cannot lose anything
	decoder := yaml.NewDecoder(opened)
	decoder.KnownFields(true)
	if err := decoder.Decode(&read); err != nil && !errors.Is(err, io.EOF) {
		return read, explain(err)
	}
	read.Name, read.File = strings.TrimSuffix(filepath.Base(file), ".yml"), file
	for _, parameters := range []*map[string]any{&read.Create, read.Update, read.Bind, &read.Expect.Manifest, &read.Expect.Outputs, &read.Expect.Binding} {
		if parameters != nil && *parameters != nil {
			*parameters, _ = value.Normalise(*parameters).(map[string]any)
		}
	}
	return read, nil
}

// explain words the YAML library's errors for authors, without Go's types.
func explain(err error) error {
	var types *yaml.TypeError
	if !errors.As(err, &types) {
		return errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	unknownKey := regexp.MustCompile(`^line (\d+): field (\S+) not found in type .*$`)
	wrongType := regexp.MustCompile(`^line (\d+): cannot unmarshal .*$`)
	var lines []error
	for _, line := range types.Errors {
		line = unknownKey.ReplaceAllString(line, `line $1: unknown key "$2"; see service-adapter pak test --help`)
		line = wrongType.ReplaceAllString(line, `line $1: the value has the wrong type; see service-adapter pak test --help`)
		lines = append(lines, errors.New(line))
	}
	return errors.Join(lines...)
}

// check resolves the names of service and plan.
func (c *Case) check(pak *brokerpak.Pak) error {
	var names []string
	for _, service := range pak.Services {
		names = append(names, service.Name)
	}
	if c.Service == "" && len(names) == 1 {
		c.Service = names[0]
	}
	service := pak.Service(c.Service)
	if service == nil {
		return fmt.Errorf("service %q is not in the pak; it has: %s", c.Service, strings.Join(names, ", "))
	}
	if c.Plan != "" && service.Plan(c.Plan) == nil {
		return fmt.Errorf("service %q has no plan %q", c.Service, c.Plan)
	}
	return nil
}
