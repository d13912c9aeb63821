package pakdiff

import (
	"cmp"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"service-adapter/adapter"
	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
	"service-adapter/internal/opentofu"
	"service-adapter/internal/value"
)

// thing is something that a pak declares: a service, a plan, a parameter, ….
type thing struct {
	service, kind, name string
	pos                 diag.Pos
	// facts have the names of the format's keys and of the keywords of constraints.
	facts map[string]any
}

// whole is a list of which the elements are not compared one by one.
type whole []any

// declarations are what a pak declares, by the id of the service, the kind, and the id or the name.
func declarations(pak *brokerpak.Pak) map[string]thing {
	all := map[string]thing{}
	tofu, _ := pak.Manifest.DefaultVersion() // a pak without one has no states
	for _, s := range pak.Services {
		add := func(kind, id, name string, pos diag.Pos, facts map[string]any) {
			all[s.ID+" "+kind+" "+id] = thing{s.ID, kind, name, pos, facts}
		}
		add("service", s.ID, s.Name, s.Pos, map[string]any{"name": s.Name, "plan_updateable": s.PlanUpdateable})
		for _, plan := range s.Plans {
			add("plan", plan.ID, plan.Name, plan.Pos, map[string]any{"name": plan.Name})
		}
		for kind, inputs := range map[string][]brokerpak.Variable{
			"parameter": s.Provision.UserInputs, "property": s.Provision.PlanInputs, "bind-parameter": s.Bind.UserInputs, "bind-property": s.Bind.PlanInputs,
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
		for kind, action := range map[string]brokerpak.Action{"provision-template": s.Provision, "bind-template": s.Bind} {
			if len(action.Templates) > 0 {
				add(kind, "", s.Name, action.Pos, map[string]any{"opentofu": tofu, "content": brokerpak.Digest(action.Templates)[:12]})
			}
		}
	}
	return all
}

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
			add(kind, constraint.Name, constraint.Name, constraint.Pos, map[string]any{"version": constraint.Constraint})
		}
	}
}

func inputFacts(input brokerpak.Variable) map[string]any {
	types, enum := whole(value.Texts(input.Types)), whole{}
	if input.Type != "" {
		types = whole{input.Type}
	}
	for _, item := range input.Enum {
		enum = append(enum, item.Value)
	}
	facts := value.Merge(input.Constraints, map[string]any{
		"type": types, "enum": enum, "required": input.Required && !input.HasDefault, "nullable": input.Nullable, "sticky": input.Sticky,
		"prohibit_update": input.ProhibitUpdate, "default": input.Default, "additional": input.Additional,
	})
	delete(facts, "examples")
	return facts
}

// kindMeans are the verdicts on what is declared no more, and newly.
var kindMeans = map[string]struct{ gone, added diag.Severity }{ //nolint:gochecknoglobals // a constant table
	"service": {breaks, safe}, "plan": {breaks, safe}, "parameter": {breaks, safe}, "bind-parameter": {breaks, safe}, "output": {breaks, safe},
	"provision-template": {breaks, safe}, "bind-template": {breaks, safe}, "property": {safe, safe}, "bind-property": {safe, safe},
	"secret": {needsUpgrade, needsUpgrade}, "release": {safe, needsUpgrade}, "job": {safe, needsUpgrade}, "stemcell": {safe, needsUpgrade},
}

// declarations compares what the paks declare. Of a service that is gone or new, nothing else is told.
func (c *comparison) declarations() {
	was, is := declarations(c.old), declarations(c.new)
	for _, key := range value.Keys(value.Merge(was, is)) {
		before, existed := was[key]
		after, exists := is[key]
		kind, id := cmp.Or(after.kind, before.kind), cmp.Or(after.service, before.service)
		service := id + " service " + id
		switch {
		case kind != "service" && (was[service].kind == "" || is[service].kind == ""):
		case !exists:
			c.add(kindMeans[kind].gone, kind+"-removed", before.pos, "%s %q is gone", kind, before.name)
		case !existed && after.facts["required"] == true:
			c.add(breaks, kind+"-added", after.pos, "%s %q is new and required", kind, after.name)
		case !existed:
			c.add(kindMeans[kind].added, kind+"-added", after.pos, "%s %q is new", kind, after.name)
		default:
			for _, change := range adapter.Diff("", before.facts, after.facts) {
				fact, _, _ := strings.Cut(change.Path[1:], "/")
				c.add(c.factMeans(kind, fact, before, after), kind+"-"+fact, after.pos, "%s %q has %s %s instead of %s", kind, after.name,
					change.Path[1:], shown(change.Generated), shown(change.Deployed))
			}
		}
	}
}

// factMeans is the verdict on a fact that is another one.
func (c *comparison) factMeans(kind, fact string, was, is thing) diag.Severity {
	before, after := was.facts[fact], is.facts[fact]
	verdict := func(holds bool, then diag.Severity) diag.Severity {
		if holds {
			return then
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
		to := value.Text(after)
		return min(needsUpgrade, verdict(!opentofu.Older(value.Text(before), to) || !slices.Contains(c.new.Manifest.UpgradePath, to), breaks))
	case "default":
		return verdict(kind == "parameter" && (was.facts["sticky"] != true || is.facts["sticky"] != true), needsUpgrade)
	case "sticky":
		return verdict(after != true, needsUpgrade)
	case "required", "prohibit_update":
		return verdict(after == true, breaks)
	case "nullable", "plan_updateable", "additional":
		return verdict(after != true, breaks)
	case "type", "enum":
		return verdict(kind == "output" || lacks(fact, before, after), breaks)
	default:
		return verdict(tighter(fact, before, after), breaks)
	}
}

// lacks tells whether a list of types, or of the values of an enum, has not all of an older one. An empty list admits everything.
func lacks(fact string, before, after any) bool {
	older, _ := before.(whole)
	newer, _ := after.(whole)
	return len(newer) > 0 && (len(older) == 0 || slices.ContainsFunc(older, func(item any) bool {
		return !slices.ContainsFunc(newer, func(known any) bool {
			return reflect.DeepEqual(known, item) || fact == "type" && item == "integer" && known == "number"
		})
	}))
}

// tighter tells whether a keyword of JSON Schema may refuse what it took before. Two values can only be compared of a limit.
func tighter(keyword string, before, after any) bool {
	from, errFrom := strconv.ParseFloat(value.Text(before), 64)
	to, errTo := strconv.ParseFloat(value.Text(after), 64)
	lower, upper := strings.Contains(strings.ToLower(keyword), "min"), strings.Contains(strings.ToLower(keyword), "max")
	if errFrom == nil && errTo == nil && (lower || upper) {
		return lower && to > from || upper && to < from
	}
	return after != nil
}

// shown is a value as messages have it.
func shown(item any) string {
	const most = 160
	text := []rune(string(value.MustJSON(item)))
	switch {
	case len(text) > most:
		return string(text[:most]) + "…"
	case slices.Contains([]string{"null", "[]", "{}"}, string(text)):
		return "none"
	}
	return string(text)
}
