package diff

import (
	"cmp"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/operate/manifestdiff"
	"service-adapter/internal/value"
)

// A declaration is one item that the definitions of a pak declare, such as a service, a plan, a parameter or an output.
// It contains the service, kind, name and position of the item, and its facts: the properties that are compared, by
// their keys in the definition. The zero declaration, with an empty kind, stands for an item that a pak lacks.
type declaration struct {
	service string // the id of the service
	kind    string // a key of presenceVerdicts
	name    string
	pos     diag.Pos
	// facts are the properties of the item that are compared. Their keys are those of the definition format, or
	// keywords of the constraints of an input.
	facts map[string]any
}

// An atomicList is a list that manifestdiff.Diff compares and reports as a single value, whereas it compares a []any
// element by element. Its elements are the allowed types or values of an input; an empty list allows all.
type atomicList []any

// declarations returns the declarations of all services of a pak that are compared: each service, its plans, user
// inputs, plan inputs and outputs, the declarations of its bosh section (see addBosh), and the provision and bind
// templates that are not empty. Their kinds are the keys of presenceVerdicts. Other inputs, such as computed ones, are
// not included.
//
// The facts of a service are "name" and "plan_updateable", those of a plan "name", and those of a declared output
// "type". The facts of a template are "opentofu", the pak's default version of OpenTofu, and "content", a digest of its
// files. For those of inputs and of the bosh section, see inputFacts and addBosh.
//
// The keys of the map have the form "SERVICE_ID KIND ID", such as "4711 output host": ID is the id of a service or
// plan, the name of any other item, and empty for provision and bind templates, because a service has one of each. Of
// several outputs with the same name, the result contains one: that of the bind action, or else the declared one of the
// provision action, or else that of the bosh section. Of other declarations with the same key, it contains the last
// one. The map is never nil.
func declarations(pak *brokerpak.Pak) map[string]declaration {
	all := map[string]declaration{}
	// A pak without a version of OpenTofu has no templates, so that the zero version is never used.
	tofuVersion, _ := pak.Manifest.DefaultVersion()
	for _, s := range pak.Services {
		add := func(kind, id, name string, pos diag.Pos, facts map[string]any) {
			all[s.ID+" "+kind+" "+id] = declaration{s.ID, kind, name, pos, facts}
		}
		add("service", s.ID, s.Name, s.Pos, map[string]any{"name": s.Name, "plan_updateable": s.PlanUpdateable})
		for _, plan := range s.Plans {
			add("plan", plan.ID, plan.Name, plan.Pos, map[string]any{"name": plan.Name})
		}
		for kind, inputs := range map[string][]brokerpak.Variable{
			"parameter": s.Provision.UserInputs, "property": s.Provision.PlanInputs,
			"bind-parameter": s.Bind.UserInputs, "bind-property": s.Bind.PlanInputs,
		} {
			for _, input := range inputs {
				add(kind, input.Name, input.Name, input.Pos, inputFacts(input))
			}
		}
		if s.Provision.Bosh != nil {
			addBosh(s.Provision.Bosh, add)
		}
		for _, output := range slices.Concat(s.Provision.Outputs, s.Bind.Outputs) {
			add("output", output.Name, output.Name, output.Pos, map[string]any{"type": output.Type})
		}
		for kind, action := range map[string]brokerpak.Action{
			"provision-template": s.Provision, "bind-template": s.Bind,
		} {
			if len(action.Templates) > 0 {
				digest := brokerpak.Digest(action.Templates)[:12]
				add(kind, "", s.Name, action.Pos, map[string]any{"opentofu": tofuVersion, "content": digest})
			}
		}
	}
	return all
}

// addBosh calls add for each declaration in the bosh section of a service, in no fixed order: each output and secret,
// and each release, job and stemcell in requires. The arguments of add are the kind, such as "output", the name of the
// item as both id and name, its position, and the facts that are compared. An output has no facts. A secret has
// "length", "keepers", which contains the texts of its keepers by their names, and, if it has a value, the text of the
// value as "value". Any other item has its version constraint as "version". bosh must not be nil.
func addBosh(bosh *brokerpak.Bosh, add func(kind, id, name string, pos diag.Pos, facts map[string]any)) {
	for name, output := range bosh.Outputs {
		add("output", name, name, output.Pos, map[string]any{})
	}
	for _, secret := range bosh.Secrets {
		facts, keepers := map[string]any{"length": secret.Length}, map[string]any{}
		if secret.Value != nil {
			facts["value"] = secret.Value.Text()
		}
		for name, template := range secret.Keepers {
			keepers[name] = template.Text()
		}
		facts["keepers"] = keepers
		add("secret", secret.Name, secret.Name, secret.Pos, facts)
	}
	for kind, list := range map[string][]brokerpak.Constraint{
		"release": bosh.Requires.Releases, "job": bosh.Requires.Jobs, "stemcell": bosh.Requires.Stemcells,
	} {
		for _, constraint := range list {
			add(kind, constraint.Name, constraint.Name, constraint.Pos,
				map[string]any{"version": constraint.Constraint})
		}
	}
}

// inputFacts returns the facts of an input, by their keys in the definition: its constraints, its type, enum and
// default, and the flags required, nullable, sticky, prohibit_update and additional. "type" and "enum" are atomicLists,
// which are empty if the input declares none, and "default" is nil without a default. "required" is false if the input
// has a default. The examples are left out, because they do not constrain values. The result is a new map.
func inputFacts(input brokerpak.Variable) map[string]any {
	types, enum := atomicList(value.Texts(input.Types)), atomicList{}
	if input.Type != "" {
		types = atomicList{input.Type}
	}
	for _, item := range input.Enum {
		enum = append(enum, item.Value)
	}
	facts := value.Merge(input.Constraints, map[string]any{
		"type": types, "enum": enum, "required": input.Required && !input.HasDefault, "nullable": input.Nullable,
		"sticky": input.Sticky, "prohibit_update": input.ProhibitUpdate, "default": input.Default,
		"additional": input.Additional,
	})
	delete(facts, "examples")
	return facts
}

// presenceVerdicts contains, for each kind of declaration, the verdicts on one that only the old pak has (removed)
// and on one that only the new pak has (added).
var presenceVerdicts = map[string]struct{ removed, added diag.Severity }{ //nolint:gochecknoglobals // a constant table
	"service": {breaks, safe}, "plan": {breaks, safe}, "output": {breaks, safe},
	"parameter": {breaks, safe}, "bind-parameter": {breaks, safe},
	"property": {safe, safe}, "bind-property": {safe, safe},
	"provision-template": {breaks, safe}, "bind-template": {breaks, safe},
	"secret":  {needsUpgrade, needsUpgrade},
	"release": {safe, needsUpgrade}, "job": {safe, needsUpgrade}, "stemcell": {safe, needsUpgrade},
}

// compareDeclarations compares the declarations of the two paks and adds a finding for each item that only one of them
// has, and for each fact that differs. If a fact is a mapping, such as keepers, or a list other than an atomicList,
// each key or element that differs is a finding. A service that only one of the paks has is reported once, without its
// plans, inputs and other declarations. The verdict on a new input that is required and has no default is breaks; those
// on all other new and removed items are those of presenceVerdicts, and those on facts are those of changeVerdict. The
// position of a finding is that in the new pak, or in the old one for a removed item.
func (c *comparison) compareDeclarations() {
	was, is := declarations(c.old), declarations(c.new)
	for _, key := range value.Keys(value.Merge(was, is)) {
		before, existed := was[key]
		after, exists := is[key]
		kind, id := cmp.Or(after.kind, before.kind), cmp.Or(after.service, before.service)
		service := id + " service " + id
		switch {
		case kind != "service" && (was[service].kind == "" || is[service].kind == ""): // the service itself is reported
		case !exists:
			c.add(presenceVerdicts[kind].removed, kind+"-removed", before.pos, "%s %q was removed", kind, before.name)
		case !existed && after.facts["required"] == true:
			c.add(breaks, kind+"-added", after.pos, "%s %q is new and required", kind, after.name)
		case !existed:
			c.add(presenceVerdicts[kind].added, kind+"-added", after.pos, "%s %q is new", kind, after.name)
		default:
			for _, change := range manifestdiff.Diff("", before.facts, after.facts) {
				fact, _, _ := strings.Cut(change.Path[1:], "/")
				c.add(c.changeVerdict(kind, fact, before, after), kind+"-"+fact, after.pos,
					"%s %q has %s %s instead of %s",
					kind, after.name, change.Path[1:], formatValue(change.Generated), formatValue(change.Deployed))
			}
		}
	}
}

// changeVerdict returns the verdict (breaks, needsUpgrade or safe) on a fact that differs between the declarations was,
// of the old pak, and is, of the new pak. kind is the kind of both declarations, such as "parameter", and fact a key of
// their facts; a fact that only one of them has is nil in the other.
//
// The verdict is breaks if the new declaration can reject a request that the old one accepted (see excludes and
// isTighter for types, enums and constraints), if the type of an output changes, or if the new version of OpenTofu
// cannot upgrade the states of the old one. It is needsUpgrade for a change of a name, of a required version of a
// release, job or stemcell, of the value or the keepers of a secret, of the content of the provision template, and for
// any other change of the version of OpenTofu. The same verdict applies to the default of a parameter, unless the
// parameter is sticky in both paks, and to an input that is no longer sticky. It is safe for any other change.
func (c *comparison) changeVerdict(kind, fact string, was, is declaration) diag.Severity {
	before, after := was.facts[fact], is.facts[fact]
	verdict := func(affects bool, severity diag.Severity) diag.Severity {
		if affects {
			return severity
		}
		return safe
	}
	switch fact {
	case "name", "version", "value", "keepers":
		return needsUpgrade
	case "length":
		return safe
	case "content":
		return verdict(kind == "provision-template", needsUpgrade)
	case "opentofu":
		version := value.Text(after)
		upgradable := opentofu.Older(value.Text(before), version) &&
			slices.Contains(c.new.Manifest.UpgradePath, version)
		return min(needsUpgrade, verdict(!upgradable, breaks))
	case "default":
		sticky := was.facts["sticky"] == true && is.facts["sticky"] == true
		return verdict(kind == "parameter" && !sticky, needsUpgrade)
	case "sticky":
		return verdict(after != true, needsUpgrade)
	case "required", "prohibit_update":
		return verdict(after == true, breaks)
	case "nullable", "plan_updateable", "additional":
		return verdict(after != true, breaks)
	case "type", "enum":
		return verdict(kind == "output" || excludes(fact, before, after), breaks)
	default:
		return verdict(isTighter(fact, before, after), breaks)
	}
}

// excludes reports whether the list after does not admit a value that the list before admitted. Both are of the type
// atomicList; an empty list, and a value of any other type, admits every value. fact is "type" if the lists contain
// JSON Schema types, of which "number" also admits integers, and "enum" if they contain the allowed values themselves.
func excludes(fact string, before, after any) bool {
	older, _ := before.(atomicList)
	newer, _ := after.(atomicList)
	return len(newer) > 0 && (len(older) == 0 || slices.ContainsFunc(older, func(item any) bool {
		return !slices.ContainsFunc(newer, func(admitted any) bool {
			return reflect.DeepEqual(admitted, item) || fact == "type" && item == "integer" && admitted == "number"
		})
	}))
}

// isTighter reports whether the value after of a JSON Schema keyword, such as "maxLength", can reject values that the
// value before accepted. The two values must differ; nil means that the keyword is not set. Numeric limits, whose
// keywords contain "min" or "max", are tighter if the minimum rises or the maximum falls. Any other change counts as
// tighter unless the keyword was removed, because, for example, two patterns cannot be compared. An added keyword is
// tighter as well.
func isTighter(keyword string, before, after any) bool {
	from, errFrom := strconv.ParseFloat(value.Text(before), 64)
	to, errTo := strconv.ParseFloat(value.Text(after), 64)
	lower, upper := strings.Contains(strings.ToLower(keyword), "min"), strings.Contains(strings.ToLower(keyword), "max")
	if errFrom == nil && errTo == nil && (lower || upper) {
		return lower && to > from || upper && to < from
	}
	return after != nil
}

// formatValue returns a value as JSON for a message, cut after 160 characters with an ellipsis. It returns "none" for
// nil, for an empty list or map, and for a value that JSON cannot represent, such as NaN.
func formatValue(item any) string {
	text := string(value.MustJSON(item))
	if slices.Contains([]string{"null", "[]", "{}"}, text) {
		return "none"
	}
	return shorten(text)
}

// shorten returns the text unchanged if it has at most 160 characters, and else its first 160 characters followed by an
// ellipsis.
func shorten(text string) string {
	const maxLength = 160
	if characters := []rune(text); len(characters) > maxLength {
		return string(characters[:maxLength]) + "…"
	}
	return text
}
