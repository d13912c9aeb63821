package manifestgen

import (
	"bytes"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/internal/record"
	"service-adapter/internal/value"
)

// order is how the keys of a manifest are written; others follow sorted, the record comes last.
var order = []string{ //nolint:gochecknoglobals // a constant table
	"name", "alias", "os", "releases", "stemcells", "update", "instance_groups", "addons", "variables", "features", "tags",
	"release", "lifecycle", "instances", "azs", "jobs",
}

// encodeManifest writes YAML that readers of YAML 1.1 and 1.2 read alike: ambiguous strings are quoted, integers and floats
// plain decimals, no anchors. The text is the same for the same tree.
func encodeManifest(tree map[string]any) (string, error) {
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(node(tree)); err != nil {
		return "", fmt.Errorf("writing YAML: %w", err)
	}
	if err := encoder.Close(); err != nil {
		return "", fmt.Errorf("writing YAML: %w", err)
	}
	return out.String(), nil
}

func node(v any) *yaml.Node {
	switch item := v.(type) {
	case map[string]any:
		mapping := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		for _, key := range ordered(item) {
			mapping.Content = append(mapping.Content, text(key), node(item[key]))
		}
		if len(item) == 0 {
			mapping.Style = yaml.FlowStyle
		}
		return mapping
	case []any:
		sequence := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		for _, element := range item {
			sequence.Content = append(sequence.Content, node(element))
		}
		if len(item) == 0 {
			sequence.Style = yaml.FlowStyle
		}
		return sequence
	case string:
		return text(item)
	case nil:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: strconv.FormatBool(item)}
	case float64:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!float", Value: decimal(item)}
	default:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: value.Text(v)}
	}
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
var plainBlock = regexp.MustCompile(`^[^\p{Z}\p{C}]((\n|[^\p{Zl}\p{Zp}\p{C}])*[^\p{Z}\p{C}])?\n?$`)

// plain are strings that every reader takes for strings without quotes, unless they are one of the words. Ruby's reader knows
// more numbers than others ("1,000", "1:30"), dates, and symbols (":name"); all of them begin with something else.
var (
	plain = regexp.MustCompile(`^[A-Za-z_/(]`)
	words = regexp.MustCompile(`^(?i:y|n|yes|no|on|off|true|false|null)$`)
)

// text is a string in a style that no reader takes for another type. Texts of several lines become blocks.
func text(s string) *yaml.Node {
	scalar := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	switch {
	case strings.Contains(s, "\n") && plainBlock.MatchString(s):
		scalar.Style = yaml.LiteralStyle
	case !plain.MatchString(s) || words.MatchString(s) || strings.Contains(s, "\n"):
		scalar.Style = yaml.DoubleQuotedStyle
	}
	return scalar
}

func ordered(m map[string]any) []string {
	keys := value.Keys(m)
	rank := func(key string) int {
		if key == record.Key {
			return math.MaxInt
		}
		if at := slices.Index(order, key); at >= 0 {
			return at
		}
		return len(order)
	}
	slices.SortStableFunc(keys, func(a, b string) int {
		ra, rb := rank(a), rank(b)
		switch {
		case ra < rb:
			return -1
		case ra > rb:
			return 1
		default:
			return 0
		}
	})
	return keys
}
