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

// order is how the keys of a manifest are written; others follow sorted, the record comes last.
var order = []string{ //nolint:gochecknoglobals // a constant table
	"name", "alias", "os", "releases", "stemcells", "update", "instance_groups", "addons", "variables", "features", "tags",
	"release", "lifecycle", "instances", "azs", "jobs",
}

// encodeManifest writes YAML that readers of YAML 1.1 and 1.2 read alike: ambiguous strings are quoted, integers and floats
// plain decimals, no anchors. The text is the same for the same tree.
func encodeManifest(tree map[string]any) (string, error) {
	text, err := yamltree.Encode(node(tree))
	if err != nil {
		return "", fmt.Errorf("writing YAML: %w", err)
	}
	return string(text), nil
}

func node(v any) *yaml.Node {
	made := &yaml.Node{Kind: yaml.ScalarNode}
	switch item := v.(type) {
	case map[string]any:
		made.Kind, made.Tag = yaml.MappingNode, "!!map"
		for _, key := range ordered(item) {
			made.Content = append(made.Content, node(key), node(item[key]))
		}
	case []any:
		made.Kind, made.Tag = yaml.SequenceNode, "!!seq"
		made.Content = value.Each(item, node)
	case string:
		made.Tag, made.Value, made.Style = "!!str", item, styleOf(item)
	case nil:
		made.Tag, made.Value = "!!null", "null"
	case bool:
		made.Tag, made.Value = "!!bool", strconv.FormatBool(item)
	case float64:
		made.Tag, made.Value = "!!float", decimal(item)
	default:
		made.Tag, made.Value = "!!int", value.Text(v)
	}
	if made.Kind != yaml.ScalarNode && len(made.Content) == 0 {
		made.Style = yaml.FlowStyle
	}
	return made
}

// decimal writes a float so that the Director's YAML reader takes it for one: with a point and without an exponent.
func decimal(f float64) string {
	if f == math.Trunc(f) {
		return strconv.FormatFloat(f, 'f', 1, 64)
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

// plainBlock matches texts of several lines that come out of a block as they went in: no space at either end, and nothing that
// a reader or the encoder takes for a space or a line break of its own.
// It is made where there is such a text, because its sets of characters are large.
var plainBlock = sync.OnceValue(func() *regexp.Regexp { //nolint:gochecknoglobals // a compiled expression
	return regexp.MustCompile(`^[^\p{Z}\p{C}]((\n|[^\p{Zl}\p{Zp}\p{C}])*[^\p{Z}\p{C}])?\n?$`)
})

// beginsPlain tells whether a string begins like those that every reader takes for strings without quotes, unless they are one of the
// words. Ruby's reader knows more numbers than others ("1,000", "1:30"), dates, and symbols (":name"); all of them begin with
// something else.
func beginsPlain(s string) bool {
	return s != "" && (s[0]|0x20 >= 'a' && s[0]|0x20 <= 'z' || s[0] == '_' || s[0] == '/' || s[0] == '(')
}

// isWord tells whether some reader takes a string for a boolean or null.
func isWord(s string) bool {
	const longest = len("false")
	return len(s) <= longest && slices.ContainsFunc(words, func(word string) bool { return strings.EqualFold(word, s) })
}

var words = []string{"y", "n", "yes", "no", "on", "off", "true", "false", "null"} //nolint:gochecknoglobals // a constant table

// styleOf is a style of a string that no reader takes for another type; 0 is plain where that is possible. Texts of several lines become
// blocks.
func styleOf(s string) yaml.Style {
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

// ordered returns the keys of a mapping as they are written.
func ordered(m map[string]any) []string {
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
