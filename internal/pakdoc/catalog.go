package pakdoc

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"text/template"

	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/instance"
	"service-adapter/brokerpak/vars"
	"service-adapter/internal/fault"
	"service-adapter/internal/hclfile"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
	"service-adapter/internal/yamltree"
)

// placeholder marks what only the operator knows, as in REPLACE_ME_vm_type.
const placeholder = "REPLACE_ME_"

//go:embed catalog.yml.tmpl
var catalogText string

// catalog is what the catalog says of a service.
type catalog struct {
	*brokerpak.Service
	module *hclfile.Module // of the provision template
	// HasSecrets and ReadsVariables say why secure manifests are needed.
	HasSecrets, ReadsVariables bool
	Plans                      []brokerpak.Plan
	Groups                     []brokerpak.InstanceGroup
	Errands                    []string
	// Addresses are the names that a bind asks addresses for; AllAddresses says that it takes all there are.
	Addresses    []string
	AllAddresses bool
	// Adapter are the lifecycle errands of the adapter, nil where plans have none.
	Adapter *adapterErrands
}

// adapterErrands are the lifecycle errands by which plans apply and destroy the provision template.
type adapterErrands struct {
	// Group is the name of the plan's group on which they run.
	Group string
	// Apply is the errand that applies the template, "" where NeedsOutput, at Needed, keeps the template in the request.
	Apply, Destroy      string
	NeedsOutput, Needed string
}

// Catalog returns the properties of the on-demand broker's job `broker` that follow from a service: its service_catalog and
// the switches that the pak needs, as YAML with comments. What only the operator knows is a text that begins with REPLACE_ME_.
// A service with neither a BOSH manifest nor a provision template is a *fault.UserError: the broker could not deploy it.
func Catalog(service *brokerpak.Service) (string, error) {
	if !service.HasInstances() {
		return "", fault.Userf("service %q has neither a provision.bosh section nor a provision template, so the on-demand broker cannot deploy it",
			service.Name)
	}
	return newCatalog(service).text()
}

// CatalogWithErrands is Catalog with plans that have the lifecycle errands apply-instance and destroy-instance, and with the release of
// their jobs in service_deployment. Where the BOSH manifest needs outputs of the provision template, plans have destroy-instance alone.
// A service without a provision template is a *fault.UserError, and so is one that has a job of its own with such a name.
func CatalogWithErrands(service *brokerpak.Service) (string, error) {
	if len(service.Provision.Templates) == 0 {
		return "", fault.Userf("service %q has no provision template, so there is nothing that the errands %s and %s could do",
			service.Name, record.ApplyErrand, record.DestroyErrand)
	}
	c := newCatalog(service)
	for _, name := range []string{record.ApplyErrand, record.DestroyErrand} {
		if service.Provision.Bosh.HasGroupOrJob(name) {
			return "", fault.Userf("service %q has an instance group or a job %q of its own, so its plans cannot have the adapter's errand of that name",
				service.Name, name)
		}
	}
	errands := &adapterErrands{Group: "errands", Apply: record.ApplyErrand, Destroy: record.DestroyErrand}
	for c.Provision.Bosh.HasGroupOrJob(errands.Group) {
		errands.Group = "adapter-" + errands.Group // the adapter takes the group that the service does not know
	}
	if what, at := c.Provision.NeedsOutputs(c.module.Outputs); what != "" {
		errands.Apply, errands.NeedsOutput, errands.Needed = "", what, at.String()
	}
	c.Adapter = errands
	return c.text()
}

// text is the catalog as YAML.
func (c catalog) text() (string, error) {
	functions := template.FuncMap{
		"flat": oneLine, "hasPrefix": strings.HasPrefix, "join": strings.Join, "keys": value.Keys[brokerpak.Conditional], "yaml": yamlEntry,
	}
	var out bytes.Buffer
	if err := execute(&out, catalogText, functions, c); err != nil {
		return "", fmt.Errorf("writing the catalog of %q: %w", c.Name, err)
	}
	return out.String(), nil
}

func newCatalog(service *brokerpak.Service) catalog {
	module, _ := hclfile.Inspect(service.Provision.Templates) // what is wrong with it is none of the catalog's business
	c := catalog{
		Service: service, module: module, HasSecrets: len(module.SensitiveOutputs) > 0, ReadsVariables: readsBoshVariables(service),
		Plans: service.Plans,
	}
	c.Addresses, c.AllAddresses = addresses(service)
	if bosh := service.Provision.Bosh; bosh != nil {
		c.HasSecrets = c.HasSecrets || len(bosh.Secrets) > 0
		c.Groups = slices.DeleteFunc(bosh.InstanceGroups(), func(group brokerpak.InstanceGroup) bool { return group.Sized })
	}
	for _, group := range c.Groups {
		if group.Lifecycle == "errand" {
			c.Errands = append(c.Errands, group.Jobs...)
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

// Unset are the inputs of plans that a plan leaves to the operator.
func (c catalog) Unset(plan brokerpak.Plan) []parameter {
	return slices.DeleteFunc(service{c.Service}.PlanProperties(), func(input parameter) bool {
		_, set := plan.Properties[input.Name]
		return set
	})
}

// yamlEntry is a key and its value as YAML, indented by so many blanks. A list of texts or numbers is written in one line.
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

// addresses are the names of binding_with_dns for the addresses that a bind asks for: bosh.address("NAME") and bosh.dns["NAME"]. Where a
// bind takes all that there are, or computes the name, the operator may or must add some.
func addresses(service *brokerpak.Service) (names []string, all bool) {
	for _, template := range service.BindExpressions() {
		for _, call := range template.Calls() {
			if call.Name == "bosh.address" {
				names = append(names, cmp.Or(call.Arg(0), placeholder+"name"))
			}
		}
		for _, reference := range template.References() {
			if name, ok := reference.KeyOf("bosh.dns"); ok && name != "" {
				names = append(names, name)
			} else if ok {
				all = true
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), all
}

// readsBoshVariables tells whether a bind reads what BOSH or CredHub puts into the manifest. Where an ops file makes what is read, any
// variable of the templates counts.
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
			found, err := view.Find(call.Arg(0))
			if err == nil && isBoshVariable(service, string(value.MustJSON(found))) {
				return true
			}
			if err != nil && slices.ContainsFunc(bosh.Documents(), func(d brokerpak.Document) bool { return isBoshVariable(service, d.Text) }) {
				return true
			}
		}
	}
	return false
}

// isBoshVariable tells whether a text of a template refers to what is neither an input nor an output nor a secret of the service, but a
// variable of BOSH or a credential of CredHub.
func isBoshVariable(service *brokerpak.Service, text string) bool {
	provision := &service.Provision
	for _, found := range vars.Reference.FindAllString(text, -1) {
		name, _ := vars.Split(found)
		isOutput := func(output brokerpak.Variable) bool { return output.Name == name }
		if !slices.Contains(provision.InputNames(), name) && !slices.ContainsFunc(provision.Outputs, isOutput) && !provision.Bosh.HasSecret(name) {
			return true
		}
	}
	return false
}
