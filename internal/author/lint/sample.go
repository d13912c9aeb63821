package lint

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"
	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak"
	"service-adapter/internal/odb"
	"service-adapter/internal/value"
	"service-adapter/internal/vars"
	"service-adapter/internal/yamltree"
	"service-adapter/manifestgen"
)

// deployments returns the deployments to simulate: each plan without parameters, and with the parameters of each of its
// examples. A service without plans has one deployment, with an empty plan, and one for each example. The result is
// never empty.
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

// deployment returns a simulated deployment of a plan with the parameters of a user, which may be nil. Required inputs
// that have no default and no computed value, and that neither the plan nor the parameters set, get sample values. The
// field guessed is true then, and also for a service with a provision template, whose outputs are sample values. The
// arguments are not modified.
func (c *player) deployment(plan brokerpak.Plan, parameters map[string]any) deployment {
	action := &c.service.Provision
	values := value.Merge(parameters, plan.ProvisionOverrides, plan.Properties)
	plan.Properties = value.Merge(plan.Properties)
	result := deployment{
		service: c.simulatedService(func(int) bool { return false }), plan: plan, parameters: value.Merge(parameters),
		guessed: len(action.Templates) > 0, // the outputs of the templates are sample values
	}
	for _, input := range action.ComputedInputs {
		if input.Overwrite || input.DefaultExpr == nil || len(input.DefaultExpr.References()) == 0 {
			values[input.Name] = nil
		}
	}
	supply := func(inputs []brokerpak.Variable, target map[string]any) {
		for _, input := range inputs {
			if _, ok := values[input.Name]; ok || !input.Required || input.HasDefault {
				continue
			}
			result.guessed = true
			target[input.Name] = odb.SampleValue(c.service, input)
			values[input.Name] = nil
		}
	}
	supply(action.PlanInputs, result.plan.Properties)
	supply(action.UserInputs, result.parameters)
	return result
}

// requests returns one or two requests to generate the manifest of a simulated deployment. In the first one, the plan
// that the broker sends has the instance groups of the manifest template and of ops files that apply to the pak's plan,
// except those whose properties the definition computes completely. If ops files may add groups that this plan lacks, a
// second request has a plan with these as well. Both requests have the same releases. These provide all jobs of the
// definition: a release with the name of the service or, if the author gave releases, those of givenReleases. The
// others are those of releaseNames and, if the author gave releases, of namedReleases. The releases that the definition
// requires are not added, because simulatedService removes the requirements.
func (c *player) requests(attempt deployment) []manifestgen.Request {
	sample := odb.Sample(attempt.service, &attempt.plan, playInstance)
	jobs, groups := attempt.service.Provision.Bosh.JobNames(), c.groupsOfOps()
	release := &sample.Deployment.Releases[0]
	release.Jobs = slices.Compact(slices.Sorted(slices.Values(slices.Concat(release.Jobs, jobs))))
	names := c.releaseNames()
	if len(c.releases) > 0 {
		sample.Deployment.Releases = c.givenReleases(sample.Deployment.Releases[0].Jobs)
		names = append(names, c.namedReleases()...)
	}
	for _, name := range names {
		named := func(r serviceadapter.ServiceRelease) bool { return r.Name == name }
		if !slices.ContainsFunc(sample.Deployment.Releases, named) {
			sample.Deployment.Releases = append(sample.Deployment.Releases, serviceadapter.ServiceRelease{
				Name: name, Version: "1.0.0", Jobs: []string{"of-" + name},
			})
		}
	}
	small := serviceadapter.Plan{}
	small.InstanceGroups, _ = sample.Plan["instance_groups"].([]serviceadapter.InstanceGroup)
	small.Properties = attempt.plan.Properties
	request := manifestgen.Request{
		Pak: c.pak, Service: attempt.service, Plan: attempt.plan, ServiceID: attempt.service.ID,
		Deployment: sample.Deployment, BrokerPlan: small, Parameters: attempt.parameters,
		UAAClient: map[string]any{"client_id": "example", "client_secret": "example"},
	}
	request.Body = map[string]any{
		"parameters": attempt.parameters, "context": c.context(),
		"plan_id": attempt.plan.ID, "service_id": attempt.service.ID,
	}
	requests := []manifestgen.Request{request}
	groups = slices.DeleteFunc(groups, func(name string) bool {
		return slices.ContainsFunc(small.InstanceGroups, func(group serviceadapter.InstanceGroup) bool {
			return group.Name == name
		})
	})
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

// context returns the context object of a request from Cloud Foundry, with the usual keys and every key that an
// expression of the provision action reads. The platform is "cloudfoundry", and every other value is "example".
func (c *player) context() map[string]any {
	context := map[string]any{}
	keys, _ := c.service.Provision.KeysRead("request.context")
	standard := []string{"organization_guid", "organization_name", "space_guid", "space_name", "instance_name"}
	for _, key := range slices.Concat(keys, standard) {
		context[key] = "example"
	}
	context["platform"] = "cloudfoundry"
	return context
}

// releaseNames returns the sorted names of the releases that no_downgrade and expressions contain. Those in
// requires.releases are not included, because simulatedService removes the requirements.
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

// groupsOfOps returns the names of the instance groups that ops files may add, whether or not their conditions are
// true. A name may be contained several times. Ops files that are not valid YAML are ignored.
func (c *player) groupsOfOps() (groups []string) {
	for _, ops := range c.service.Provision.Bosh.Ops {
		root, _ := ops.Document.Tree()
		for _, operation := range operations(root) {
			_, name := yamltree.Get(operation.added, "name")
			if name != nil && path.Dir(operation.path) == "/instance_groups" {
				groups = append(groups, name.Value)
			}
		}
	}
	return groups
}

// An operation is an operation of an ops file that adds or replaces a value.
type operation struct {
	path  string
	added *yaml.Node // the value
}

// operations returns the operations of an ops file that have a path and a value. It returns nil if the document is not
// a list.
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

// absoluteReferences returns the absolute CredHub paths that the templates refer to, which an operator would have to
// allow. A path may be contained several times.
func absoluteReferences(bosh *brokerpak.Bosh) []string {
	var paths []string
	for _, document := range bosh.Documents() {
		for _, reference := range vars.Reference.FindAllString(document.Text, -1) {
			if name, _ := vars.Split(reference); strings.HasPrefix(name, "/") {
				paths = append(paths, name)
			}
		}
	}
	return paths
}

// child returns the value of a key of a mapping, or the item of a list that step selects by "name=NAME" or by its
// index. It returns nil if there is no such node.
func child(node *yaml.Node, step string) *yaml.Node {
	if node.Kind == yaml.MappingNode {
		_, item := yamltree.Get(node, step)
		return item
	}
	for i, item := range node.Content {
		_, name := yamltree.Get(item, "name")
		if step == strconv.Itoa(i) || name != nil && step == "name="+name.Value {
			return item
		}
	}
	return nil
}
