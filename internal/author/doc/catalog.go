package doc

import (
	"bytes"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"text/template"

	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak"
	"service-adapter/internal/author/release"
	"service-adapter/internal/fault"
	"service-adapter/internal/hclfile"
	"service-adapter/internal/instance"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
	"service-adapter/internal/vars"
	"service-adapter/internal/yamltree"
)

// placeholder is the prefix of values that only the operator knows, such as REPLACE_ME_vm_type.
const placeholder = "REPLACE_ME_"

//go:embed catalog.yml.tmpl
var catalogText string

// A catalog contains the data for the catalog template. Exported fields are used by the template.
type catalog struct {
	*brokerpak.Service
	module *hclfile.Module // the provision template
	// HasSecrets and ReadsVariables are the two reasons why the broker must have secure manifests enabled.
	HasSecrets, ReadsVariables bool
	// Plans is never empty. For a service without plans, it contains one with placeholders.
	Plans []brokerpak.Plan
	// Deployment describes the releases and stemcells of the service. It is nil if the service deploys no jobs.
	Deployment *deployment
	// Errands are the jobs of the service's own errand groups.
	Errands []string
	// Addresses are the names of DNS addresses that binds use. AllAddresses means that binds use all addresses that
	// exist.
	Addresses    []string
	AllAddresses bool
	// Adapter describes the lifecycle errands of the adapter. It is nil if plans do not have them.
	Adapter *adapterErrands
	// Maintenance is nil if the version of the pak cannot be used for it.
	Maintenance *MaintenanceInfo
}

// adapterErrands describes the lifecycle errands of plans that apply and destroy the provision template. NeedsOutput
// and Needed are "" unless Apply is "".
type adapterErrands struct {
	// Group is the name of the instance group that runs the errands.
	Group string
	// Apply and Destroy are the names of the errands. Apply is "" if the manifest needs an output of the template, so
	// that generate-manifest has to apply the template itself.
	Apply, Destroy string
	// NeedsOutput is the name of that output, and Needed the position that uses it.
	NeedsOutput, Needed string
}

// Catalog returns the properties of the on-demand broker's job `broker` that depend on a service, as YAML with
// comments: its service_catalog, its service_deployment and the features that the pak needs. manifest is that of the
// pak. The releases contain the jobs of the service; without them, or for a job that none of them has, the operator
// must name the release. Values that only the operator knows begin with REPLACE_ME_. Catalog returns a *fault.UserError
// if the service has neither a BOSH manifest nor a provision template, because the broker could not deploy it. Any
// other error means that the catalog could not be written as YAML.
func Catalog(
	manifest *brokerpak.Manifest, service *brokerpak.Service, releases ...*release.Release,
) (string, error) {
	if !service.HasInstances() {
		return "", fault.Userf(
			"service %q has neither a provision.bosh section nor a provision template, so the on-demand broker "+
				"cannot deploy it",
			service.Name)
	}
	return newCatalog(manifest, service, releases).text()
}

// CatalogWithErrands returns the same properties as Catalog, with plans that have the lifecycle errands apply-instance
// and destroy-instance, and with the release of their jobs in service_deployment. If the BOSH manifest needs outputs of
// the provision template, plans have only destroy-instance. It returns a *fault.UserError if the service has no
// provision template, or an instance group or job with the name of an errand. Any other error means that the catalog
// could not be written as YAML.
func CatalogWithErrands(
	manifest *brokerpak.Manifest, service *brokerpak.Service, releases ...*release.Release,
) (string, error) {
	if len(service.Provision.Templates) == 0 {
		return "", fault.Userf(
			"service %q has no provision template, so there is nothing that the errands %s and %s could do",
			service.Name, record.ApplyErrand, record.DestroyErrand)
	}
	c := newCatalog(manifest, service, releases)
	for _, name := range []string{record.ApplyErrand, record.DestroyErrand} {
		if service.Provision.Bosh.HasGroupOrJob(name) {
			return "", fault.Userf(
				"service %q has an instance group or a job %q of its own, so its plans cannot have the adapter's "+
					"errand of that name",
				service.Name, name)
		}
	}
	errands := &adapterErrands{Group: "errands", Apply: record.ApplyErrand, Destroy: record.DestroyErrand}
	for c.Provision.Bosh.HasGroupOrJob(errands.Group) {
		errands.Group = "adapter-" + errands.Group // the service must not have a group of that name
	}
	if name, pos := c.Provision.FindOutputUse(c.module.Outputs); name != "" {
		errands.Apply, errands.NeedsOutput, errands.Needed = "", name, pos.String()
	}
	c.Adapter = errands
	return c.text()
}

// text returns the catalog as YAML. The error is not nil if the template fails.
func (c catalog) text() (string, error) {
	functions := template.FuncMap{
		"flat": oneLine, "hasPrefix": strings.HasPrefix, "join": strings.Join,
		"contains": slices.Contains[[]string],
		"keys":     value.Keys[brokerpak.Conditional], "yaml": yamlEntry,
	}
	var out bytes.Buffer
	if err := execute(&out, catalogText, functions, c); err != nil {
		return "", fmt.Errorf("writing the catalog of %q: %w", c.Name, err)
	}
	return out.String(), nil
}

// newCatalog returns the data of a service for the catalog template. Adapter is nil; CatalogWithErrands sets it. A
// service without plans gets one plan whose values are placeholders. Defects of the provision template are ignored.
func newCatalog(
	manifest *brokerpak.Manifest, service *brokerpak.Service, releases []*release.Release,
) catalog {
	module, _ := hclfile.Inspect(service.Provision.Templates) // defects of the template are reported by package lint
	c := catalog{
		Service: service, module: module, HasSecrets: len(module.SensitiveOutputs) > 0,
		ReadsVariables: readsBoshVariables(service), Plans: service.Plans, Maintenance: NewMaintenanceInfo(manifest),
	}
	c.Addresses, c.AllAddresses = addresses(service)
	if bosh := service.Provision.Bosh; bosh != nil {
		c.HasSecrets = c.HasSecrets || len(bosh.Secrets) > 0
		c.Deployment = newDeployment(service, releases)
		for _, group := range bosh.InstanceGroups() {
			if group.Lifecycle == "errand" && !group.Sized {
				c.Errands = append(c.Errands, group.Jobs...)
			}
		}
	}
	if len(c.Plans) == 0 {
		c.Plans = []brokerpak.Plan{{
			Name: placeholder + "plan_name", ID: placeholder + "plan_id", Description: placeholder + "plan_description",
			DisplayName: placeholder + "plan_display_name",
		}}
	}
	return c
}

// Groups returns the instance groups that a plan must size: those of the manifest without parameters of a user, except
// those that the definition sizes completely.
func (c catalog) Groups(plan brokerpak.Plan) []brokerpak.InstanceGroup {
	groups, _ := vars.GroupsOfPlan(c.Service, plan)
	return slices.DeleteFunc(groups, isSized)
}

// ConditionalGroups returns the instance groups that a plan must size only if the condition of an ops file is true, and
// for which that is not known or not the case without parameters of a user.
func (c catalog) ConditionalGroups(plan brokerpak.Plan) []brokerpak.InstanceGroup {
	_, conditional := vars.GroupsOfPlan(c.Service, plan)
	return slices.DeleteFunc(conditional, isSized)
}

// isSized reports whether the definition computes the size of an instance group completely.
func isSized(group brokerpak.InstanceGroup) bool { return group.Sized }

// Unset returns the plan inputs of both actions that the properties of a plan do not contain, so that the operator has
// to set them. Overrides of the plan do not count.
func (c catalog) Unset(plan brokerpak.Plan) []parameter {
	return slices.DeleteFunc(service{c.Service}.PlanProperties(), func(input parameter) bool {
		_, set := plan.Properties[input.Name]
		return set
	})
}

// yamlEntry returns a key and its value as YAML, with each line indented by indent blanks and without a line break at
// the end. A list that begins with a scalar is written on one line. yamlEntry returns an error if the value cannot be
// encoded.
func yamlEntry(indent int, key string, item any) (string, error) {
	var node yaml.Node
	if err := node.Encode(item); err != nil {
		return "", err
	}
	if len(node.Content) > 0 && node.Content[0].Kind == yaml.ScalarNode && node.Kind == yaml.SequenceNode {
		node.Style = yaml.FlowStyle
	}
	text, err := yamltree.Encode(map[string]*yaml.Node{key: &node})
	margin := strings.Repeat(" ", indent)
	return margin + strings.ReplaceAll(strings.TrimSuffix(string(text), "\n"), "\n", "\n"+margin), err
}

// readsBoshVariables reports whether bind expressions read a value of the manifest that is a BOSH variable or a CredHub
// reference. If the manifest template does not contain the value, because an ops file adds it, any variable in a
// template counts. A service without a bosh section has none.
func readsBoshVariables(service *brokerpak.Service) bool {
	bosh := service.Provision.Bosh
	if bosh == nil {
		return false
	}
	view := instance.View{Manifest: []byte(bosh.Manifest.Text)}
	for _, template := range service.BindExpressions() {
		for _, call := range template.Calls() {
			if call.Name != "manifest.get" {
				continue
			}
			item, err := view.GetRaw(call.Arg(0))
			if err == nil && isBoshVariable(service, string(value.MustJSON(item))) {
				return true
			}
			hasVariable := func(d brokerpak.Document) bool { return isBoshVariable(service, d.Text) }
			if err != nil && slices.ContainsFunc(bosh.Documents(), hasVariable) {
				return true
			}
		}
	}
	return false
}

// isBoshVariable reports whether a text of a template contains a reference to a BOSH variable or a CredHub
// credential: one that is not an input, an output or a secret of the service.
func isBoshVariable(service *brokerpak.Service, text string) bool {
	provision := &service.Provision
	for _, reference := range vars.Reference.FindAllString(text, -1) {
		name, _ := vars.Split(reference)
		isOutput := func(output brokerpak.Variable) bool { return output.Name == name }
		if !slices.Contains(provision.InputNames(), name) && !slices.ContainsFunc(provision.Outputs, isOutput) &&
			!provision.Bosh.HasSecret(name) {
			return true
		}
	}
	return false
}
