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

// A declaration is one item that a pak's definitions declare, such as a service, a plan, a parameter or an output.
type declaration struct {
	service string // the id of the service
	kind    string // a key of presenceVerdicts
	name    string
	pos     diag.Pos
	// facts are the properties of the item that are compared. Their keys are those of the definition format, or
	// keywords of the constraints of an input.
	facts map[string]any
}

// An atomicList is a list that manifestdiff.Diff compares as a single value. It reports a []any element by element.
type atomicList []any

// declarations returns all declarations of a pak. Each key consists of the service's id, the kind, and the id of a
// service or plan or the name of any other item, separated by blanks. Provision and bind templates have no name,
// because a service has one of each. Of several declarations with the same key, such as outputs of an instance and of a
// binding with the same name, the result contains the last one.
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

// addBosh calls add for each output and secret of a bosh block, and for each release, job and stemcell that it
// requires. id and name are both the name of the item, and facts are as in a declaration.
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

// inputFacts returns the facts of an input: its constraints, its default, and the keys that decide which values it
// accepts, whether an update may change them, and whether they are kept. Its examples are left out, because they do not
// constrain values.
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

// compareDeclarations compares the declarations of the two paks and adds a finding for each difference. A service that
// only one of the paks has is reported once, without its plans, inputs and other declarations.
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
			c.add(presenceVerdicts[kind].removed, kind+"-removed", before.pos, "%s %q is gone", kind, before.name)
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

// changeVerdict returns the verdict on a fact that differs between the old and the new declaration of an item, was and
// is. kind is that of the declarations, and fact a key of their facts; a fact that only one of them has is nil in the
// other. The change breaks if the new declaration can reject a value that the old one accepted, makes a value
// unchangeable, or changes the type of an output, or if the new version of OpenTofu cannot upgrade the states of the
// old one. It needs an upgrade if it affects manifests, the resources of instances or values that are kept. Any other
// change is safe.
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

// excludes reports whether the list after excludes a value that the list before admitted. fact is "type" for lists of
// JSON Schema types, where "number" admits integers, or "enum" for lists of values. An empty list admits every value.
func excludes(fact string, before, after any) bool {
	older, _ := before.(atomicList)
	newer, _ := after.(atomicList)
	return len(newer) > 0 && (len(older) == 0 || slices.ContainsFunc(older, func(item any) bool {
		return !slices.ContainsFunc(newer, func(admitted any) bool {
			return reflect.DeepEqual(admitted, item) || fact == "type" && item == "integer" && admitted == "number"
		})
	}))
}

// isTighter reports whether the new value of a JSON Schema keyword can reject values that the old one accepted. nil
// means that the keyword is not set. Limits, such as minLength or maximum, are compared as numbers. Any other change
// counts as tighter unless the keyword was removed, because two patterns or formats cannot be compared. A keyword that
// was added is tighter as well.
func isTighter(keyword string, before, after any) bool {
	from, errFrom := strconv.ParseFloat(value.Text(before), 64)
	to, errTo := strconv.ParseFloat(value.Text(after), 64)
	lower, upper := strings.Contains(strings.ToLower(keyword), "min"), strings.Contains(strings.ToLower(keyword), "max")
	if errFrom == nil && errTo == nil && (lower || upper) {
		return lower && to > from || upper && to < from
	}
	return after != nil
}

// formatValue returns a value as JSON for a message, cut as by shorten. null and empty collections are "none".
func formatValue(item any) string {
	text := string(value.MustJSON(item))
	if slices.Contains([]string{"null", "[]", "{}"}, text) {
		return "none"
	}
	return shorten(text)
}

// shorten returns a text, cut after 160 characters. An ellipsis marks the cut.
func shorten(text string) string {
	const maxLength = 160
	if characters := []rune(text); len(characters) > maxLength {
		return string(characters[:maxLength]) + "…"
	}
	return text
}
