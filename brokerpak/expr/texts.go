package expr

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"

	"service-adapter/internal/value"
)

// maxText is the maximum size in bytes of a result of join and replace. The product of the sizes of two texts of a
// user could exhaust the memory.
const maxText = 4 << 20

// split implements split(separator, text): the list of the parts of the text between the separators. An empty separator
// splits the text into its characters. It never fails.
func split(args []any) (any, error) {
	return value.Texts(strings.Split(as[string](args[1]), as[string](args[0]))), nil
}

// join implements join(separator, list): the texts of the elements, separated by the separator. It fails if an element
// is a list or a map, or if the result would be larger than maxText.
func join(args []any) (any, error) {
	separator := as[string](args[0])
	parts, err := textsOf(as[[]any](args[1]))
	if err != nil {
		return nil, err
	}
	size := len(separator) * len(parts)
	for _, part := range parts {
		size += len(part)
	}
	if size > maxText {
		return nil, errTooLong()
	}
	return strings.Join(parts, separator), nil
}

// replace implements replace(text, search, replacement), which replaces all occurrences of the search text. A search
// text of two or more characters that begins and ends with a slash is a regular expression, without these slashes; $1
// or ${name} in the replacement then stands for the text of a group. An empty search text occurs before each character
// and at the end. It fails if the expression is invalid, or if the result could be larger than maxText.
func replace(args []any) (any, error) {
	text, search, replacement := as[string](args[0]), as[string](args[1]), as[string](args[2])
	if len(search) < 2 || search[0] != '/' || search[len(search)-1] != '/' {
		if len(text)+strings.Count(text, search)*(len(replacement)-len(search)) > maxText {
			return nil, errTooLong()
		}
		return strings.ReplaceAll(text, search, replacement), nil
	}
	pattern, err := compile(search[1 : len(search)-1])
	if err != nil {
		return nil, err
	}
	matches := 0
	pattern.ReplaceAllStringFunc(text, func(string) string { matches++; return "" })
	// Matches do not overlap, so the groups to which a reference such as $1 refers have together at most the length of
	// the text.
	if len(text)*(1+strings.Count(replacement, "$"))+matches*len(replacement) > maxText {
		return nil, errTooLong()
	}
	return pattern.ReplaceAllString(text, replacement), nil
}

// errTooLong returns the error for a result that could be larger than maxText.
func errTooLong() error { return fmt.Errorf("the result could have more than %d bytes", maxText) }

// compile compiles a regular expression. It returns an error, which does not contain the expression, because that may
// be secret, if the expression is invalid.
func compile(pattern string) (*regexp.Regexp, error) {
	compiled, err := regexp.Compile(pattern)
	var syntaxErr *syntax.Error
	if errors.As(err, &syntaxErr) {
		return nil, fmt.Errorf("invalid regular expression: %s", syntaxErr.Code)
	}
	return compiled, err
}

// regex implements regex(pattern, text). It returns the first match: the whole match of a pattern without groups, the
// list of its unnamed groups, or the map of its named groups. A group that did not take part in the match is null. It
// fails if the text does not match, which is the only error that quotes the pattern, or if the pattern is invalid or
// has both kinds of groups.
func regex(args []any) (any, error) {
	pattern, err := compile(as[string](args[0]))
	if err != nil {
		return nil, err
	}
	text := as[string](args[1])
	at := pattern.FindStringSubmatchIndex(text)
	if at == nil {
		return nil, fmt.Errorf("the text does not match the regular expression %s", pattern)
	}
	groups, named := []any{}, map[string]any{}
	for i, name := range pattern.SubexpNames()[1:] {
		var group any
		if start, end := at[2*i+2], at[2*i+3]; start >= 0 {
			group = text[start:end]
		}
		groups, named[name] = append(groups, group), group
	}
	_, unnamed := named[""]
	switch {
	case len(groups) == 0:
		return text[at[0]:at[1]], nil
	case unnamed && len(named) > 1:
		return nil, errors.New("a regular expression cannot have both named and unnamed groups")
	case unnamed:
		return groups, nil
	default:
		return named, nil
	}
}
