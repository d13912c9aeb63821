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

// An inputFinder determines which input causes a difference between a deployed and a generated manifest, although no
// user changed the input: one whose default or plan property changed. It stores the results of its trials, and is not
// safe for concurrent use. session, request, deployed and generated must be set, so the zero value is not usable; the
// session must be open.
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

// reason returns the reason of change, a difference between the deployed and the generated manifest, if another default
// or another plan property of an input causes it. The reason is one of these sentences:
//   - default changed: the definition has another default for the input "size" now
//   - default changed: the operator's configuration has another default for the input "size" now
//   - plan changed: the property "size" has another value now
//
// reason tries, in the order of their names, the inputs whose value is such a default or property and is contained in
// the generated value of change. For each, it generates the manifest with the value that the deployed manifest has
// instead (see deployedValue), and checks whether the difference disappears. The first input that explains the
// difference counts. An input with which the manifest cannot be generated is skipped.
//
// reason returns "" if no input explains the difference, and if the variables of the request cannot be determined. It
// stores the variables in f.scope for later calls.
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

// deployedValue returns the value that an input with the value current probably had when the manifest was deployed. It
// compares the two scalars of change. If the generated one contains current as text, as in "mem=64m", and the deployed
// one has the same text before and after the first occurrence, the text between these is the result, converted to the
// type of current. The result is nil if the texts do not fit, if a value of the change is missing or not a scalar, if
// current is "", nil, a list or a map, or if the text cannot be converted.
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

// isScalar reports whether a value is a scalar other than null, such as a text, a number or a boolean. It returns false
// for nil, lists and maps.
func isScalar(item any) bool { return item != nil && value.Depth(item) == 0 }

// pathsExplained returns the paths of the differences from the deployed manifest that disappear if the input called
// name has the value earlier. The result is nil if no difference disappears or the manifest cannot be generated with
// that value. Each value is tried only once: the result is stored in f.explained, which must not be nil, and the caller
// must not change it.
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

// pathsOf returns the paths of changes, in the same order. It returns nil if there are no changes, and if err is not
// nil; it accepts an error so that the results of manifestdiff.OfManifests can be passed directly.
func pathsOf(changes []manifestdiff.Change, err error) []string {
	if err != nil {
		return nil
	}
	return value.Convert(changes, func(change manifestdiff.Change) string { return change.Path })
}

// generate returns the text of the manifest that is generated for the request with other values of some inputs. others
// contains these values by the names of the inputs; each replaces the defaults of the input, and the plan's property of
// that name if the plan has one. generate writes no log and does not plan changes of resources. It returns an error if
// the request cannot be completed or the manifest cannot be generated.
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
