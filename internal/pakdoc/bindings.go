package pakdoc

import (
	"regexp"
	"slices"
	"strings"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/instance"
	"service-adapter/internal/value"
)

// addresses are the names of binding_with_dns for the addresses that a bind asks for: bosh.address("NAME") and bosh.dns["NAME"]. Where a
// bind takes all that there are, or computes the name, the operator may or must add some.
func addresses(service *brokerpak.Service) (names []string, all bool) {
	for _, template := range service.BindExpressions() {
		for _, call := range template.Calls() {
			if call.Name == "bosh.address" {
				names = append(names, call.FirstArg)
			}
		}
		for _, reference := range template.References() {
			name, below := strings.CutPrefix(reference.Name, "bosh.dns.")
			switch {
			case below:
				names = append(names, name)
			case reference.Name == "bosh.dns" && reference.Key != "":
				names = append(names, reference.Key)
			case reference.Name == "bosh.dns":
				all = true
			}
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if computed := slices.Index(names, ""); computed >= 0 {
		names[computed] = placeholder + "name"
	}
	return names, all
}

// variable matches a ((variable)) and finds its name, without what is below it.
var variable = regexp.MustCompile(`\(\( ?!?(/?[^()\s.]+)[^()]*\)\)`)

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
			found, err := view.Find(call.FirstArg)
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
	for _, match := range variable.FindAllStringSubmatch(text, -1) {
		isName := func(output brokerpak.Variable) bool { return output.Name == match[1] }
		isSecret := func(secret brokerpak.Secret) bool { return secret.Name == match[1] }
		if !slices.Contains(provision.InputNames(), match[1]) && !slices.ContainsFunc(provision.Outputs, isName) &&
			!slices.ContainsFunc(provision.Bosh.Secrets, isSecret) {
			return true
		}
	}
	return false
}
