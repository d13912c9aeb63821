package pakdoc

import (
	"cmp"
	"slices"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/instance"
	"service-adapter/brokerpak/vars"
	"service-adapter/internal/value"
)

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
