package expr

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"

	"service-adapter/internal/value"
)

// maxText is how many bytes join and replace may make: the product of two texts of a user could fill the memory.
const maxText = 4 << 20

func split(args []any) (any, error) {
	return value.Texts(strings.Split(as[string](args[1]), as[string](args[0]))), nil
}

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

func replace(args []any) (any, error) {
	text, search, by := as[string](args[0]), as[string](args[1]), as[string](args[2])
	if len(search) < 2 || search[0] != '/' || search[len(search)-1] != '/' {
		if len(text)+strings.Count(text, search)*(len(by)-len(search)) > maxText {
			return nil, errTooLong()
		}
		return strings.ReplaceAll(text, search, by), nil
	}
	pattern, err := compile(search[1 : len(search)-1])
	if err != nil {
		return nil, err
	}
	matches := 0
	pattern.ReplaceAllStringFunc(text, func(string) string { matches++; return "" })
	// What a reference such as $1 stands for is in all matches together not longer than the text.
	if len(text)*(1+strings.Count(by, "$"))+matches*len(by) > maxText {
		return nil, errTooLong()
	}
	return pattern.ReplaceAllString(text, by), nil
}

func errTooLong() error { return fmt.Errorf("the result could have more than %d bytes", maxText) }

// compile does not quote the pattern, which may be secret.
func compile(pattern string) (*regexp.Regexp, error) {
	compiled, err := regexp.Compile(pattern)
	var wrong *syntax.Error
	if errors.As(err, &wrong) {
		return nil, fmt.Errorf("wrong regular expression: %s", wrong.Code)
	}
	return compiled, err
}

// regex returns the whole match of a pattern without groups, the list of its groups, or the map of its named groups. A group
// that had no part in the match is null.
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
