package paklint

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"
	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/vars"
	"service-adapter/internal/odb"
	"service-adapter/internal/value"
	"service-adapter/internal/yamltree"
	"service-adapter/manifestgen"
)

// deployments are those to try: each plan with its defaults and with each of its examples.
func (c *player) deployments() []deployment {
	plans := c.service.Plans
	if len(plans) == 0 {
		plans = []brokerpak.Plan{{}}
	}
	var all []deployment
	for _, plan := range plans {
		all = append(all, c.deployment(plan, nil))
		for _, example := range c.service.Examples {
			if len(c.service.Plans) == 0 || example.PlanID == plan.ID {
				all = append(all, c.deployment(plan, example.ProvisionParams))
			}
		}
	}
	return all
}

// deployment makes up the values that nobody gives.
func (c *player) deployment(plan brokerpak.Plan, parameters map[string]any) deployment {
	action := &c.service.Provision
	given := value.Merge(parameters, plan.ProvisionOverrides, plan.Properties)
	plan.Properties = value.Merge(plan.Properties)
	made := deployment{
		service: c.played(func(int) bool { return false }), plan: plan, parameters: value.Merge(parameters),
		guessed: len(action.Templates) > 0, // whose outputs nobody knows
	}
	for _, input := range action.ComputedInputs {
		if input.Overwrite || input.DefaultExpr == nil || len(input.DefaultExpr.References()) == 0 {
			given[input.Name] = nil
		}
	}
	supply := func(inputs []brokerpak.Variable, target map[string]any) {
		for _, input := range inputs {
			if _, ok := given[input.Name]; ok || !input.Required || input.HasDefault {
				continue
			}
			made.guessed = true
			target[input.Name] = c.plausible(input)
			given[input.Name] = nil
		}
	}
	supply(action.PlanInputs, made.plan.Properties)
	supply(action.UserInputs, made.parameters)
	return made
}

// plausible is a value that an input may have: that of an example, else a typical one.
func (c *player) plausible(input brokerpak.Variable) any {
	for _, example := range c.service.Examples {
		if given, ok := example.ProvisionParams[input.Name]; ok && given != nil {
			return given
		}
	}
	return input.Typical()
}

// requests are the calls of a deployment: with the instance groups of the template, and with those that ops files add as well.
func (c *player) requests(attempt deployment) []manifestgen.Request {
	sample := odb.Sample(attempt.service, &attempt.plan, playInstance)
	jobs, groups := c.addedByOps()
	release := &sample.Deployment.Releases[0]
	release.Jobs = slices.Compact(slices.Sorted(slices.Values(slices.Concat(release.Jobs, jobs))))
	for _, name := range c.releaseNames() {
		if !slices.ContainsFunc(sample.Deployment.Releases, func(r serviceadapter.ServiceRelease) bool { return r.Name == name }) {
			sample.Deployment.Releases = append(sample.Deployment.Releases, serviceadapter.ServiceRelease{Name: name, Version: "1.0.0", Jobs: []string{"of-" + name}})
		}
	}
	small := serviceadapter.Plan{}
	small.InstanceGroups, _ = sample.Plan["instance_groups"].([]serviceadapter.InstanceGroup)
	small.Properties = attempt.plan.Properties
	request := manifestgen.Request{
		Pak: c.pak, Service: attempt.service, Plan: attempt.plan, ServiceID: attempt.service.ID, Deployment: sample.Deployment, BrokerPlan: small,
		Parameters: attempt.parameters, UAAClient: map[string]any{"client_id": "example", "client_secret": "example"},
	}
	request.Body = map[string]any{
		"parameters": attempt.parameters, "context": c.context(), "plan_id": attempt.plan.ID, "service_id": attempt.service.ID,
	}
	requests := []manifestgen.Request{request}
	if len(groups) > 0 {
		large := small
		for _, name := range groups {
			large.InstanceGroups = append(slices.Clone(large.InstanceGroups), odb.SampleGroup(name, ""))
		}
		request.BrokerPlan = large
		requests = append(requests, request)
	}
	return requests
}

// context is the context of a request from Cloud Foundry, with every key that an expression reads.
func (c *player) context() map[string]any {
	context := map[string]any{}
	keys, _ := c.service.Provision.Uses("request.context")
	for _, key := range slices.Concat(keys, []string{"organization_guid", "organization_name", "space_guid", "space_name", "instance_name"}) {
		context[key] = "example"
	}
	context["platform"] = "cloudfoundry"
	return context
}

// releaseNames are the releases that the definition names besides those that it requires.
func (c *player) releaseNames() []string {
	names := slices.Clone(c.service.Provision.Bosh.Requires.NoDowngrade)
	for _, site := range c.sites() {
		for _, call := range site.Calls() {
			if call.Name == "release.version" && call.Arg(0) != "" {
				names = append(names, call.Arg(0))
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// addedByOps are the names of jobs and instance groups that ops files may add.
func (c *player) addedByOps() (jobs, groups []string) {
	for _, ops := range c.service.Provision.Bosh.Ops {
		root, _ := ops.Document.Tree()
		for _, operation := range operations(root) {
			jobs = append(jobs, namesBelow(operation.added, "jobs")...)
			switch _, name := yamltree.Get(operation.added, "name"); {
			case name == nil:
			case strings.Contains(operation.path, "/jobs/"):
				jobs = append(jobs, name.Value)
			case path.Dir(operation.path) == "/instance_groups":
				groups = append(groups, name.Value)
			}
		}
	}
	return jobs, groups
}

// operation is one of an ops file that adds or replaces something.
type operation struct {
	path  string
	added *yaml.Node
}

// operations are those of a document; none where it is no list of operations.
func operations(root *yaml.Node) []operation {
	if root == nil || root.Kind != yaml.SequenceNode {
		return nil
	}
	var all []operation
	for _, entry := range root.Content {
		_, path := yamltree.Get(entry, "path")
		if _, added := yamltree.Get(entry, "value"); path != nil && added != nil {
			all = append(all, operation{path.Value, added})
		}
	}
	return all
}

// namesBelow are the names of the entries of every list with a key.
func namesBelow(node *yaml.Node, key string) []string {
	var names []string
	if _, list := yamltree.Get(node, key); list != nil {
		for _, entry := range list.Content {
			if _, name := yamltree.Get(entry, "name"); name != nil {
				names = append(names, name.Value)
			}
		}
	}
	for _, content := range node.Content {
		names = append(names, namesBelow(content, key)...)
	}
	return names
}

// absoluteReferences are the paths of CredHub in the templates, which an operator would have to allow.
func absoluteReferences(bosh *brokerpak.Bosh) []string {
	var paths []string
	for _, document := range bosh.Documents() {
		for _, found := range vars.Reference.FindAllString(document.Text, -1) {
			if name, _ := vars.Split(found); strings.HasPrefix(name, "/") {
				paths = append(paths, name)
			}
		}
	}
	return paths
}

// child goes a step down a template: to the value of a key, or to the item of a list, name=NAME or its index; nil where there is none.
func child(node *yaml.Node, step string) *yaml.Node {
	if node.Kind == yaml.MappingNode {
		_, found := yamltree.Get(node, step)
		return found
	}
	for i, item := range node.Content {
		_, name := yamltree.Get(item, "name")
		if step == strconv.Itoa(i) || name != nil && step == "name="+name.Value {
			return item
		}
	}
	return nil
}
