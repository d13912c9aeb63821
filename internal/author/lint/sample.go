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

// deployments returns the deployments to simulate, in the order of the plans: for each plan, one without parameters and
// one with the parameters of each of its examples, which are those with the id of the plan. A service without plans has
// one deployment without parameters and one for each example, all with an empty plan. The result is never empty.
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

// deployment returns a simulated deployment of a plan with the parameters of a user, which may be nil. Its service is a
// copy without preconditions; see simulatedService. The arguments are not modified.
//
// Missing values are added to the properties of the plan and to the parameters of the result: each required plan input
// or user input of the provision action that has no default gets a sample value, unless the plan's properties, its
// provision overrides or the parameters set it, or a computed input of the same name supplies a value. A computed input
// does so if it overwrites or if its value reads no variable.
//
// The field guessed of the result is true if a sample value was added, and always for a service with a provision
// template, whose outputs are sample values.
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
// that the broker sends has the instance groups of the manifest template and of the ops files that apply to the pak's
// plan, except those whose size the definition computes completely. If ops files may add groups that this plan lacks
// (see groupsOfOps), a second request has a plan with these as well.
//
// Otherwise the requests are equal. They contain the plan and the parameters of attempt, the result of the method
// context, sample credentials of a UAA client, and these releases:
//   - All jobs of the definition are provided by a release with the name of the service or, if the author passed
//     releases, by those of deploymentReleases.
//   - Each further release that the definition mentions has one invented job. Its name is in the result of releaseNames
//     or, if the author passed releases, of namedReleases.
func (c *player) requests(attempt deployment) []manifestgen.Request {
	sample := odb.Sample(attempt.service, &attempt.plan, playInstance)
	jobs, groups := attempt.service.Provision.Bosh.JobNames(), c.groupsOfOps()
	release := &sample.Deployment.Releases[0]
	release.Jobs = slices.Compact(slices.Sorted(slices.Values(slices.Concat(release.Jobs, jobs))))
	names := c.releaseNames()
	if len(c.releases) > 0 {
		sample.Deployment.Releases = c.deploymentReleases(sample.Deployment.Releases[0].Jobs)
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

// context returns the context object of a simulated request from Cloud Foundry: the names and GUIDs of the organization
// and the space, the name of the instance, and every key of request.context that an expression of the provision action
// reads and does not compute. The value of platform is "cloudfoundry", and every other value is "example".
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

// releaseNames returns the names of the releases in requires.no_downgrade and in constant arguments of release.version
// in the expressions of provision and bind, sorted and without duplicates. Those in requires.releases are not included,
// because simulatedService removes these requirements. The result is empty if there are none. The service must have a
// bosh section.
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

// groupsOfOps returns the names of the instance groups that ops files may add or replace one by one, by operations with
// paths such as /instance_groups/-, whether or not their conditions are true. Operations on the whole list
// instance_groups, and those with a path such as /instance_groups?/-, do not count. The result may contain a name
// several times, and is nil if there are none. Ops files that are not valid YAML are ignored. The service must have a
// bosh section.
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

// An operation is an operation of an ops file that adds or replaces a value: the path as it is written, such as
// "/instance_groups/-", and the node of the value.
type operation struct {
	path  string
	added *yaml.Node // the value
}

// operations returns the operations of an ops file that have a path and a value, in their order, without those of the
// type test, which change nothing. root is the root node of the file and may be nil. The result is nil if root is not a
// list or if it contains no such operation.
func operations(root *yaml.Node) []operation {
	if root == nil || root.Kind != yaml.SequenceNode {
		return nil
	}
	var all []operation
	for _, entry := range root.Content {
		_, path := yamltree.Get(entry, "path")
		if _, kind := yamltree.Get(entry, "type"); kind != nil && kind.Value == "test" {
			continue
		}
		if _, added := yamltree.Get(entry, "value"); path != nil && added != nil {
			all = append(all, operation{path.Value, added})
		}
	}
	return all
}

// absoluteReferences returns the absolute CredHub paths, such as "/ca", to which the BOSH templates refer, and which an
// operator would have to allow. The key of a reference such as ((/ca.certificate)) is not part of the path. The result
// may contain a path several times, and is nil if there are none.
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

// child returns the node to which one step of a path leads. In a mapping, the step is a key, and the result its value.
// In a list, the step is "name=NAME", for the entry whose key name has that value, or an index such as "0". The result
// is nil if there is no such node. node must not be nil.
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
