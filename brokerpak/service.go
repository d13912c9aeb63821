package brokerpak

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/internal/diag"
	"service-adapter/internal/value"
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
	at := d.mapping(root, "the service definition", false, d.serviceKeys(service))
	if root.Kind != yaml.MappingNode {
		return service
	}
	service.Pos = at.at("name")
	if at.filled("version") && service.Version != PackVersion {
		d.failf(at.at("version"), "version", "version of a service definition must be %d", PackVersion)
	}
	d.checkService(at, service)
	checkBosh(service, diags)
	return service
}

func (d *definition) checkService(at places, service *Service) {
	if at.filled("name") && !serviceName.MatchString(service.Name) {
		d.failf(at.at("name"), "name", "name %q may only hold letters, digits, periods and hyphens", service.Name)
	}
	if at.filled("id") && !uuid.MatchString(service.ID) {
		d.failf(at.at("id"), "id", "id %q must be a UUID", service.ID)
	}
	for _, link := range []struct{ field, text string }{
		{"image_url", service.ImageURL}, {"documentation_url", service.DocumentationURL}, {"support_url", service.SupportURL},
	} {
		if !at.filled(link.field) || link.field == "image_url" && strings.HasPrefix(link.text, "file://") {
			continue // of an image a path, which becomes the image itself when the pak is built
		}
		if parsed, err := url.ParseRequestURI(link.text); err != nil || parsed.Scheme == "" {
			d.failf(at.at(link.field), "url", "%s must be a URL with a scheme such as https", link.field)
		}
	}
}

// serviceKeys are the keys of a service definition.
func (d *definition) serviceKeys(service *Service) fields {
	return d.keys("", service, map[string]field{
		"version": d.integer("version", &service.Version).shaped(schema{"const": PackVersion}),
		"id":      d.text("id", &service.ID).shaped(uuidSchema()),
		"image_url": d.text("image_url", &service.ImageURL).
			meaning("The URL of an image, a data URL, or file://PATH, which becomes the image itself when the pak is built."),
		"plans":     d.plans(&service.Plans),
		"examples":  entries(d.document, "examples", false, &service.Examples, nil, nil),
		"provision": d.action("provision", &service.Provision),
		"bind":      d.action("bind", &service.Bind),
	})
}

func uuidSchema() schema { return schema{"type": "string", "pattern": uuid.String()} }

func (d *definition) plans(target *[]Plan) field {
	names := map[string]bool{}
	return entries(d.document, "plans", false, target, d.planKeys, func(at places, plan *Plan) bool {
		if at.filled("id") && !uuid.MatchString(plan.ID) {
			d.failf(at.at("id"), "id", "id %q of plan %q must be a UUID", plan.ID, plan.Name)
		}
		if names[plan.Name] && plan.Name != "" {
			d.failf(at.at("name"), "duplicate", "plan name %q is used twice in this service", plan.Name)
		}
		names[plan.Name] = true
		return true
	})
}

func (d *definition) planKeys(plan *Plan) fields {
	return d.keys("", plan, map[string]field{
		"name": d.text("name", &plan.Name).
			meaning("The name of the plan in the marketplace: letters, digits, periods and hyphens. Unique within the service."),
		"id": d.text("id", &plan.ID).shaped(uuidSchema()),
	})
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
	return find(s.Plans, func(p *Plan) bool { return idOrName != "" && (p.ID == idOrName || p.Name == idOrName) })
}

// PlanNames returns the names of the plans in their order.
func (s *Service) PlanNames() []string {
	return value.Each(s.Plans, func(p Plan) string { return p.Name })
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

// ImageType is the media type of a file's content where it is an image that browsers show: PNG, JPEG or SVG; else "".
func ImageType(name string, data []byte) string {
	switch kind := http.DetectContentType(data); {
	case kind == "image/png", kind == "image/jpeg":
		return kind
	case strings.HasSuffix(strings.ToLower(name), ".svg") && strings.HasPrefix(kind, "text/") && strings.Contains(string(data), "<svg"):
		return "image/svg+xml"
	default:
		return ""
	}
}
