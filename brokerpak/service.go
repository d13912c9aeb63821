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

// A definition decodes the YAML file of one service definition. Unknown keys in it are warnings, not errors, because
// other brokers ignore them, except in sections and lists that only this adapter defines, such as provision.bosh. It
// contains the decoder of the file and the pak whose files the definition refers to. The pak is nil if only the JSON
// Schema or the documentation of the keys is needed; no file can be decoded then.
type definition struct {
	*document
	pak *Pak
}

// parseService parses and checks the text of a service definition and adds all errors and warnings to diags; it
// returns what it could decode even then. name is the path of the definition in the pak. The files to which the
// definition refers, such as OpenTofu files, are read from the pak, with paths relative to its root. Errors are
// invalid YAML, values of the wrong type or form, missing required keys, a version other than 1, files that cannot be
// read, faults of a bind with a command (see generateTemplate), and violations of the rules of checkService and
// checkBosh; unknown keys are warnings, except in provision.bosh and in the lists errors and requires, where they are
// errors.
//
// Rules that concern several services are not checked. The result is never nil. If the text is empty, not valid YAML,
// too large (see parseDocument) or not a mapping, it has only File and Pos. The Manifest of pak must be set, because
// the command of a bind must be one of its binaries.
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

// checkService adds errors to the diagnostics of d for values of a decoded service that have an invalid form: a name
// with other characters than ASCII letters, digits, periods and hyphens, an id that is not a UUID, and an image_url,
// documentation_url or support_url that is not a URL with a scheme. Any scheme is valid, also file, and an image_url
// that begins with file:// is not checked further, because it contains a path. mapping contains the nodes of the
// definition, for the positions. Missing and empty values are ignored, because decoding has already reported them.
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

// serviceKeys returns descriptions of the top-level keys of a service definition. Decoding a key stores its value in
// service and adds errors and warnings to the diagnostics of d; decoding the sections provision and bind also reads
// files of the pak.
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
				"search the PATH of OpenTofu and report the programs that are missing."),
	})
}

// commandName matches the name of a program, without a directory.
var commandName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.+-]*$`)

// commands returns the field of a key whose value is a list of names of programs, such as curl; decoding appends them
// to target with their positions. A name consists of ASCII letters, digits and the characters _ . + -, and does not
// begin with one of the last three. An entry that is not such a name, for example /bin/curl, null or a list, is
// reported as an error in the diagnostics of d and is not stored. The label is the name of the key in error messages.
// Null is an empty list; any other value that is not a list is reported as an error.
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

// uuidSchema returns a new JSON Schema that allows a string with the form of a UUID of any version, in lower or upper
// case.
func uuidSchema() schema { return schema{"type": "string", "pattern": uuid.String()} }

// plans returns the field of the key plans, a list of the plans of a service; decoding appends them to target in the
// order of the file. Decoding adds errors to the diagnostics of d for a name, id, description or display_name that is
// missing or empty, an id that is not a UUID, a name that an earlier plan of the list has, values of the wrong type,
// and an entry that is not a mapping. Such a plan is stored all the same. An unknown key is only a warning. Null is an
// empty list; any other value that is not a list is reported as an error.
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

// planKeys returns descriptions of the keys of one plan in a service definition. Decoding a key stores its value in
// plan, and adds an error to the diagnostics of d if the value has the wrong type.
func (d *definition) planKeys(plan *Plan) fields {
	return d.keys("", plan, map[string]field{
		"name": d.text("name", &plan.Name).
			withDoc("The name of the plan in the marketplace: letters, digits, periods and hyphens. " +
				"Unique within the service."),
		"id": d.text("id", &plan.ID).withSchema(uuidSchema()),
		"provision_overrides": d.object("provision_overrides", &plan.ProvisionOverrides).
			withDoc("Values that replace the parameters of users whenever an instance is created, updated or " +
				"upgraded."),
		"bind_overrides": d.object("bind_overrides", &plan.BindOverrides).
			withDoc("Values that replace the parameters of users when a binding is created."),
	})
}

// readRef reads a file of the pak to which the definition refers, and returns its content with the position of its
// start and true. name is the path of the file relative to the pak's root. If the path is absolute or leads outside
// of the pak by "..", or if the file is missing, is not a regular file, is larger than 4 MB or cannot be read,
// readRef adds an error at the node to the diagnostics of d and returns a zero Document and false. label is the name
// of the key in that error, such as "template_ref".
func (d *definition) readRef(node *yaml.Node, label, name string) (Document, bool) {
	text, err := d.pak.readText(name)
	if err != nil {
		d.errorf(node, "missing-file", "%s %q cannot be read: %s", label, name, withoutPath(err))
		return Document{}, false
	}
	return Document{Text: text, Pos: diag.Pos{File: d.pak.Display(name), Line: 1, Column: 1}}, true
}

// Plan returns the first plan, in the order of the definition, whose id or name equals the argument. The comparison is
// exact. Plan returns nil if there is none or if the argument is "". The result is a pointer to the element of Plans.
// Plans that the operator adds in the configuration are not contained.
func (s *Service) Plan(idOrName string) *Plan {
	return firstMatch(s.Plans, func(p *Plan) bool { return idOrName != "" && (p.ID == idOrName || p.Name == idOrName) })
}

// PlanNames returns the names of the plans in the definition, in its order. It returns nil if there are none. The name
// of a plan without a name, which decoding reports, is "".
func (s *Service) PlanNames() []string {
	return value.Convert(s.Plans, func(p Plan) string { return p.Name })
}

// EnvName returns the service's name in the form in which it is a part of names of environment variables, such as
// GSB_SERVICE_<NAME>_PLANS: in upper case, with underscores instead of periods and hyphens. The result for
// "csb-redis.v2" is "CSB_REDIS_V2".
func (s *Service) EnvName() string {
	return strings.NewReplacer(".", "_", "-", "_").Replace(strings.ToUpper(s.Name))
}

// HasInstances reports whether the service can create instances: it has the section provision.bosh, or the section
// provision contains at least one OpenTofu file.
func (s *Service) HasInstances() bool {
	return s.Provision.Bosh != nil || len(s.Provision.Templates) > 0
}

// Binds reports whether the service has a bind section, even an empty one. A service without one, or with the value
// null, does not support bindings.
func (s *Service) Binds() bool { return s.Bind.Pos != (diag.Pos{}) }

// backupAgentURL is the name of the output that is returned as backup_agent_url of a binding.
const backupAgentURL = "backup_agent_url"

// HasBackupAgent reports whether the service declares an output with the name backup_agent_url in provision.outputs,
// provision.bosh.outputs or bind.outputs. The broker returns this output as the backup_agent_url of a binding.
func (s *Service) HasBackupAgent() bool {
	if s.Provision.Bosh != nil {
		if _, ok := s.Provision.Bosh.Outputs[backupAgentURL]; ok {
			return true
		}
	}
	return slices.Contains(Names(slices.Concat(s.Provision.Outputs, s.Bind.Outputs)), backupAgentURL)
}

// ImageType returns the media type of an image: "image/png", "image/jpeg" or "image/svg+xml". data is the content of
// the file. PNG and JPEG are detected by the content alone, and SVG by the extension .svg of the file name, in lower or
// upper case, together with the content, which must begin like text or XML and contain "<svg". The result is "" for any
// other content. ImageType does not read a file.
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
