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

// A catalog contains the data of one service for the template catalog.yml.tmpl, which generates the catalog for the
// manifest of the on-demand broker. The template reads the exported fields and calls the exported methods. The zero
// value is not usable; newCatalog returns a complete one.
type catalog struct {
	*brokerpak.Service
	module *hclfile.Module // the provision template
	// HasSecrets means that the service stores secrets in CredHub, and ReadsVariables that its bindings may contain
	// BOSH variables. The broker must have secure manifests enabled if one of them is true or a plan has
	// apply-instance.
	HasSecrets, ReadsVariables bool
	// Plans is never empty. For a service without plans, it contains one with placeholders.
	Plans []brokerpak.Plan
	// Deployment describes the releases and stemcells of the service.
	Deployment deployment
	// Errands are the jobs of the service's own errand groups, except groups that the definition sizes completely.
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

// adapterErrands describes the adapter's lifecycle errands in the plans of a catalog: the instance group that runs
// them, the errand apply-instance, which applies the provision template (OpenTofu) after a deployment, and the errand
// destroy-instance, which destroys its resources before the deletion. If the manifest, an ops file, a BOSH config or an
// expression that is evaluated before the deployment needs an output of the template, the plans cannot have
// apply-instance: Apply is then "", and NeedsOutput and Needed describe one such use. Otherwise these two are "".
type adapterErrands struct {
	// Group is the name of the instance group that runs the errands.
	Group string
	// Apply and Destroy are the names of the errands. Apply is "" if the manifest needs an output of the template, so
	// that generate-manifest has to apply the template itself.
	Apply, Destroy string
	// NeedsOutput is the text that reads the output, such as "((host))", or "instance.details" for an expression that
	// reads any output. Needed is the position of the text or of the expression.
	NeedsOutput, Needed string
}

// Catalog returns the properties of the on-demand broker's job `broker` that depend on a service, as YAML with
// comments: its service_catalog, its service_deployment and the features that the pak needs. Values that only the
// operator knows begin with REPLACE_ME_. If the service deploys no jobs, the lists of service_deployment are empty.
//
// manifest is the manifest of the pak, whose version becomes the maintenance_info; see NewMaintenanceInfo. The releases
// are searched for the jobs of the service, and none of them may be nil. A release without a job of the service is only
// named in a comment. Jobs that none of the releases has are in an entry of their own, whose release the operator must
// name, unless the definition requires exactly one other release.
//
// Catalog returns "" and a *fault.UserError if the service has neither a BOSH manifest nor a provision template,
// because the broker could not deploy it. It returns "" and another error if the text cannot be generated, for example
// because a value of the pak cannot be encoded as YAML.
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

// CatalogWithErrands returns the same properties as Catalog, which explains the parameters, with two additions. Each
// plan has the adapter's lifecycle errands apply-instance and destroy-instance and an instance group that runs them,
// and service_deployment has the release service-adapter, which contains their jobs. If the service deploys no jobs of
// its own, service_deployment contains only this release, and one stemcell for the VM of the errands. If the BOSH
// manifest, its configs or an expression that is evaluated before the deployment needs an output of the provision
// template, plans have only destroy-instance.
//
// CatalogWithErrands returns "" and a *fault.UserError if the service has no provision template, or has an instance
// group or a job that is named like one of the two errands. It returns "" and another error if the text cannot be
// generated, for example because a value of the pak cannot be encoded as YAML.
func CatalogWithErrands(
	manifest *brokerpak.Manifest, service *brokerpak.Service, releases ...*release.Release,
) (string, error) {
	if len(service.Provision.Templates) == 0 {
		return "", fault.Userf(
			"service %q has no provision template, so the errands %s and %s would have no effect",
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
	if len(c.Deployment.Stemcells) == 0 {
		c.Deployment.Stemcells = deployedStemcells(nil) // for the VM of the errands
	}
	return c.text()
}

// text returns the catalog as YAML with comments. It returns "" and an error that names the service if the template
// cannot be executed, which includes a value that cannot be encoded as YAML.
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

// newCatalog returns the data of a service for the catalog template. The maintenance_info is derived from the version
// in manifest, and the releases are searched for the jobs of the service; the list may be empty, but must not contain
// nil. Adapter is nil; CatalogWithErrands sets it. A service without plans gets one plan whose values are placeholders.
// Errors in the provision template are ignored, so newCatalog never fails. The arguments are not modified.
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

// Groups returns the instance groups whose size (VM type, instances, networks and so on) the operator must write into a
// plan: those that the manifest of an instance has if the user sets no parameters, except those that the definition
// sizes completely. plan decides which conditions of ops files are true. The result is empty or nil if no group
// remains, or if the service has no BOSH manifest.
func (c catalog) Groups(plan brokerpak.Plan) []brokerpak.InstanceGroup {
	groups, _ := vars.GroupsOfPlan(c.Service, plan)
	return slices.DeleteFunc(groups, isSized)
}

// ConditionalGroups returns the instance groups that a plan must size only for some instances: those that an ops file
// adds under a condition that is false, or cannot be evaluated, with the values of the plan and without parameters of a
// user. Groups that the definition sizes completely are left out. The result is empty or nil if no group remains, or if
// the service has no BOSH manifest.
func (c catalog) ConditionalGroups(plan brokerpak.Plan) []brokerpak.InstanceGroup {
	_, conditional := vars.GroupsOfPlan(c.Service, plan)
	return slices.DeleteFunc(conditional, isSized)
}

// isSized reports whether the definition computes the size of an instance group completely.
func isSized(group brokerpak.InstanceGroup) bool { return group.Sized }

// Unset returns the plan inputs of the provision and bind actions, each once, that the key `properties` of a plan
// does not contain. Those with the flag Required must be set by the operator in the catalog. An input that only the
// plan's overrides set is returned as well. The result is empty or nil if no input remains.
func (c catalog) Unset(plan brokerpak.Plan) []parameter {
	return slices.DeleteFunc(service{c.Service}.PlanProperties(), func(input parameter) bool {
		_, set := plan.Properties[input.Name]
		return set
	})
}

// yamlEntry returns a key and its value as YAML, such as "name: value". Each line, including the first one, is indented
// by indent blanks, and the text does not end with a line break. A list whose first element is a scalar is written on
// one line, as in "tags: [a, b]". yamlEntry returns an error if the value's own YAML encoding fails, and panics for a
// Go type that YAML cannot represent, such as a function.
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

// readsBoshVariables reports whether a binding may contain a BOSH variable or a CredHub credential, because an
// expression of the bind action, or of an output in provision.bosh, calls manifest.get with the path of a value that
// contains a reference to one, such as ((password)); see isBoshVariable. If the path is computed, any such reference in
// the manifest template counts. If the template does not contain the path, for example because an ops file adds it, any
// such reference in the template, in the ops files and in the BOSH configs counts. The result is false for a service
// without a provision.bosh section.
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

// isBoshVariable reports whether a text contains a reference, such as ((password)) or ((/credhub/path.key)), to a BOSH
// variable or a CredHub credential. Any reference counts, unless its name is that of an input or output of the
// provision action or of a secret of provision.bosh. The text need not be valid YAML. The service must have a
// provision.bosh section.
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
