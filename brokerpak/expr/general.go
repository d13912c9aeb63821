package expr

import (
	"cmp"
	"errors"
	"math/big"
	"strings"
	"sync"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"

	"service-adapter/internal/value"
)

// generalFunctions are the functions that have their names and behaviour from OpenTofu. What differs: scalars in lists and
// maps are texts, as everywhere in expressions, so that true is "1" and null "", but in a whole result of merge.
var generalFunctions = sync.OnceValue(func() map[string]Function { //nolint:gochecknoglobals // a constant table
	return map[string]Function{
		"abs":        {[]Type{Number}, Number, "Returns the number without its sign.", ofNumbers(stdlib.AbsoluteFunc)},
		"ceil":       {[]Type{Number}, Number, "Returns the whole number that is not less than the number.", ofNumbers(stdlib.CeilFunc)},
		"concat":     {[]Type{List | Repeated}, List, "Returns the elements of all lists as one list.", concat},
		"contains":   {[]Type{List, Any}, Bool, "Tells whether an element of the list is the value.", contains},
		"distinct":   {[]Type{List}, List, "Returns the list without the elements that equal an earlier one.", distinct},
		"element":    {[]Type{List, Int}, Any, "Returns an element of the list; the index counts from 0 and goes round.", elementAt},
		"endswith":   {[]Type{String, String}, Bool, "Tells whether the text ends with the other text.", ofTexts(strings.HasSuffix)},
		"flatten":    {[]Type{List}, List, "Returns the list with the elements of lists in place of those lists.", flatten},
		"floor":      {[]Type{Number}, Number, "Returns the whole number that is not greater than the number.", ofNumbers(stdlib.FloorFunc)},
		"join":       {[]Type{String, List}, String, "Returns the elements of the list as one text, with the first text between them.", join},
		"keys":       {[]Type{Map}, List, "Returns the sorted keys of the map.", keys},
		"lower":      {[]Type{String}, String, "Returns the text in lower case.", ofText(strings.ToLower)},
		"max":        {[]Type{Number | Repeated}, Number, "Returns the largest of the numbers.", ofNumbers(stdlib.MaxFunc)},
		"merge":      {[]Type{Map | Repeated}, Map, "Returns the entries of all maps; the last map with a key decides on it.", merge},
		"min":        {[]Type{Number | Repeated}, Number, "Returns the smallest of the numbers.", ofNumbers(stdlib.MinFunc)},
		"range":      {[]Type{Number, Number | Optional, Number | Optional}, List, "Returns numbers without the end.", ofNumbers(stdlib.RangeFunc)},
		"regex":      {[]Type{String, String}, Any, "Returns what the regular expression matches in the text, or its groups.", regex},
		"replace":    {[]Type{String, String, String}, String, "Replaces the second text, or what a /regex/ matches, in the first by the third.", replace},
		"reverse":    {[]Type{List}, List, "Returns the list backwards.", reverse},
		"slice":      {[]Type{List, Int, Int}, List, "Returns the elements from the first index to before the second.", slice},
		"sort":       {[]Type{List}, List, "Returns the elements, which are scalars, as sorted texts.", sorted},
		"split":      {[]Type{String, String}, List, "Returns the parts of the second text between which the first stands.", split},
		"startswith": {[]Type{String, String}, Bool, "Tells whether the text starts with the other text.", ofTexts(strings.HasPrefix)},
		"trim":       {[]Type{String, String}, String, "Removes the characters of the second text from both ends of the first.", ofTexts(strings.Trim)},
		"trimprefix": {[]Type{String, String}, String, "Removes the second text from the start of the first.", ofTexts(strings.TrimPrefix)},
		"trimspace":  {[]Type{String}, String, "Removes white space from both ends of the text.", ofText(strings.TrimSpace)},
		"trimsuffix": {[]Type{String, String}, String, "Removes the second text from the end of the first.", ofTexts(strings.TrimSuffix)},
		"upper":      {[]Type{String}, String, "Returns the text in upper case.", ofText(strings.ToUpper)},
		"values":     {[]Type{Map}, List, "Returns the values of the map in the order of its sorted keys.", values},
	}
})

func ofText(f func(string) string) func([]any) (any, error) {
	return func(args []any) (any, error) { return f(as[string](args[0])), nil }
}

func ofTexts[R any](f func(a, b string) R) func([]any) (any, error) {
	return func(args []any) (any, error) { return f(as[string](args[0]), as[string](args[1])), nil }
}

// ofNumbers is a function of OpenTofu that makes a number, or a list, of numbers. Its numbers have no bound: those of 64 bits
// are let in.
func ofNumbers(f function.Function) func([]any) (any, error) {
	return func(args []any) (any, error) {
		numbers := make([]cty.Value, len(args))
		for i, arg := range args {
			n, err := number(cmp.Or(value.Text(arg), "-")) // a cast makes 0 of the empty text
			if err != nil {
				return nil, err
			}
			if numbers[i], err = cty.ParseNumberVal(value.Text(n)); err != nil {
				return nil, err
			}
		}
		result, err := f.Call(numbers)
		if err != nil {
			return nil, err
		}
		return goNumbers(result)
	}
}

// goNumbers returns an int64 where a number is whole.
func goNumbers(result cty.Value) (any, error) {
	if result.Type() != cty.Number {
		list := []any{}
		for _, element := range result.AsValueSlice() {
			n, err := goNumbers(element)
			if err != nil {
				return nil, err
			}
			list = append(list, n)
		}
		return list, nil
	}
	n := result.AsBigFloat()
	if !n.IsInt() {
		f, _ := n.Float64()
		return f, nil
	}
	i, accuracy := n.Int64()
	if accuracy != big.Exact {
		return nil, errors.New("the number is out of range")
	}
	return i, nil
}
