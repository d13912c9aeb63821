package manifestgen

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cloudfoundry/bosh-cli/v7/director/template"
	"github.com/cppforlife/go-patch/patch"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/vars"
	"service-adapter/internal/fault"
	"service-adapter/internal/value"
)

// rendered is the result of interpolating one document.
type rendered struct {
	tree map[string]any
	// declared are the names under `variables:`, which BOSH generates.
	declared []string
	places   places
}

// renderDocument applies ops files to a document and interpolates it with the variables and secrets.
func (w *generation) renderDocument(document brokerpak.Document, files []brokerpak.Document) (*rendered, error) {
	if err := document.CheckYAML().Err(); err != nil {
		return nil, err
	}
	result := &rendered{places: append(places{document}, files...)}
	var ops patch.Ops
	for _, file := range files {
		more, err := readOps(file, file.Text)
		if err != nil {
			return nil, err
		}
		ops = append(ops, more...)
	}
	item, err := w.interpolate(document, ops, result.places)
	if err != nil {
		return nil, err
	}
	return result, result.set(document, item)
}

// set makes a value the document's, which must be a mapping.
func (r *rendered) set(document brokerpak.Document, item any) error {
	tree, ok := item.(map[string]any)
	if !ok {
		return fmt.Errorf("%s: the document must be a mapping, not %s", document.Pos, value.Kind(item))
	}
	r.tree, r.declared = tree, declaredVariables(tree)
	return nil
}

func declaredVariables(tree map[string]any) []string {
	var names []string
	entries, _ := tree["variables"].([]any)
	for _, entry := range entries {
		if variable, ok := entry.(map[string]any); ok {
			names = append(names, value.Text(variable["name"]))
		}
	}
	return names
}

// documentVariables are the variables of a template, as the BOSH library asks for them. It knows no dotted names: the library
// looks below a variable itself.
type documentVariables struct {
	values map[string]any
}

// Get returns the value of ((name)); what is not found stays as it is, for BOSH.
func (v documentVariables) Get(definition template.VariableDefinition) (any, bool, error) {
	item, ok := v.values[definition.Name]
	return item, ok, nil
}

// List returns nothing: it serves only options that are not used.
func (v documentVariables) List() ([]template.VariableDefinition, error) { return nil, nil }

// templateVariables are all variables, null for declared inputs that nobody set, and the secrets.
func (w *generation) templateVariables() (documentVariables, error) {
	values := map[string]any{}
	for _, name := range w.Service.Provision.InputNames() {
		values[name] = nil
	}
	for name, item := range w.scope.Values {
		fromRequest := w.scope.Origins[name].FromRequest
		item = w.asDeployed(name, item)
		if err := checkReserved(name, item, fromRequest); err != nil {
			return documentVariables{}, err
		}
		values[name] = masked(item, fromRequest)
	}
	for _, secret := range w.bosh.Secrets {
		delete(values, secret.Input)
	}
	if err := w.outputVariables(values); err != nil {
		return documentVariables{}, err
	}
	if err := w.referenceVariables(values); err != nil {
		return documentVariables{}, err
	}
	for name, chosen := range w.secrets {
		if chosen.reference != "" {
			values[name] = masked(chosen.reference, false)
			continue
		}
		if err := checkReserved(name, chosen.literal, false); err != nil {
			return documentVariables{}, err
		}
		values[name] = masked(chosen.literal, true)
	}
	return documentVariables{values: values}, nil
}

// asDeployed is a parameter of an earlier request as it was sent or found in the manifest, where its input has another type by now: a
// number in place of a text would be a pending change.
func (w *generation) asDeployed(name string, item any) any {
	sent, kept := w.record.Parameters[name]
	switch item.(type) {
	case map[string]any, []any:
		return item // the template may look into it
	}
	if kept && w.scope.Kept(name) && w.scope.Origins[name].Layer == vars.ParameterLayer {
		return sent
	}
	return item
}

// Parentheses of values are replaced by private characters while the library interpolates, which would otherwise interpolate
// values again. Those of users have characters of their own, so that a reference that only they complete is found.
const (
	trustedOpen, trustedClose = '\uE0F0', '\uE0F1'
	userOpen, userClose       = '\uE0F2', '\uE0F3'
	maskRunes                 = "\uE0F0\uE0F1\uE0F2\uE0F3"
)

// mergeKey is the key with which YAML merges mappings. The library writes it without quotes.
const mergeKey = "<<"

// checkReserved refuses a value that holds one of the private characters, which would become a parenthesis, or the key that
// merges mappings.
func checkReserved(name string, item any, fromRequest bool) error {
	merges := false
	clean := value.Walk(item, func(path string, leaf any) bool {
		text, _ := leaf.(string)
		merges = text == mergeKey && strings.HasSuffix("/"+path, "/"+mergeKey)
		return !merges && !isMasked(text)
	})
	switch {
	case clean:
		return nil
	case merges && fromRequest:
		return fault.Userf("%q must not have the key %q", name, mergeKey)
	case merges:
		return fmt.Errorf("the value of %q has the key %q, which has a meaning of its own in YAML", name, mergeKey)
	case fromRequest:
		return fault.Userf("%q must not hold the characters U+E0F0 to U+E0F3", name)
	default:
		return fmt.Errorf("the value of %q holds one of the characters U+E0F0 to U+E0F3, which the adapter reserves", name)
	}
}

// masked turns a value into what the library can look into, with its parentheses replaced.
func masked(v any, fromRequest bool) any {
	open, end := trustedOpen, trustedClose
	if fromRequest {
		open, end = userOpen, userClose
	}
	return value.AnyKeys(v, func(text string) string {
		if !strings.ContainsAny(text, "()") {
			return text // building a replacer costs more than most values
		}
		return strings.NewReplacer("(", string(open), ")", string(end)).Replace(text)
	})
}

// isMasked tells whether a text holds one of the private characters; all of them begin with the same byte.
func isMasked(text string) bool {
	return strings.IndexByte(text, maskRunes[0]) >= 0 && strings.ContainsAny(text, maskRunes)
}

// unmask puts the parentheses back.
func unmask(v any, open, end rune) any {
	return mapStrings(v, func(text string) string {
		if !isMasked(text) {
			return text
		}
		return strings.NewReplacer(string(open), "(", string(end), ")").Replace(text)
	})
}

// mapStrings returns a copy of a value with every string and key changed.
func mapStrings(v any, change func(text string) string) any {
	switch item := v.(type) {
	case string:
		return change(item)
	case []any:
		out := make([]any, len(item))
		for i, element := range item {
			out[i] = mapStrings(element, change)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(item))
		for key, element := range item {
			out[change(key)] = mapStrings(element, change)
		}
		return out
	default:
		return v
	}
}

// selectOps returns the ops files whose condition holds, in order: those for the template, or those for the completed manifest.
func (w *generation) selectOps(completed bool) ([]brokerpak.Document, error) {
	var all []brokerpak.Document
	for i, entry := range w.bosh.Ops {
		if entry.Completed != completed {
			continue
		}
		applies, err := w.scope.Holds(fmt.Sprintf("ops.%d", i), entry.If)
		if err != nil {
			return nil, fmt.Errorf("evaluating the condition of ops: %w", err)
		}
		if applies {
			all = append(all, entry.Document)
		}
	}
	return all, nil
}

// configs renders the BOSH configs whose condition holds.
func (w *generation) configs() (map[string]string, error) {
	configs := map[string]string{}
	for _, kind := range value.Keys(w.bosh.Configs) {
		config := w.bosh.Configs[kind]
		applies, err := w.scope.Holds("configs."+kind, config.If)
		if err != nil {
			return nil, fmt.Errorf("evaluating the condition of the %s config: %w", kind, err)
		}
		if !applies {
			continue
		}
		result, err := w.renderDocument(config.Document, nil)
		if err != nil {
			return nil, err
		}
		if err := w.checkConfig(kind, result); err != nil {
			return nil, err
		}
		if configs[kind], err = encodeManifest(result.tree); err != nil {
			return nil, err
		}
	}
	if len(configs) == 0 {
		return nil, nil
	}
	if w.NoConfigs && !w.pendingCheck() {
		return nil, &fault.UserError{
			Message: fmt.Sprintf("the service instance needs a BOSH config (%s), and the operator has turned BOSH configs off", strings.Join(value.Keys(configs), ", ")),
			Err:     errors.New("the configuration has disable_bosh_configs, as the broker does"),
		}
	}
	return configs, nil
}
