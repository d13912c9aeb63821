package preview

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"service-adapter/adapter/session"
	"service-adapter/internal/engine/provision"
	"service-adapter/internal/operate/manifestdiff"
	"service-adapter/internal/value"
	"service-adapter/internal/vars"
	"service-adapter/manifestgen"
)

// inputFinder finds the inputs whose values differ from those of the deployed instance, although no user changed them.
type inputFinder struct {
	session *session.Session
	// request returns a new request for a check for pending changes. deployed is the manifest that it contains, and
	// generated the manifest that is generated for it.
	request             func() *manifestgen.Request
	deployed, generated string
	// scope contains the variables of the request. It is nil before the first use.
	scope *vars.Scope
	// explained contains the paths that are equal again if an input has another value, by the input and the value.
	explained map[string][]string
}

// reason returns the reason for a difference from the deployed manifest that is caused by another default or plan
// property of an input, or "" if there is no such input or the manifest cannot be generated. It tries the inputs whose
// current value is contained in the generated text: it generates the manifest with the value that the deployed text has
// there, and checks whether the difference is gone.
func (f *inputFinder) reason(ctx context.Context, change manifestdiff.Change) string {
	if f.scope == nil {
		request := f.request()
		if err := f.session.CompleteManifest(request, 0); err != nil {
			return ""
		}
		scope, err := f.session.Generator(request.Pak).Variables(*request)
		if err != nil {
			return ""
		}
		f.scope, f.explained = scope, map[string][]string{}
	}
	for _, name := range value.Keys(f.scope.Values) {
		var reason string
		switch f.scope.Origins[name].Layer {
		case vars.DefaultLayer:
			reason = fmt.Sprintf("default changed: the definition has another default for the input %q now", name)
		case vars.OperatorLayer:
			reason = fmt.Sprintf(
				"default changed: the operator's configuration has another default for the input %q now", name)
		case vars.PlanLayer:
			reason = fmt.Sprintf("plan changed: the property %q has another value now", name)
		default:
			continue
		}
		earlier := deployedValue(change, f.scope.Values[name])
		if earlier != nil && slices.Contains(f.pathsExplained(ctx, name, earlier), change.Path) {
			return reason
		}
	}
	return ""
}

// deployedValue returns the value that an input must have had if the generated scalar of a change contains its current
// value and the deployed scalar has the same text around it. The result has the type of the current value. It is nil if
// the texts or the types do not fit.
func deployedValue(change manifestdiff.Change, current any) any {
	text := value.Text(current)
	before, after, found := strings.Cut(value.Text(change.Generated), text)
	earlier, hasBefore := strings.CutPrefix(value.Text(change.Deployed), before)
	earlier, hasAfter := strings.CutSuffix(earlier, after)
	if text == "" || !found || !hasBefore || !hasAfter || !isScalar(change.Deployed) || !isScalar(change.Generated) {
		return nil
	}
	switch current.(type) {
	case string:
		return earlier
	case int64:
		if number, err := strconv.ParseInt(earlier, 10, 64); err == nil {
			return number
		}
	case float64:
		if number, err := strconv.ParseFloat(earlier, 64); err == nil {
			return number
		}
	case bool:
		if flag, err := strconv.ParseBool(earlier); err == nil {
			return flag
		}
	}
	return nil
}

// isScalar reports whether a value is neither null nor a list nor a map.
func isScalar(item any) bool { return item != nil && value.Depth(item) == 0 }

// pathsExplained returns the paths of the differences that are gone if the input name has an earlier value. It returns
// none if the manifest cannot be generated with that value. Each value is tried once: the result is stored in
// f.explained.
func (f *inputFinder) pathsExplained(ctx context.Context, name string, earlier any) []string {
	key := name + "=" + string(value.MustJSON(earlier))
	if paths, exists := f.explained[key]; exists {
		return paths
	}
	f.explained[key] = nil
	changed, err := f.generate(ctx, map[string]any{name: earlier})
	if err != nil {
		return nil
	}
	remaining := pathsOf(manifestdiff.OfManifests(f.deployed, changed, changed, false, nil))
	for _, path := range pathsOf(manifestdiff.OfManifests(f.deployed, f.generated, f.generated, false, nil)) {
		if !slices.Contains(remaining, path) {
			f.explained[key] = append(f.explained[key], path)
		}
	}
	return f.explained[key]
}

// pathsOf returns the paths of changes. It returns none after an error.
func pathsOf(changes []manifestdiff.Change, err error) []string {
	if err != nil {
		return nil
	}
	return value.Convert(changes, func(change manifestdiff.Change) string { return change.Path })
}

// generate generates the manifest with other values of inputs, by name, which replace defaults and properties of the
// plan. It writes no log and does not plan changes of resources. It returns an error if the request cannot be completed
// or the manifest cannot be generated.
func (f *inputFinder) generate(ctx context.Context, others map[string]any) (string, error) {
	request := f.request()
	if err := f.session.CompleteManifest(request, 0); err != nil {
		return "", err
	}
	request.Defaults = append(slices.Clone(request.Defaults), others)
	properties := value.CloneMap(request.Plan.Properties)
	for name, item := range others {
		if _, isProperty := properties[name]; isProperty {
			properties[name] = item
		}
	}
	request.Plan.Properties = properties
	quiet := *f.session // the manifest was generated before, with the same warnings
	quiet.Logger = slog.New(slog.DiscardHandler)
	quiet.CheckPending = func(context.Context, provision.Request) error { return nil }
	product, err := quiet.Generator(request.Pak).Generate(ctx, *request)
	if err != nil {
		return "", err
	}
	return product.Manifest, nil
}
