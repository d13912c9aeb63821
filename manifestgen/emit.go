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

// encodeManifest returns the tree of a manifest or BOSH config as YAML that parsers of YAML 1.1 and 1.2 read alike:
// ambiguous strings such as "yes" are quoted, numbers are plain decimals, and anchors are not used. The tree must
// consist of the types that package value defines. Keys are in the order of orderedKeys, so equal trees give equal
// texts. encodeManifest returns an error only if the YAML library cannot write the tree.
func encodeManifest(tree map[string]any) (string, error) {
	text, err := yamltree.Encode(node(tree))
	if err != nil {
		return "", fmt.Errorf("writing YAML: %w", err)
	}
	return string(text), nil
}

// node returns the YAML node of a value, including all nodes below it. The value must have one of the types that
// package value defines; every other type is written like an integer, as the text of the value. Mappings have their
// keys in the order of orderedKeys. Strings have the style of stringStyle. Empty mappings and lists are written as {}
// and [].
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
// parser reads it as a float: "0.5" for 0.5, and "1" followed by 21 zeros and ".0" for 1e21.
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

// beginsPlain reports whether a string begins with an ASCII letter, "_", "/" or "(". Every YAML parser reads an
// unquoted scalar that begins so as a string, unless the scalar is a word such as "yes" or "null" (see isWord). Ruby's
// parser also recognises numbers such as "1,000" and "1:30", dates, and symbols (":name"), but these begin with other
// characters. The result is false for "".
func beginsPlain(s string) bool {
	return s != "" && (s[0]|0x20 >= 'a' && s[0]|0x20 <= 'z' || s[0] == '_' || s[0] == '/' || s[0] == '(')
}

// isWord reports whether some YAML parser reads the string as a boolean or null because it is a word such as "y", "no",
// "on", "true" or "null", in upper, lower or mixed case. The result is false for "" and "~", which are not words.
func isWord(s string) bool {
	const longest = len("false")
	return len(s) <= longest && slices.ContainsFunc(words, func(word string) bool { return strings.EqualFold(word, s) })
}

// words are the strings that some YAML parser reads as a boolean or null, in any case.
var words = []string{ //nolint:gochecknoglobals // a constant table
	"y", "n", "yes", "no", "on", "off", "true", "false", "null",
}

// stringStyle returns the YAML style for a string with which parsers of YAML 1.1 and 1.2 read it as this text and not
// as another type. A text with a newline is a literal block if a block preserves it exactly: apart from newlines, it
// must not contain line separators or characters of the Unicode category C, such as tabs and other control characters,
// nor whitespace at either end except one final newline. Any other text with a newline, a word such as "yes", and a
// text that does not begin with an ASCII letter, "_", "/" or "(", such as "" or a number, is in double quotes. All
// other texts have the style 0: the encoder writes them without quotes where the syntax permits it.
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

// orderedKeys returns the keys of a mapping in the order in which encodeManifest writes them: first those of the list
// order, such as name, releases and instance_groups, in the order of that list, then all others in alphabetical order,
// and last record.Key, the key of the adapter's record. It returns nil for an empty mapping.
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
