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

// split implements Function.Call for the function split(separator, text) of expressions. It returns the list of the
// parts of the text between the separators. A text without a separator results in a list of one element. An empty
// separator splits the text into its characters, so that an empty text results in an empty list. split never returns an
// error.
func split(args []any) (any, error) {
	return value.Texts(strings.Split(as[string](args[1]), as[string](args[0]))), nil
}

// join implements Function.Call for the function join(separator, list) of expressions. It returns the texts of the
// elements, separated by the separator, and "" for an empty list. join returns an error if an element is a list or a
// map or has a Go type that expressions do not have, or if the elements with one separator for each have more than
// 4 MB (maxText).
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

// replace implements Function.Call for the function replace(text, search, replacement) of expressions. It returns the
// text with all occurrences of the search text replaced. A search text of two or more characters that begins and ends
// with a slash, such as "/a+/", is a regular expression (RE2) between these slashes; $1 or ${name} in the replacement
// then represents the text of a group. An empty search text occurs before each character and at the end.
//
// replace returns an error if the regular expression is invalid, or if the result could have more than 4 MB (maxText),
// as estimated before the replacement.
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

// errTooLong returns a new error which says that the result of a function could have more than maxText bytes (4 MB). It
// is never nil.
func errTooLong() error { return fmt.Errorf("the result could have more than %d bytes", maxText) }

// compile compiles a regular expression in Go's syntax (RE2). If the expression is invalid, compile returns nil and
// an error, which says why but contains no part of the expression, because that may be secret.
func compile(pattern string) (*regexp.Regexp, error) {
	compiled, err := regexp.Compile(pattern)
	var syntaxErr *syntax.Error
	if errors.As(err, &syntaxErr) {
		return nil, fmt.Errorf("invalid regular expression: %s", syntaxErr.Code)
	}
	return compiled, err
}

// regex implements Function.Call for the function regex(pattern, text) of expressions. It returns the first match of
// the pattern (RE2) in the text: the text of the match for a pattern without groups, or else the list of its unnamed
// groups or the map of its named groups. A group that did not take part in the match is null.
//
// regex returns an error if the text does not match, if the pattern is invalid, or if it has both kinds of groups. Only
// the first of these errors quotes the pattern; none contains the text.
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
