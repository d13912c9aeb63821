package odb

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/pivotal-cf/on-demand-services-sdk/bosh"
	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"
	"gopkg.in/yaml.v2"

	"service-adapter/brokerpak"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
	"service-adapter/internal/vars"
)

// An Environment is the part of a test case that describes what the operator, the platform and BOSH provide for an
// instance, such as releases, the instance groups of the plan, IP addresses and values of variables. Its keys in YAML
// are those of test cases. All fields may be empty. Configure invents plausible releases and stemcells if these lists
// are empty, and instance groups if their list is nil; an empty list of instance groups that is not nil means that
// the plan has none.
type Environment struct {
	Plan           string                         `yaml:"plan" doc:"The name or the id of the plan. The default is the first plan of the service."`
	Releases       serviceadapter.ServiceReleases `yaml:"releases" doc:"The releases of the broker. A release without 'jobs' provides the jobs that no other release lists. A release without 'version' gets a version that the definition's 'requires' allows. By default, the broker has the releases in 'requires'."`
	Stemcells      []serviceadapter.Stemcell      `yaml:"stemcells" doc:"The stemcells of the broker. By default, the broker has the stemcells in the definition's 'requires'."`
	InstanceGroups []serviceadapter.InstanceGroup `yaml:"instance_groups" doc:"All instance groups of the broker's plan. A group without 'instances' has one instance, and a group without 'persistent_disk_type' has no disk. By default, the plan has the instance groups of the manifest template and those that ops files add for the plan, each with a disk."`
	PlanProperties map[string]any                 `yaml:"plan_properties" doc:"The properties of the broker's plan."`
	VMs            map[string][]string            `yaml:"vms" doc:"The IP addresses of the instances by instance group. The default is one address for each instance, from 10.0.0.10 on."`
	DNS            map[string]string              `yaml:"dns" doc:"The DNS addresses of BOSH that the broker sends with a bind request."`
	Variables      map[string]string              `yaml:"variables" doc:"The values of variables in the deployed manifest. The key is the name of a variable, such as 'redis_tls.ca' for ((redis_tls.ca)), the name of a secret of the definition, or an absolute path in CredHub."`
	UAAClient      map[string]any                 `yaml:"uaa_client" doc:"The UAA client of the instance that the broker sends."`
	Context        map[string]any                 `yaml:"context" doc:"Further keys of the request context. The keys 'platform' and 'instance_name' are always set."`
	Errands        bool                           `yaml:"errands" doc:"If this is true, the lifecycle errands apply-instance and destroy-instance apply and destroy the provision template."`
}

// Sample returns an instance of a service as a typical operator would configure it: with the releases and stemcells
// that the definition requires, or invented ones if it requires none, the plan property that selects the plan, and
// one instance of each group on a small VM with a disk. The groups are those that the manifest has without parameters
// of the user; see groupsOf. The plan lacks those of them whose size the definition computes completely. A nil plan
// means that the plan property selects the service only, and that PlanID is "". id is the id of the instance. No
// manifest is deployed yet, but each of the groups that is not an errand, including those that the plan lacks,
// already has the same address, 10.0.0.10.
func Sample(service *brokerpak.Service, plan *brokerpak.Plan, id string) *Instance {
	instance := &Instance{ID: id, ServiceID: service.ID, VMs: map[string][]string{}}
	instance.Configure(service, plan, Environment{})
	for _, group := range groupsOf(service, plan) {
		if group.Lifecycle != errand { // an errand's VMs exist only while it runs
			instance.VMs[group.Name] = sampleAddresses(1)
		}
	}
	return instance
}

// groupsOf returns the instance groups that the manifest of an instance of the plan has without parameters of the
// user, in the order of the definition. A nil plan means a plan without properties. A group is left out if its
// condition is false, fails, or depends on values that only a request has, or if only ops files for the completed
// manifest add it. Groups that ops files remove are not left out. The result is nil if the service has no BOSH
// section.
func groupsOf(service *brokerpak.Service, plan *brokerpak.Plan) []brokerpak.InstanceGroup {
	if plan == nil {
		plan = &brokerpak.Plan{}
	}
	groups, _ := vars.GroupsOfPlan(service, *plan)
	return groups
}

// errand is the lifecycle of an instance group that runs errands only.
const errand = "errand"

// Configure sets i.Plan, i.PlanID and i.Deployment as the broker's configuration of a service would define them. i.ID
// must be set. A nil plan means that the plan property "brokerpak" selects the service only; i.PlanID is not changed
// then.
//
// environment contains what the operator provides:
//   - Releases, Stemcells and InstanceGroups are used, and invented as in Sample if they are nil. If the list of
//     releases or stemcells is empty, one release or stemcell is invented. A release or stemcell without a version gets
//     one, and a release without a list of jobs gets jobs. An instance group gets the VM type, number of instances,
//     networks and AZs of a sample group if it lacks them, but no disk.
//   - PlanProperties are added to the plan, and replace the property "brokerpak" if they contain it.
//   - If Errands is true, Configure calls AddErrands. Otherwise the plan has no lifecycle errands.
//   - All other fields are not used.
func (i *Instance) Configure(service *brokerpak.Service, plan *brokerpak.Plan, environment Environment) {
	selection, template := map[string]any{"service": service.Name}, service.Provision.Bosh
	if plan != nil {
		i.PlanID, selection["plan"] = plan.ID, plan.Name
	}
	if template == nil {
		template = &brokerpak.Bosh{}
	}
	groups, jobs := []serviceadapter.InstanceGroup{}, template.AddonJobs()
	for _, group := range groupsOf(service, plan) {
		if !group.Sized {
			groups = append(groups, SampleGroup(group.Name, group.Lifecycle))
		}
		jobs = append(jobs, group.Jobs...)
	}
	if environment.InstanceGroups != nil {
		groups = nil
	}
	for _, group := range environment.InstanceGroups {
		sample := SampleGroup("", "")
		group.VMType, group.Instances = cmp.Or(group.VMType, sample.VMType), cmp.Or(group.Instances, sample.Instances)
		if group.Networks == nil {
			group.Networks = sample.Networks
		}
		if group.AZs == nil {
			group.AZs = sample.AZs
		}
		groups = append(groups, group)
	}
	i.Plan = map[string]any{
		"properties":        value.Merge(map[string]any{"brokerpak": selection}, environment.PlanProperties),
		"lifecycle_errands": map[string]any{},
		"instance_groups":   groups,
	}
	i.Deployment = serviceadapter.ServiceDeployment{
		DeploymentName: i.DeploymentName(),
		Releases:       releases(service.Name, template.Requires, environment.Releases, jobs),
		Stemcells:      stemcells(template.Requires, environment.Stemcells),
	}
	if environment.Errands {
		i.AddErrands()
	}
}

// releases returns the releases of the broker: provided, which the operator configures, or, if that is nil, those that
// the definition requires. If provided is empty and not nil, or if the definition requires none, it returns a release
// with the name of the service. jobs are the jobs that the releases must provide; the elements of the slice are
// changed, but provided is not. A release whose list of jobs is nil gets all jobs that no other release lists, or a job
// "none" if there are none. Of several releases that the definition requires, only the first one gets jobs in this way;
// each other one has an invented job. A release without a version gets one that requires allows, if such a version is
// found, and otherwise "1.0.0".
func releases(
	service string, requires brokerpak.Requires, provided serviceadapter.ServiceReleases, jobs []string,
) serviceadapter.ServiceReleases {
	all := slices.Clone(provided)
	for n, constraint := range requires.Releases {
		switch {
		case provided != nil:
		case n == 0: // the definition does not declare which release provides which job
			all = append(all, serviceadapter.ServiceRelease{Name: constraint.Name})
		default:
			all = append(all, serviceadapter.ServiceRelease{
				Name: constraint.Name, Jobs: []string{"of-" + constraint.Name},
			})
		}
	}
	if len(all) == 0 {
		all = append(all, serviceadapter.ServiceRelease{Name: service})
	}
	for _, release := range all {
		jobs = slices.DeleteFunc(jobs, func(job string) bool { return slices.Contains(release.Jobs, job) })
	}
	slices.Sort(jobs)
	if jobs = slices.Compact(jobs); len(jobs) == 0 {
		jobs = []string{"none"} // a release has at least one job
	}
	for n, release := range all {
		if release.Jobs == nil {
			all[n].Jobs = jobs
		}
		if release.Version == "" {
			names := append([]string{release.Name}, all[n].Jobs...)
			all[n].Version = allowed("1.0.0", slices.Concat(requires.Releases, requires.Jobs), names...)
		}
	}
	return all
}

// stemcells returns the stemcells that the operator provides or, if provided is nil, those that the definition
// requires. If there are none, it returns the stemcell ubuntu-jammy. A stemcell without a version gets one that the
// definition allows, if such a version is found, and otherwise "1.1". The provided slice is not changed.
func stemcells(requires brokerpak.Requires, provided []serviceadapter.Stemcell) []serviceadapter.Stemcell {
	all := slices.Clone(provided)
	for _, constraint := range requires.Stemcells {
		if provided == nil {
			all = append(all, serviceadapter.Stemcell{OS: constraint.Name})
		}
	}
	if len(all) == 0 {
		all = append(all, serviceadapter.Stemcell{OS: "ubuntu-jammy"})
	}
	for n := range all {
		if all[n].Version == "" {
			all[n].Version = allowed("1.1", requires.Stemcells, all[n].OS)
		}
	}
	return all
}

// allowed returns a version that satisfies all constraints whose names are among names, such as the names of a release
// and its jobs. It returns preferred if that satisfies them, if there are no such constraints, or if no satisfying
// version is found. A constraint that cannot be parsed is ignored.
func allowed(preferred string, constraints []brokerpak.Constraint, names ...string) string {
	var all brokerpak.Constraints
	for _, constraint := range constraints {
		if slices.Contains(names, constraint.Name) {
			parsed, _ := brokerpak.ParseConstraint(constraint.Constraint) // reading the pak rejects invalid constraints
			all = append(all, parsed...)
		}
	}
	return all.Example(preferred)
}

// SampleVMs replaces i.VMs: each instance group of the deployed manifest that is not an errand gets as many addresses
// as it has instances, for each group from 10.0.0.10 on. Instance groups in others, which maps names of groups to
// addresses, get the addresses there instead, even if the manifest does not contain them; others may be nil. SampleVMs
// returns an error, and changes nothing, if the manifest cannot be decoded.
func (i *Instance) SampleVMs(others map[string][]string) error {
	var manifest bosh.BoshManifest
	if err := yaml.Unmarshal([]byte(i.Manifest), &manifest); err != nil {
		return fmt.Errorf("decoding the manifest: %w", err)
	}
	i.VMs = map[string][]string{}
	for _, group := range manifest.InstanceGroups {
		if group.Lifecycle != errand {
			i.VMs[group.Name] = sampleAddresses(group.Instances)
		}
	}
	maps.Copy(i.VMs, others)
	return nil
}

// sampleAddresses returns count consecutive IP addresses from "10.0.0.10" on; 10.0.1.0 follows 10.0.0.255. The result
// is empty, but not nil, if count is zero or negative.
func sampleAddresses(count int) []string {
	const first, size = 10, 256
	addresses := []string{}
	for n := first; n < first+count; n++ {
		addresses = append(addresses, fmt.Sprintf("10.0.%d.%d", n/size, n%size))
	}
	return addresses
}

// AddErrands replaces the lifecycle errands in i.Plan by those that apply and destroy the provision template,
// apply-instance after a deployment and destroy-instance before a deletion. It adds an instance group "errands" for
// them unless the plan has one, and adds their release, service-adapter, to i.Deployment. i.Plan and i.Deployment must
// be those of Configure. AddErrands must be called once, because each call adds the release; Configure already calls it
// if Environment.Errands is true.
func (i *Instance) AddErrands() {
	groups, _ := i.Plan["instance_groups"].([]serviceadapter.InstanceGroup)
	if !slices.ContainsFunc(groups, func(group serviceadapter.InstanceGroup) bool { return group.Name == "errands" }) {
		groups = append(groups, SampleGroup("errands", errand))
	}
	i.Plan["instance_groups"] = groups
	i.Plan["lifecycle_errands"] = serviceadapter.LifecycleErrands{
		PostDeploy: []serviceadapter.Errand{{Name: record.ApplyErrand}},
		PreDelete:  []serviceadapter.Errand{{Name: record.DestroyErrand}},
	}
	i.Deployment.Releases = append(i.Deployment.Releases, serviceadapter.ServiceRelease{
		Name: "service-adapter", Version: "1.0.0", Jobs: []string{record.ApplyErrand, record.DestroyErrand},
	})
}

// SampleGroup returns an instance group of a plan with a name and a lifecycle, "errand" or "" for a group that is not
// an errand. The group has one instance of the VM type "small" with a disk of the type "10GB", in the network "default"
// and the availability zone "z1".
func SampleGroup(name, lifecycle string) serviceadapter.InstanceGroup {
	return serviceadapter.InstanceGroup{
		Name: name, VMType: "small", Instances: 1, Networks: []string{"default"}, AZs: []string{"z1"},
		PersistentDiskType: "10GB", Lifecycle: lifecycle,
	}
}

// SampleValue returns a sample value of an input or output of a service, which variable declares. That is the value in
// the first example of the service that sets a provision parameter of this name other than null. Without one, it is the
// first example in the declaration, or else its constant, the first value of its enum, or a typical value of its type,
// such as 1 or "example". The value does not have to satisfy all constraints.
func SampleValue(service *brokerpak.Service, variable brokerpak.Variable) any {
	for _, example := range service.Examples {
		if item, ok := example.ProvisionParams[variable.Name]; ok && item != nil {
			return item
		}
	}
	return variable.SampleValue()
}

// SampleOutputs returns sample values, by name, for the outputs that a service declares for its provision template, in
// place of a run of OpenTofu; see SampleValue for how they are chosen. The map is never nil.
func SampleOutputs(service *brokerpak.Service) map[string]any {
	outputs := map[string]any{}
	for _, output := range service.Provision.Outputs {
		outputs[output.Name] = SampleValue(service, output)
	}
	return outputs
}
