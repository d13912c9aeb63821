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
)

// Surroundings are what operator, platform and BOSH say of an instance, by the keys that test cases have. What is empty is made up.
type Surroundings struct {
	Plan           string                         `yaml:"plan" doc:"The name or the id of the plan; default: the first."`
	Releases       serviceadapter.ServiceReleases `yaml:"releases" doc:"The releases of the broker. One without 'jobs' has all that no other names, one without 'version' one that 'requires' of the definition allows. Default: those that 'requires' names."`
	Stemcells      []serviceadapter.Stemcell      `yaml:"stemcells" doc:"The stemcells of the broker. Default: those that 'requires' names."`
	InstanceGroups []serviceadapter.InstanceGroup `yaml:"instance_groups" doc:"The instance groups of the plan, all of them. One without 'instances' has one, one without 'persistent_disk_type' no disk. Default: those of the manifest template, with a disk."`
	PlanProperties map[string]any                 `yaml:"plan_properties" doc:"Properties of the broker's plan."`
	VMs            map[string][]string            `yaml:"vms" doc:"The addresses of instance groups. Default: 10.0.0.10 and those that follow, one for each instance."`
	DNS            map[string]string              `yaml:"dns" doc:"The addresses of BOSH's DNS, as the broker sends them with a bind."`
	Variables      map[string]string              `yaml:"variables" doc:"Values of what the deployed manifest refers to: 'redis_tls.ca' for ((redis_tls.ca)), the name of a secret of the definition, an absolute path in CredHub."`
	UAAClient      map[string]any                 `yaml:"uaa_client" doc:"The UAA client of the instance, as the broker sends it."`
	Context        map[string]any                 `yaml:"context" doc:"Keys of the context of requests, besides 'platform' and 'instance_name'."`
	Errands        bool                           `yaml:"errands" doc:"Whether the provision template is applied by the lifecycle errands apply-instance and destroy-instance."`
}

// Sample returns an instance of a service as a plausible operator would configure it: the releases and stemcells that the definition
// asks for, one instance of each group on a small VM with a disk, and the plan named by the property that tells the adapter which one is
// meant. Nothing is deployed yet.
func Sample(service *brokerpak.Service, plan *brokerpak.Plan, id string) *Instance {
	instance := &Instance{ID: id, ServiceID: service.ID, VMs: map[string][]string{}}
	instance.Configure(service, plan, Surroundings{})
	if service.Provision.Bosh != nil {
		for _, group := range service.Provision.Bosh.InstanceGroups() {
			if group.Lifecycle != errand { // whose VMs exist only while it runs
				instance.VMs[group.Name] = sampleAddresses(1)
			}
		}
	}
	return instance
}

const errand = "errand"

// Configure sets what the broker's configuration says of an instance with this plan, which may be nil: what the surroundings say, and
// what a plausible operator would where they say nothing.
func (i *Instance) Configure(service *brokerpak.Service, plan *brokerpak.Plan, around Surroundings) {
	chosen, template := map[string]any{"service": service.Name}, service.Provision.Bosh
	if plan != nil {
		i.PlanID, chosen["plan"] = plan.ID, plan.Name
	}
	if template == nil {
		template = &brokerpak.Bosh{}
	}
	groups, jobs := []serviceadapter.InstanceGroup{}, template.AddonJobs()
	for _, group := range template.InstanceGroups() {
		if !group.Sized {
			groups = append(groups, SampleGroup(group.Name, group.Lifecycle))
		}
		jobs = append(jobs, group.Jobs...)
	}
	if around.InstanceGroups != nil {
		groups = nil
	}
	for _, group := range around.InstanceGroups {
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
		"properties": value.Merge(map[string]any{"brokerpak": chosen}, around.PlanProperties), "lifecycle_errands": map[string]any{},
		"instance_groups": groups,
	}
	i.Deployment = serviceadapter.ServiceDeployment{
		DeploymentName: i.DeploymentName(), Releases: releases(service.Name, template.Requires, around.Releases, jobs),
		Stemcells: stemcells(template.Requires, around.Stemcells),
	}
	if around.Errands {
		i.AddErrands()
	}
}

// releases are those that an operator names, else those that the definition does. One without jobs provides all that no other does.
func releases(service string, requires brokerpak.Requires, given serviceadapter.ServiceReleases, jobs []string) serviceadapter.ServiceReleases {
	made := slices.Clone(given)
	for n, constraint := range requires.Releases {
		switch {
		case given != nil:
		case n == 0: // nobody knows which of them provides what
			made = append(made, serviceadapter.ServiceRelease{Name: constraint.Name})
		default:
			made = append(made, serviceadapter.ServiceRelease{Name: constraint.Name, Jobs: []string{"of-" + constraint.Name}})
		}
	}
	if len(made) == 0 {
		made = append(made, serviceadapter.ServiceRelease{Name: service})
	}
	for _, release := range made {
		jobs = slices.DeleteFunc(jobs, func(job string) bool { return slices.Contains(release.Jobs, job) })
	}
	slices.Sort(jobs)
	if jobs = slices.Compact(jobs); len(jobs) == 0 {
		jobs = []string{"none"} // a release has at least one job
	}
	for n := range made {
		if made[n].Jobs == nil {
			made[n].Jobs = jobs
		}
		if made[n].Version == "" {
			made[n].Version = allowed("1.0.0", slices.Concat(requires.Releases, requires.Jobs), append([]string{made[n].Name}, made[n].Jobs...)...)
		}
	}
	return made
}

// stemcells are those that an operator names, else those that the definition does.
func stemcells(requires brokerpak.Requires, given []serviceadapter.Stemcell) []serviceadapter.Stemcell {
	made := slices.Clone(given)
	for _, constraint := range requires.Stemcells {
		if given == nil {
			made = append(made, serviceadapter.Stemcell{OS: constraint.Name})
		}
	}
	if len(made) == 0 {
		made = append(made, serviceadapter.Stemcell{OS: "ubuntu-jammy"})
	}
	for n := range made {
		if made[n].Version == "" {
			made[n].Version = allowed("1.1", requires.Stemcells, made[n].OS)
		}
	}
	return made
}

// allowed is a version that the constraints on some names allow: the given one if it is.
func allowed(version string, constraints []brokerpak.Constraint, names ...string) string {
	var all brokerpak.Constraints
	for _, constraint := range constraints {
		if slices.Contains(names, constraint.Name) {
			parsed, _ := brokerpak.ParseConstraint(constraint.Constraint) // what is none is refused where the pak is read
			all = append(all, parsed...)
		}
	}
	return all.Example(version)
}

// SampleVMs gives each instance of the deployed manifest an address, 10.0.0.10 and those that follow, unless a group has others.
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

func sampleAddresses(count int) []string {
	const first, size = 10, 256
	addresses := []string{}
	for n := first; n < first+count; n++ {
		addresses = append(addresses, fmt.Sprintf("10.0.%d.%d", n/size, n%size))
	}
	return addresses
}

// AddErrands gives the plan of an instance the lifecycle errands that apply and destroy its provision template, on a group of their own.
func (i *Instance) AddErrands() {
	groups, _ := i.Plan["instance_groups"].([]serviceadapter.InstanceGroup)
	if !slices.ContainsFunc(groups, func(group serviceadapter.InstanceGroup) bool { return group.Name == "errands" }) {
		groups = append(groups, SampleGroup("errands", errand))
	}
	i.Plan["instance_groups"] = groups
	i.Plan["lifecycle_errands"] = serviceadapter.LifecycleErrands{
		PostDeploy: []serviceadapter.Errand{{Name: record.ApplyErrand}}, PreDelete: []serviceadapter.Errand{{Name: record.DestroyErrand}},
	}
	i.Deployment.Releases = append(i.Deployment.Releases, serviceadapter.ServiceRelease{
		Name: "service-adapter", Version: "1.0.0", Jobs: []string{record.ApplyErrand, record.DestroyErrand},
	})
}

// SampleGroup is an instance group of a plan: one instance on a small VM with a disk.
func SampleGroup(name, lifecycle string) serviceadapter.InstanceGroup {
	return serviceadapter.InstanceGroup{
		Name: name, VMType: "small", Instances: 1, Networks: []string{"default"}, AZs: []string{"z1"}, PersistentDiskType: "10GB", Lifecycle: lifecycle,
	}
}
