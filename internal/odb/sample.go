package odb

import (
	"slices"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/brokerpak"
	"service-adapter/internal/record"
)

// Sample returns an instance of a service as a plausible operator would configure it: one release that provides every job of
// the manifest template and its addons, one instance of each group on a small VM with a disk, and the plan named by the property that tells
// the adapter which one is meant. Nothing is deployed yet.
func Sample(service *brokerpak.Service, plan *brokerpak.Plan, id string) *Instance {
	instance := &Instance{ID: id, ServiceID: service.ID, VMs: map[string][]string{}}
	properties := map[string]any{"brokerpak": map[string]any{"service": service.Name}}
	if plan != nil {
		instance.PlanID = plan.ID
		properties["brokerpak"] = map[string]any{"service": service.Name, "plan": plan.Name}
	}
	groups := []serviceadapter.InstanceGroup{}
	var jobs []string
	if service.Provision.Bosh != nil {
		for _, group := range service.Provision.Bosh.InstanceGroups() {
			if !group.Sized {
				groups = append(groups, SampleGroup(group.Name, group.Lifecycle))
			}
			jobs = append(jobs, group.Jobs...)
			if group.Lifecycle != "errand" { // whose VMs exist only while it runs
				instance.VMs[group.Name] = []string{"10.0.0.10"}
			}
		}
	}
	if service.Provision.Bosh != nil {
		jobs = append(jobs, service.Provision.Bosh.AddonJobs()...)
	}
	slices.Sort(jobs)
	jobs = slices.Compact(jobs)
	if len(jobs) == 0 {
		jobs = []string{"none"} // a release has at least one job
	}
	instance.Plan = map[string]any{"properties": properties, "lifecycle_errands": map[string]any{}, "instance_groups": groups}
	instance.Deployment = serviceadapter.ServiceDeployment{
		DeploymentName: instance.DeploymentName(),
		Releases:       serviceadapter.ServiceReleases{{Name: service.Name, Version: "1.0.0", Jobs: jobs}},
		Stemcells:      []serviceadapter.Stemcell{{OS: "ubuntu-jammy", Version: "1.1"}},
	}
	return instance
}

// AddErrands gives the plan of an instance the lifecycle errands that apply and destroy its provision template, on a group of their own.
func (i *Instance) AddErrands() {
	groups, _ := i.Plan["instance_groups"].([]serviceadapter.InstanceGroup)
	i.Plan["instance_groups"] = append(groups, SampleGroup("errands", "errand"))
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
