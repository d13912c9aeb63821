package brokerpak

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/internal/diag"
)

var (
	uuid = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
	// serviceName is what the Cloud Controller takes for a name of a service offering.
	serviceName = regexp.MustCompile(`^[A-Za-z0-9.-]+$`)
)

// definition decodes one service definition. Unknown keys are warnings there, because other brokers ignore them.
type definition struct {
	*document
	pak *Pak
}

// parseService reads a service definition; name is its path in the pak.
func parseService(pak *Pak, name, text string, diags *diag.List) *Service {
	service := &Service{File: name, Pos: diag.Pos{File: pak.Display(name), Line: 1, Column: 1}}
	doc, root := parseDocument(pak.Display(name), text, diags)
	if root == nil {
		return service
	}
	d := &definition{document: doc, pak: pak}
	var version int
	at := d.mapping(root, "the service definition", false, fields{
		{"version", d.integer("version", &version)},
		{"name", d.text("name", &service.Name)},
		{"id", d.text("id", &service.ID)},
		{"description", d.text("description", &service.Description)},
		{"display_name", d.text("display_name", &service.DisplayName)},
		{"provider_display_name", d.text("provider_display_name", &service.ProviderDisplayName)},
		{"image_url", d.text("image_url", &service.ImageURL)},
		{"documentation_url", d.text("documentation_url", &service.DocumentationURL)},
		{"support_url", d.text("support_url", &service.SupportURL)},
		{"tags", d.texts("tags", &service.Tags)},
		{"plan_updateable", d.boolean("plan_updateable", &service.PlanUpdateable)},
		{"plans", d.plans(&service.Plans)},
		{"examples", d.examples(&service.Examples)},
		{"provision", d.action("provision", &service.Provision)},
		{"bind", d.action("bind", &service.Bind)},
	})
	if root.Kind != yaml.MappingNode {
		return service
	}
	service.Pos = at.at("name")
	if version != PackVersion {
		d.failf(at.at("version"), "version", "version of a service definition must be %d", PackVersion)
	}
	d.checkService(at, service)
	checkBosh(service, diags)
	return service
}

func (d *definition) checkService(at places, service *Service) {
	if !serviceName.MatchString(service.Name) {
		d.failf(at.at("name"), "name", "name %q must not be empty and may only hold letters, digits, periods and hyphens", service.Name)
	}
	if !uuid.MatchString(service.ID) {
		d.failf(at.at("id"), "id", "id %q must be a UUID", service.ID)
	}
	d.required(at, "description", "description", service.Description)
	d.required(at, "display_name", "display_name", service.DisplayName)
	for _, link := range []struct{ field, text string }{
		{"image_url", service.ImageURL}, {"documentation_url", service.DocumentationURL}, {"support_url", service.SupportURL},
	} {
		if link.field == "image_url" && strings.HasPrefix(link.text, "file://") {
			continue // a path, which becomes the image itself when the pak is built
		}
		if parsed, err := url.ParseRequestURI(link.text); err != nil || parsed.Scheme == "" {
			d.failf(at.at(link.field), "url", "%s must be a URL with a scheme such as https", link.field)
		}
	}
}

func (d *definition) plans(target *[]Plan) field {
	return func(node *yaml.Node) {
		names := map[string]bool{}
		d.sequence(node, "plans", func(element *yaml.Node) {
			plan := Plan{Pos: d.pos(element)}
			at := d.mapping(element, "a plan", false, fields{
				{"name", d.text("name", &plan.Name)},
				{"id", d.text("id", &plan.ID)},
				{"description", d.text("description", &plan.Description)},
				{"display_name", d.text("display_name", &plan.DisplayName)},
				{"bullets", d.texts("bullets", &plan.Bullets)},
				{"free", d.boolean("free", &plan.Free)},
				{"properties", d.object("properties", &plan.Properties)},
				{"provision_overrides", d.object("provision_overrides", &plan.ProvisionOverrides)},
				{"bind_overrides", d.object("bind_overrides", &plan.BindOverrides)},
			})
			d.required(at, "name", "name of a plan", plan.Name)
			if !uuid.MatchString(plan.ID) {
				d.failf(at.at("id"), "id", "id %q of plan %q must be a UUID", plan.ID, plan.Name)
			}
			d.required(at, "description", "description of a plan", plan.Description)
			d.required(at, "display_name", "display_name of a plan", plan.DisplayName)
			if names[plan.Name] && plan.Name != "" {
				d.failf(at.at("name"), "duplicate", "plan name %q is used twice in this service", plan.Name)
			}
			names[plan.Name] = true
			*target = append(*target, plan)
		})
	}
}

func (d *definition) examples(target *[]Example) field {
	return func(node *yaml.Node) {
		d.sequence(node, "examples", func(element *yaml.Node) {
			example := Example{Pos: d.pos(element)}
			at := d.mapping(element, "an example", false, fields{
				{"name", d.text("name", &example.Name)},
				{"description", d.text("description", &example.Description)},
				{"plan_id", d.text("plan_id", &example.PlanID)},
				{"provision_params", d.object("provision_params", &example.ProvisionParams)},
				{"bind_params", d.object("bind_params", &example.BindParams)},
				{"bind_can_fail", d.boolean("bind_can_fail", &example.BindCanFail)},
			})
			d.required(at, "name", "name of an example", example.Name)
			d.required(at, "description", "description of an example", example.Description)
			d.required(at, "plan_id", "plan_id of an example", example.PlanID)
			*target = append(*target, example)
		})
	}
}

// readRef reads a file that a definition refers to; false and a diagnostic when it cannot be read.
func (d *definition) readRef(node *yaml.Node, what, name string) (Document, bool) {
	text, err := d.pak.readText(name)
	if err != nil {
		d.errorf(node, "missing-file", "%s %q cannot be read: %s", what, name, reason(err))
		return Document{}, false
	}
	return Document{Text: text, Pos: diag.Pos{File: d.pak.Display(name), Line: 1, Column: 1}}, true
}

// Plan returns the plan with the given id or name, or nil.
func (s *Service) Plan(idOrName string) *Plan {
	for i := range s.Plans {
		if plan := &s.Plans[i]; idOrName != "" && (plan.ID == idOrName || plan.Name == idOrName) {
			return plan
		}
	}
	return nil
}

// EnvName is the service's name as it stands in environment variables such as GSB_SERVICE_<NAME>_PLANS: upper case, with
// underscores for periods and hyphens.
func (s *Service) EnvName() string {
	return strings.NewReplacer(".", "_", "-", "_").Replace(strings.ToUpper(s.Name))
}

// HasInstances tells whether there is anything to make for an instance: a BOSH manifest, or what a provision template builds.
func (s *Service) HasInstances() bool {
	return s.Provision.Bosh != nil || len(s.Provision.Templates) > 0
}

// Binds tells whether the service has a bind section; without one it makes no bindings.
func (s *Service) Binds() bool { return s.Bind.Pos != (diag.Pos{}) }

// backupAgentURL is the output that answers requests for a backup agent.
const backupAgentURL = "backup_agent_url"

// HasBackupAgent tells whether the service has an output that answers requests for a backup agent.
func (s *Service) HasBackupAgent() bool {
	if s.Provision.Bosh != nil {
		if _, ok := s.Provision.Bosh.Outputs[backupAgentURL]; ok {
			return true
		}
	}
	return slices.ContainsFunc(slices.Concat(s.Provision.Outputs, s.Bind.Outputs), func(output Variable) bool { return output.Name == backupAgentURL })
}
