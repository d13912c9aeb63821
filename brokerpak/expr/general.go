package expr

import (
	"cmp"
	"crypto/md5"  //nolint:gosec // names of accounts, not protection of data
	"crypto/sha1" //nolint:gosec // the same
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"hash"
	"math/big"
	"strings"
	"sync"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"

	"service-adapter/internal/value"
)

// generalFunctions returns the standard functions that have the names and behaviour of OpenTofu's functions. One thing
// differs: scalars in lists and maps are texts, as everywhere in expressions, so that true is "1" and null is "". The
// exception is merge when it is the whole template; see Template.isMergeCall. The map is shared and must not be
// changed.
var generalFunctions = sync.OnceValue(func() map[string]Function { //nolint:gochecknoglobals // a constant table
	return map[string]Function{
		"abs":          {[]Type{Number}, Number, ofNumbers(stdlib.AbsoluteFunc)},
		"base64encode": {[]Type{String}, String, ofText(base64Text)},
		"ceil":         {[]Type{Number}, Number, ofNumbers(stdlib.CeilFunc)},
		"concat":       {[]Type{List | Repeated}, List, concat},
		"contains":     {[]Type{List, Any}, Bool, contains},
		"distinct":     {[]Type{List}, List, distinct},
		"element":      {[]Type{List, Int}, Any, elementAt},
		"endswith":     {[]Type{String, String}, Bool, ofTexts(strings.HasSuffix)},
		"flatten":      {[]Type{List}, List, flatten},
		"floor":        {[]Type{Number}, Number, ofNumbers(stdlib.FloorFunc)},
		"join":         {[]Type{String, List}, String, join},
		"keys":         {[]Type{Map}, List, keys},
		"lower":        {[]Type{String}, String, ofText(strings.ToLower)},
		"max":          {[]Type{Number | Repeated}, Number, ofNumbers(stdlib.MaxFunc)},
		"md5":          {[]Type{String}, String, ofText(hexDigest(md5.New))},
		"merge":        {[]Type{Map | Repeated}, Map, merge},
		"min":          {[]Type{Number | Repeated}, Number, ofNumbers(stdlib.MinFunc)},
		"range":        {[]Type{Number, Number | Optional, Number | Optional}, List, ofNumbers(stdlib.RangeFunc)},
		"regex":        {[]Type{String, String}, Any, regex},
		"replace":      {[]Type{String, String, String}, String, replace},
		"reverse":      {[]Type{List}, List, reverse},
		"sha1":         {[]Type{String}, String, ofText(hexDigest(sha1.New))},
		"sha256":       {[]Type{String}, String, ofText(hexDigest(sha256.New))},
		"slice":        {[]Type{List, Int, Int}, List, slice},
		"sort":         {[]Type{List}, List, sorted},
		"split":        {[]Type{String, String}, List, split},
		"startswith":   {[]Type{String, String}, Bool, ofTexts(strings.HasPrefix)},
		"trim":         {[]Type{String, String}, String, ofTexts(strings.Trim)},
		"trimprefix":   {[]Type{String, String}, String, ofTexts(strings.TrimPrefix)},
		"trimspace":    {[]Type{String}, String, ofText(strings.TrimSpace)},
		"trimsuffix":   {[]Type{String, String}, String, ofTexts(strings.TrimSuffix)},
		"upper":        {[]Type{String}, String, ofText(strings.ToUpper)},
		"values":       {[]Type{Map}, List, values},
	}
})

// ofText returns a Function.Call, for a function of expressions with one argument of the type String, that returns the
// result of calling f with the text. An argument that is not a string counts as "". The Call never returns an error,
// and panics without an argument.
func ofText(f func(string) string) func([]any) (any, error) {
	return func(args []any) (any, error) { return f(as[string](args[0])), nil }
}

// base64Text returns the standard base64 encoding (with + and /) of the bytes of a text, with padding, and "" for an
// empty text.
func base64Text(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// hexDigest returns a function that returns the digest of a text, in lower-case hexadecimal digits. create returns a
// new hash, such as sha256.New, and is called for each text.
func hexDigest(create func() hash.Hash) func(text string) string {
	return func(text string) string {
		digest := create()
		digest.Write([]byte(text))
		return hex.EncodeToString(digest.Sum(nil))
	}
}

// ofTexts returns a Function.Call, for a function of expressions with two arguments of the type String, that returns
// the result of calling f with the two texts, in their order. An argument that is not a string counts as "". The Call
// never returns an error, and panics with fewer than two arguments.
func ofTexts[R any](f func(a, b string) R) func([]any) (any, error) {
	return func(args []any) (any, error) { return f(as[string](args[0]), as[string](args[1])), nil }
}

// ofNumbers returns a Function.Call that calls a function of OpenTofu. The arguments of the Call are numbers or texts
// of numbers, and its result is an int64, a float64, or a list of these. The Call returns an error if an argument is
// not a number, such as the empty text, if an integral result does not fit into an int64, although OpenTofu's numbers
// are not limited, or if OpenTofu's function returns an error.
func ofNumbers(f function.Function) func([]any) (any, error) {
	return func(args []any) (any, error) {
		numbers := make([]cty.Value, len(args))
		for i, arg := range args {
			n, err := number(cmp.Or(value.Text(arg), "-")) // number accepts the empty text as 0; "-" is an error
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

// goNumbers converts a number, or a list of numbers, of OpenTofu to Go values: an int64 for an integral number, a
// float64 for any other, and a []any for a list, which is never nil. The result must be known and not null, and so
// must the elements of a list. goNumbers returns nil and an error if an integral number, also one in a list, does not
// fit into an int64.
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
