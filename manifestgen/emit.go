package manifestgen

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"gopkg.in/yaml.v3"

	"service-adapter/internal/record"
	"service-adapter/internal/value"
	"service-adapter/internal/yamltree"
)

// order lists the keys of a manifest that are written first, in this order. Other keys follow in alphabetical order,
// and the record comes last.
var order = []string{ //nolint:gochecknoglobals // a constant table
	"name", "alias", "os", "releases", "stemcells", "update", "instance_groups", "addons",
	"variables", "features", "tags",
	"release", "lifecycle", "instances", "azs", "jobs",
}

// encodeManifest returns the tree as YAML that YAML 1.1 and 1.2 parsers read alike: ambiguous strings are quoted,
// numbers are plain decimals, and there are no anchors. Keys are in the order of orderedKeys, so equal trees give equal
// texts. It returns an error if the YAML library cannot write the tree.
func encodeManifest(tree map[string]any) (string, error) {
	text, err := yamltree.Encode(node(tree))
	if err != nil {
		return "", fmt.Errorf("writing YAML: %w", err)
	}
	return string(text), nil
}

// node returns the YAML node of a value of the types that package value defines; mappings have the keys in the order of
// orderedKeys. Empty mappings and lists are written as {} and [].
func node(v any) *yaml.Node {
	result := &yaml.Node{Kind: yaml.ScalarNode}
	switch item := v.(type) {
	case map[string]any:
		result.Kind, result.Tag = yaml.MappingNode, "!!map"
		for _, key := range orderedKeys(item) {
			result.Content = append(result.Content, node(key), node(item[key]))
		}
	case []any:
		result.Kind, result.Tag = yaml.SequenceNode, "!!seq"
		result.Content = value.Convert(item, node)
	case string:
		result.Tag, result.Value, result.Style = "!!str", item, stringStyle(item)
	case nil:
		result.Tag, result.Value = "!!null", "null"
	case bool:
		result.Tag, result.Value = "!!bool", strconv.FormatBool(item)
	case float64:
		result.Tag, result.Value = "!!float", decimal(item)
	default:
		result.Tag, result.Value = "!!int", value.Text(v)
	}
	if result.Kind != yaml.ScalarNode && len(result.Content) == 0 {
		result.Style = yaml.FlowStyle
	}
	return result
}

// decimal returns the text of a finite float with a decimal point and without an exponent, so that the Director's YAML
// parser reads it as a float.
func decimal(f float64) string {
	if f == math.Trunc(f) {
		return strconv.FormatFloat(f, 'f', 1, 64)
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

// plainBlock matches texts of several lines that a YAML parser reads back unchanged from a literal block: without
// whitespace at either end, and without characters that a parser or the encoder treats as other whitespace or line
// breaks. The expression is compiled only when it is needed, because its character classes are large.
var plainBlock = sync.OnceValue(func() *regexp.Regexp { //nolint:gochecknoglobals // a compiled expression
	return regexp.MustCompile(`^[^\p{Z}\p{C}]((\n|[^\p{Zl}\p{Zp}\p{C}])*[^\p{Z}\p{C}])?\n?$`)
})

// beginsPlain reports whether a string begins with a character after which every YAML parser reads an unquoted scalar
// as a string, unless it is one of the words. Ruby's parser also accepts numbers such as "1,000" and "1:30", dates, and
// symbols (":name"); all of them begin with other characters.
func beginsPlain(s string) bool {
	return s != "" && (s[0]|0x20 >= 'a' && s[0]|0x20 <= 'z' || s[0] == '_' || s[0] == '/' || s[0] == '(')
}

// isWord reports whether some YAML parser reads the string as a boolean or null.
func isWord(s string) bool {
	const longest = len("false")
	return len(s) <= longest && slices.ContainsFunc(words, func(word string) bool { return strings.EqualFold(word, s) })
}

// words are the strings that some YAML parser reads as a boolean or null, in any case.
var words = []string{ //nolint:gochecknoglobals // a constant table
	"y", "n", "yes", "no", "on", "off", "true", "false", "null",
}

// stringStyle returns a style in which no YAML parser reads the string as another type. A text of several lines is a
// literal block if plainBlock matches it, and any other text that a parser could misread, such as "", a number or
// "yes", is in double quotes. The style 0 is an unquoted scalar.
func stringStyle(s string) yaml.Style {
	lines := strings.Contains(s, "\n")
	switch {
	case lines && plainBlock().MatchString(s):
		return yaml.LiteralStyle
	case lines || !beginsPlain(s) || isWord(s):
		return yaml.DoubleQuotedStyle
	default:
		return 0
	}
}

// orderedKeys returns the keys of a mapping in the order in which they are written: those of the list order first, in
// its order, then all others in alphabetical order, and the key of the record last.
func orderedKeys(m map[string]any) []string {
	rank := func(key string) int {
		if key == record.Key {
			return len(order) + 1
		}
		if at := slices.Index(order, key); at >= 0 {
			return at
		}
		return len(order)
	}
	return slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a, b))
	})
}
