package manifestgen

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/cloudfoundry/bosh-cli/v7/director/template"
	"github.com/cppforlife/go-patch/patch"
	"gopkg.in/yaml.v2"

	"service-adapter/brokerpak"
	"service-adapter/internal/fault"
	"service-adapter/internal/value"
)

// anyReference finds what the Director takes for a reference.
var anyReference = regexp.MustCompile(`(?s)\(\(.*?\)\)`)

// rendered is the result of interpolating one document.
type rendered struct {
	tree map[string]any
	// declared are the names under `variables:`, which BOSH generates.
	declared []string
}

// renderDocument applies ops to a document and interpolates it with the variables and secrets.
func (w *generation) renderDocument(document brokerpak.Document, ops patch.Ops) (*rendered, error) {
	if err := checkYAML(document); err != nil {
		return nil, err
	}
	variables := w.templateVariables()
	if err := w.checkNames(document, variables); err != nil {
		return nil, err
	}
	out, err := template.NewTemplate([]byte(document.Text)).Evaluate(variables, ops, template.EvaluateOpts{})
	if err != nil {
		return nil, fmt.Errorf("interpolating %s: %w", document.Pos.File, err)
	}
	var raw any
	if err := yaml.Unmarshal(out, &raw); err != nil {
		return nil, fmt.Errorf("reading %s after interpolation: %w", document.Pos.File, err)
	}
	masked := value.Normalise(raw)
	trusted := unmask(masked, trustedOpen, trustedClose)
	final := unmask(trusted, userOpen, userClose)
	if !slices.Equal(references(trusted), references(final)) {
		return nil, &fault.UserError{
			Message: "a parameter must not hold parentheses that form a reference to a credential",
			Err:     fmt.Errorf("%s: a value from the request became a BOSH reference", document.Pos.File),
		}
	}
	tree, ok := final.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s must be a mapping, not %s", document.Pos, value.Kind(final))
	}
	return &rendered{tree: tree, declared: declaredVariables(tree)}, nil
}

// references returns all references in a value, in order, with repetitions.
func references(tree any) []string {
	var found []string
	value.Walk(tree, func(_ string, leaf any) bool {
		if text, ok := leaf.(string); ok && strings.Contains(text, "((") {
			found = append(found, anyReference.FindAllString(text, -1)...)
		}
		return true
	})
	return found
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

// checkNames refuses a declared variable with the name of an input or secret: interpolation would drop its declaration.
func (w *generation) checkNames(document brokerpak.Document, variables documentVariables) error {
	var declaration struct {
		Variables []struct {
			Name string `yaml:"name"`
		} `yaml:"variables"`
	}
	if err := yaml.Unmarshal([]byte(document.Text), &declaration); err != nil {
		return fmt.Errorf("reading %s: %w", document.Pos.File, err)
	}
	var failed []error
	for _, variable := range declaration.Variables {
		if _, ok := variables.values[variable.Name]; ok {
			failed = append(failed, fmt.Errorf("%s: variable %q under `variables:` has the name of an input or secret; rename one",
				document.Pos.File, variable.Name))
		}
	}
	return errors.Join(failed...)
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
func (w *generation) templateVariables() documentVariables {
	values := map[string]any{}
	for _, name := range w.Service.Provision.InputNames() {
		values[name] = nil
	}
	for name, item := range w.scope.Values {
		open, end := trustedOpen, trustedClose
		if w.scope.Origins[name].FromRequest {
			open, end = userOpen, userClose
		}
		values[name] = masked(item, open, end)
	}
	for _, secret := range w.bosh.Secrets {
		delete(values, secret.Input)
	}
	for name, item := range w.secrets.variables {
		values[name] = masked(item, trustedOpen, trustedClose)
	}
	return documentVariables{values: values}
}

// Parentheses of values are replaced by private characters while the library interpolates, which would otherwise interpolate
// values again. Those of users have characters of their own, so that a reference that only they complete is found.
const (
	trustedOpen, trustedClose = '\uE0F0', '\uE0F1'
	userOpen, userClose       = '\uE0F2', '\uE0F3'
)

// masked turns a value into what the library can look into, with its parentheses replaced.
func masked(v any, open, end rune) any {
	switch item := v.(type) {
	case string:
		return strings.NewReplacer("(", string(open), ")", string(end)).Replace(item)
	case []any:
		out := make([]any, len(item))
		for i, element := range item {
			out[i] = masked(element, open, end)
		}
		return out
	case map[string]any:
		out := make(map[any]any, len(item))
		for key, element := range item {
			out[masked(key, open, end)] = masked(element, open, end)
		}
		return out
	default:
		return v
	}
}

// unmask puts the parentheses back.
func unmask(v any, open, end rune) any {
	replacer := strings.NewReplacer(string(open), "(", string(end), ")")
	return mapStrings(v, replacer.Replace)
}

// mapStrings returns a copy of a value with every string and key changed.
func mapStrings(v any, change func(string) string) any {
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

// selectOps parses the ops files whose condition holds, in order.
func (w *generation) selectOps() (patch.Ops, error) {
	var all patch.Ops
	for i, entry := range w.bosh.Ops {
		applies, err := w.scope.Holds(fmt.Sprintf("ops.%d", i), entry.If)
		if err != nil {
			return nil, fmt.Errorf("evaluating the condition of ops: %w", err)
		}
		if !applies {
			continue
		}
		if err := checkYAML(entry.Document); err != nil {
			return nil, err
		}
		var definitions []patch.OpDefinition
		if err := yaml.Unmarshal([]byte(entry.Document.Text), &definitions); err != nil {
			return nil, fmt.Errorf("%s: an ops file must be a list of operations: %w", entry.Document.Pos, err)
		}
		ops, err := patch.NewOpsFromDefinitions(definitions)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", entry.Document.Pos, err)
		}
		all = append(all, patch.DescriptiveOp{Op: ops, ErrorMsg: "applying " + entry.Document.Pos.File})
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
		if err := w.checkReferences(result); err != nil {
			return nil, fmt.Errorf("%s: %w", config.Document.Pos.File, err)
		}
		if configs[kind], err = encodeManifest(result.tree); err != nil {
			return nil, err
		}
	}
	if len(configs) == 0 {
		return nil, nil
	}
	return configs, nil
}
