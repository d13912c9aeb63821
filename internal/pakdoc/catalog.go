package pakdoc

import (
	"bytes"
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak"
	"service-adapter/internal/fault"
	"service-adapter/internal/hclfile"
	"service-adapter/internal/value"
)

// placeholder marks what only the operator knows, as in REPLACE_ME_vm_type.
const placeholder = "REPLACE_ME_"

// Catalog returns the properties of the on-demand broker's job `broker` that follow from a service: its service_catalog and
// the switches that the pak needs, as YAML with comments. What only the operator knows is a text that begins with REPLACE_ME_.
// A service with neither a BOSH manifest nor a provision template is a *fault.UserError: the broker could not deploy it.
func Catalog(service *brokerpak.Service) (string, error) {
	if !service.HasInstances() {
		return "", fault.Userf("service %q has neither a provision.bosh section nor a provision template, so the on-demand broker cannot deploy it",
			service.Name)
	}
	bosh := service.Provision.Bosh
	if bosh == nil {
		bosh = &brokerpak.Bosh{}
	}
	root := &block{}
	root.add("enable_plan_schemas", true)
	module, _ := hclfile.Inspect(service.Provision.Templates) // what is wrong with it is none of the catalog's business
	switch {
	case len(bosh.Secrets)+len(module.SensitiveOutputs) > 0:
		root.comment("Needs bosh_credhub_api. When it is false, the adapter's secure_manifests must be false, too.")
		root.add("enable_secure_manifests", true)
	case readsBoshVariables(service):
		root.comment("Needs bosh_credhub_api. Bindings hold values of BOSH variables, which the broker sends only with it.")
		root.add("enable_secure_manifests", true)
	}
	if kinds := value.Keys(bosh.Configs); len(kinds) > 0 {
		root.comment("The adapter returns BOSH configs (" + strings.Join(kinds, ", ") + "). With true, the adapter's disable_bosh_configs must be true,")
		root.comment("too, and requests that need one are refused.")
		root.add("disable_bosh_configs", false)
	}
	if service.HasBackupAgent() {
		root.add("support_backup_agent_binding", true)
	}
	root.addBlock("service_catalog", catalog(service))
	var out bytes.Buffer
	fmt.Fprintf(&out, "# Properties of the job broker for the service %s. Replace every %s….\n", service.Name, placeholder)
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(root.finished()); err != nil {
		return "", fmt.Errorf("writing the catalog of %q: %w", service.Name, err)
	}
	return out.String(), nil
}

func catalog(service *brokerpak.Service) *block {
	b := &block{}
	b.add("id", service.ID)
	b.add("service_name", service.Name)
	b.add("service_description", oneLine(service.Description))
	b.add("bindable", service.Binds())
	b.add("plan_updatable", service.PlanUpdateable)
	if len(service.Tags) > 0 {
		b.add("tags", service.Tags)
	}
	metadata := &block{}
	metadata.add("display_name", service.DisplayName)
	if service.ProviderDisplayName != "" {
		metadata.add("provider_display_name", service.ProviderDisplayName)
	}
	image := service.ImageURL
	if strings.HasPrefix(image, "file://") {
		metadata.comment("A built pak holds the image of " + image + ".")
		image = placeholder + "image_url"
	}
	metadata.add("image_url", image)
	metadata.add("documentation_url", service.DocumentationURL)
	metadata.add("support_url", service.SupportURL)
	b.addBlock("metadata", metadata)
	b.comment("Properties of every plan; those of a plan win.")
	b.addBlock("global_properties", &block{})
	var plans []*block
	for i := range service.Plans {
		plans = append(plans, catalogPlan(service, &service.Plans[i]))
	}
	if len(plans) == 0 {
		b.comment("The pak leaves the plans to you.")
		plans = append(plans, catalogPlan(service, &brokerpak.Plan{
			Name: placeholder + "plan_name", ID: placeholder + "plan_id", Description: placeholder + "plan_description",
			DisplayName: placeholder + "plan_display_name",
		}))
	}
	b.addList("plans", plans)
	return b
}

func catalogPlan(service *brokerpak.Service, plan *brokerpak.Plan) *block {
	b := &block{}
	b.add("name", plan.Name)
	b.add("plan_id", plan.ID)
	b.add("description", oneLine(plan.Description))
	b.add("free", plan.Free)
	metadata := &block{}
	metadata.add("display_name", plan.DisplayName)
	if len(plan.Bullets) > 0 {
		metadata.add("bullets", plan.Bullets)
	}
	b.addBlock("metadata", metadata)
	b.comment("quotas: {service_instance_limit: 10}")
	b.addBlock("properties", planBlock(service, plan))
	if service.Provision.Bosh == nil {
		b.comment("OpenTofu makes the instances; their deployments are empty.")
		b.add("instance_groups", []string{})
		bindingWithDNS(b, service)
		return b
	}
	bosh := service.Provision.Bosh
	var groups []*block
	var errands []string
	for _, found := range bosh.InstanceGroups() {
		groups = append(groups, catalogGroup(found))
		if found.Lifecycle == errand {
			errands = append(errands, found.Jobs...)
		}
	}
	if len(groups) == 0 {
		b.comment("The manifest template names no instance groups; write those that it makes.")
		groups = append(groups, catalogGroup(brokerpak.InstanceGroup{Name: placeholder + "instance_group"}))
	}
	b.addList("instance_groups", groups)
	if len(errands) > 0 {
		b.comment("To run errands after each deployment (post_deploy) or before the deletion (pre_delete):")
		b.comment("lifecycle_errands:")
		b.comment("  post_deploy: [{name: " + strings.Join(errands, "}, {name: ") + "}]")
	}
	bindingWithDNS(b, service)
	return b
}

// errand is the lifecycle of an instance group that runs on demand.
const errand = "errand"

// planBlock are the properties of a plan: which one of the pak it is, and what the pak or the operator sets.
func planBlock(service *brokerpak.Service, plan *brokerpak.Plan) *block {
	b := &block{}
	b.comment("Tells the adapter which service and plan of the pak this is.")
	which := (&block{}).add("service", service.Name)
	if service.Plan(plan.ID) != nil {
		which.add("plan", plan.Name)
	}
	b.addBlock("brokerpak", which)
	for i, name := range value.Keys(plan.Properties) {
		if i == 0 {
			b.comment("The pak's values, which the adapter knows; keep what you change.")
		}
		b.add(name, plan.Properties[name])
	}
	for _, input := range planProperties(service) {
		if _, set := plan.Properties[input.Name]; set {
			continue
		}
		b.comment(fmt.Sprintf("%s (%s): %s", input.Name, input.Type, input.Description))
		if input.Required {
			b.add(input.Name, placeholder+input.Name)
		}
	}
	return b
}

func catalogGroup(found brokerpak.InstanceGroup) *block {
	b := &block{}
	if found.Optional {
		b.node.HeadComment = "# Optional: a plan may leave it out."
	}
	b.add("name", found.Name)
	b.add("vm_type", placeholder+"vm_type")
	b.add("instances", 1)
	b.add("networks", []string{placeholder + "network"})
	b.add("azs", []string{placeholder + "az"})
	if found.Lifecycle == errand {
		b.add("lifecycle", errand)
		return b
	}
	b.comment("Leave it out where nothing must outlive the VM.")
	b.add("persistent_disk_type", placeholder+"disk_type")
	return b
}
