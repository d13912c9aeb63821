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
	// uuid matches a UUID of any version.
	uuid = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
	// serviceName matches the names of service offerings that the Cloud Controller accepts.
	serviceName = regexp.MustCompile(`^[A-Za-z0-9.-]+$`)
)

// A definition decodes a service definition. Unknown keys are warnings in it, because other brokers ignore them. pak is
// the pak whose files the definition refers to; it is nil if only the schema of the keys is needed.
type definition struct {
	*document
	pak *Pak
}

// parseService parses a service definition and reports its errors and warnings, including violations of the rules for
// provision.bosh, to diags. Rules that concern several services are not checked. The name is the path of the file in
// the pak. The result is never nil; it contains the values that could be decoded.
func parseService(pak *Pak, name, text string, diags *diag.List) *Service {
	service := &Service{File: name, Pos: diag.Pos{File: pak.Display(name), Line: 1, Column: 1}}
	doc, root := parseDocument(pak.Display(name), text, diags)
	if root == nil {
		return service
	}
	d := &definition{document: doc, pak: pak}
	mapping := d.mapping(root, "the service definition", false, d.serviceKeys(service))
	if root.Kind != yaml.MappingNode {
		return service
	}
	service.Pos = mapping.posOf("name")
	if mapping.nonEmpty("version") && service.Version != PackVersion {
		d.failf(mapping.posOf("version"), "version", "version of a service definition must be %d", PackVersion)
	}
	d.checkService(mapping, service)
	checkBosh(service, diags)
	return service
}

// checkService reports, as errors, names, ids and URLs of a service that have an invalid form. mapping contains the
// nodes of the definition. The image URL may also be file://PATH. Missing ones are reported elsewhere.
func (d *definition) checkService(mapping mappingNode, service *Service) {
	if mapping.nonEmpty("name") && !serviceName.MatchString(service.Name) {
		d.failf(mapping.posOf("name"), "name", "name %q may only contain letters, digits, periods and hyphens",
			service.Name)
	}
	if mapping.nonEmpty("id") && !uuid.MatchString(service.ID) {
		d.failf(mapping.posOf("id"), "id", "id %q must be a UUID", service.ID)
	}
	for _, link := range []struct{ field, text string }{
		{"image_url", service.ImageURL},
		{"documentation_url", service.DocumentationURL},
		{"support_url", service.SupportURL},
	} {
		if !mapping.nonEmpty(link.field) || link.field == "image_url" && strings.HasPrefix(link.text, "file://") {
			continue // an image may be a path; `pak build` replaces it with a data URL
		}
		if parsed, err := url.ParseRequestURI(link.text); err != nil || parsed.Scheme == "" {
			d.failf(mapping.posOf(link.field), "url", "%s must be a URL with a scheme such as https", link.field)
		}
	}
}

// serviceKeys returns the keys of a service definition, which are decoded into service.
func (d *definition) serviceKeys(service *Service) fields {
	return d.keys("", service, map[string]field{
		"version": d.integer("version", &service.Version).withSchema(schema{"const": PackVersion}),
		"name": d.text("name", &service.Name).
			withDoc("The name of the service in the marketplace: letters, digits, periods and hyphens. Unique."),
		"id": d.text("id", &service.ID).withSchema(uuidSchema()),
		"image_url": d.text("image_url", &service.ImageURL).
			withDoc("The URL of an image, a data URL, or file://PATH, which is replaced by a data URL when the " +
				"pak is built."),
		"plans":     d.plans(&service.Plans),
		"examples":  entries(d.document, "examples", false, &service.Examples, nil, nil),
		"provision": d.action("provision", &service.Provision),
		"bind":      d.action("bind", &service.Bind),
		"requires_commands": d.commands("requires_commands", &service.RequiredCommands).
			withDoc("The programs that the commands of the templates run, such as curl. `prepare` and `pak test` " +
				"look them up on the PATH of OpenTofu and name those that are missing."),
	})
}

// commandName matches the name of a program, without a directory.
var commandName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.+-]*$`)

// commands returns the field of a list of names of programs, which are appended to target with their positions. An
// entry that is not the name of a program without a directory is reported as an error and left out. The label names the
// list in errors. Null is an empty list; any other value that is not a list is reported as an error.
func (d *document) commands(label string, target *[]Command) field {
	shape := listOf(func() schema { return schema{"type": "string", "pattern": commandName.String()} })
	return field{words: "list of names", newSchema: shape, decode: func(node *yaml.Node) {
		d.sequence(node, label, func(element *yaml.Node) {
			command := Command{Pos: d.pos(element)}
			d.text("an entry of "+label, &command.Name).decode(element)
			if !commandName.MatchString(command.Name) {
				d.errorf(element, "name",
					"an entry of %s must be the name of a program without a directory, such as curl; its directory "+
						"belongs in PATH", label)
				return
			}
			*target = append(*target, command)
		})
	}}
}

// uuidSchema returns the schema of a UUID.
func uuidSchema() schema { return schema{"type": "string", "pattern": uuid.String()} }

// plans returns the field of the key plans, a list that is appended to target in the order of the file. An id that is
// not a UUID, and a name that an earlier plan of the list has, are reported as errors; the plans are stored all the
// same.
func (d *definition) plans(target *[]Plan) field {
	names := map[string]bool{}
	return entries(d.document, "plans", false, target, d.planKeys, func(mapping mappingNode, plan *Plan) bool {
		if mapping.nonEmpty("id") && !uuid.MatchString(plan.ID) {
			d.failf(mapping.posOf("id"), "id", "id %q of plan %q must be a UUID", plan.ID, plan.Name)
		}
		if names[plan.Name] && plan.Name != "" {
			d.failf(mapping.posOf("name"), "duplicate", "plan name %q is used twice in this service", plan.Name)
		}
		names[plan.Name] = true
		return true
	})
}

// planKeys returns the keys of a plan, which are decoded into plan.
func (d *definition) planKeys(plan *Plan) fields {
	return d.keys("", plan, map[string]field{
		"name": d.text("name", &plan.Name).
			withDoc("The name of the plan in the marketplace: letters, digits, periods and hyphens. " +
				"Unique within the service."),
		"id": d.text("id", &plan.ID).withSchema(uuidSchema()),
		"provision_overrides": d.object("provision_overrides", &plan.ProvisionOverrides).
			withDoc("Values that replace those of users whenever an instance is created, updated or upgraded."),
		"bind_overrides": d.object("bind_overrides", &plan.BindOverrides).
			withDoc("Values that replace those of users when a binding is created."),
	})
}

// readRef returns the content of a file of the pak that is referenced by a definition, with its position. The parameter
// name is the path of the file in the pak. If the file cannot be read, readRef reports an error at the node and returns
// a zero Document and false. The parameter label is the key for the error.
func (d *definition) readRef(node *yaml.Node, label, name string) (Document, bool) {
	text, err := d.pak.readText(name)
	if err != nil {
		d.errorf(node, "missing-file", "%s %q cannot be read: %s", label, name, withoutPath(err))
		return Document{}, false
	}
	return Document{Text: text, Pos: diag.Pos{File: d.pak.Display(name), Line: 1, Column: 1}}, true
}

// Plan returns the first plan with the given id or name, in the order of the definition. It returns nil if there is
// none or if the argument is "". The result points into Plans.
func (s *Service) Plan(idOrName string) *Plan {
	return firstMatch(s.Plans, func(p *Plan) bool { return idOrName != "" && (p.ID == idOrName || p.Name == idOrName) })
}

// PlanNames returns the names of the plans, in the order of the definition.
func (s *Service) PlanNames() []string {
	return value.Convert(s.Plans, func(p Plan) string { return p.Name })
}

// EnvName returns the service's name as it is used in environment variables such as GSB_SERVICE_<NAME>_PLANS: in
// upper case, with underscores instead of periods and hyphens.
func (s *Service) EnvName() string {
	return strings.NewReplacer(".", "_", "-", "_").Replace(strings.ToUpper(s.Name))
}

// HasInstances reports whether the service can create instances, because it has a BOSH manifest or a provision
// template.
func (s *Service) HasInstances() bool {
	return s.Provision.Bosh != nil || len(s.Provision.Templates) > 0
}

// Binds reports whether the service has a bind section. A service without one does not support bindings.
func (s *Service) Binds() bool { return s.Bind.Pos != (diag.Pos{}) }

// backupAgentURL is the name of the output that is returned as backup_agent_url of a binding.
const backupAgentURL = "backup_agent_url"

// HasBackupAgent reports whether the service declares the output backup_agent_url in the outputs of provision,
// provision.bosh or bind.
func (s *Service) HasBackupAgent() bool {
	if s.Provision.Bosh != nil {
		if _, ok := s.Provision.Bosh.Outputs[backupAgentURL]; ok {
			return true
		}
	}
	return slices.Contains(Names(slices.Concat(s.Provision.Outputs, s.Bind.Outputs)), backupAgentURL)
}

// ImageType returns the media type of a PNG, JPEG or SVG image, and "" for any other content. PNG and JPEG are
// detected by their content, SVG by the extension of the file name and the content.
func ImageType(name string, data []byte) string {
	switch kind := http.DetectContentType(data); {
	case kind == "image/png", kind == "image/jpeg":
		return kind
	case strings.HasSuffix(strings.ToLower(name), ".svg") && strings.HasPrefix(kind, "text/") &&
		strings.Contains(string(data), "<svg"):
		return "image/svg+xml"
	default:
		return ""
	}
}
