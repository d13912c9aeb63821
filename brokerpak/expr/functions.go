package expr

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hil/ast"

	"service-adapter/internal/fault"
	"service-adapter/internal/value"
)

// A Type is the type of an argument or of the result of a function that expressions can call: String, Int, Bool, Float,
// List or Map, or Number, which is an int or a float. The zero value is Any, which allows every type. The type of an
// argument may be combined with one of the flags Optional and Repeated, as in String|Optional.
type Type int

// The types of arguments and results. HIL converts arguments between string, int and float, from string to bool and
// from bool to string. Any allows every type.
const (
	Any Type = iota
	String
	Int
	Bool
	Float
	List
	Map
	Number // an int if the value is integral, else a float; a text is converted
)

// Optional and Repeated are flags that can be added to the types of the last arguments of a function.
const (
	Optional Type = 1 << (iota + 4) // the argument may be missing
	Repeated                        // the argument may occur one or more times

	flagMask = Optional | Repeated
)

// A kind is a Type without its flags: its name in the documentation of functions, such as "string", and the
// corresponding type of HIL, the library that evaluates expressions. The zero kind is not valid.
type kind struct {
	name string
	hil  ast.Type
}

// kind returns the name of the type and its type in HIL; the flags Optional and Repeated are ignored. It panics for a
// value that is not one of the declared types.
func (t Type) kind() kind {
	return [...]kind{
		Any: {"any", ast.TypeAny}, String: {"string", ast.TypeString}, Int: {"int", ast.TypeInt},
		Bool:  {"bool", ast.TypeBool},
		Float: {"float", ast.TypeFloat}, List: {"list", ast.TypeList}, Map: {"map", ast.TypeMap},
		Number: {"number", ast.TypeAny},
	}[t&^flagMask]
}

// String returns the name of the type in the documentation of functions: "string", "optional string" with the flag
// Optional, or "list..." with the flag Repeated. It panics for a value that is not one of the declared types.
func (t Type) String() string {
	name := t.kind().name
	switch t & flagMask {
	case Optional:
		return "optional " + name
	case Repeated:
		return name + "..."
	}
	return name
}

// A Function is a function that expressions can call: the types of its arguments, the type of its result, and the Go
// function Call that computes the result. Either the last types in Args may have the flag Optional, which allows
// their arguments to be missing, or the very last one may have the flag Repeated, which allows its argument one or
// more times. Nil Args mean a function without arguments. Call must not be nil when an expression calls the function.
type Function struct {
	Args   []Type
	Result Type
	// Call computes the result from the arguments of a call, whose number is one that Args allows. The arguments are
	// already converted to string, int64, bool, float64, []any or map[string]any; an argument of type Number or Any is
	// not converted. The result must have the type Result. If that is Any, a scalar result becomes a text. The result
	// is ignored if Call returns an error.
	Call func(args []any) (any, error)
}

// Signature returns the types of the arguments and of the result for documentation, without the name of the function,
// such as "(int, optional string) string", or "() int" for a function without arguments.
func (f Function) Signature() string {
	return "(" + strings.Join(value.Convert(f.Args, Type.String), ", ") + ") " + f.Result.String()
}

// checkArity returns an error if the function cannot be called with this number of arguments, and nil otherwise.
// Optional and repeated arguments are taken into account. name is the name of the function, with which the error
// begins, as in "slice: expected 3 arguments, got 2".
func (f Function) checkArity(name string, args int) error {
	least, most := len(f.Args), len(f.Args)
	for _, arg := range f.Args {
		switch arg & flagMask {
		case Optional:
			least--
		case Repeated:
			most = math.MaxInt
		}
	}
	expected := fmt.Sprint(least)
	switch {
	case args >= least && args <= most:
		return nil
	case most == math.MaxInt:
		expected += " or more"
	case least < most:
		expected += fmt.Sprintf(" to %d", most)
	}
	return fmt.Errorf("%s: expected %s arguments, got %d", name, expected, args)
}

// types returns the type of each argument of a call with args arguments, without the flags Optional and Repeated. The
// number must be one that checkArity accepts. If the last argument is repeated, all further arguments have its type.
// The result is empty if args is 0.
func (f Function) types(args int) []Type {
	types := make([]Type, args)
	for i := range types {
		types[i] = f.Args[min(i, len(f.Args)-1)] &^ flagMask
	}
	return types
}

// literal returns a HIL literal of value, the result of a function whose declared result type is t, and reports whether
// the value has exactly this type: a string, bool, int64 or int, float64, list or map, and for Number an int64, int or
// float64. If it returns false, the literal must not be used. It always returns false for the type Any, for nil and for
// a uint64.
func (t Type) literal(value any) (*ast.LiteralNode, bool) {
	if i, ok := value.(int); ok {
		value = int64(i)
	}
	literal := naturalLiteral(value)
	_, isText := value.(string)
	fits := literal.Typex == t.kind().hil ||
		t == Number && (literal.Typex == ast.TypeInt || literal.Typex == ast.TypeFloat)
	// naturalLiteral returns a string literal also for values that no type of HIL represents.
	return literal, fits && isText == (literal.Typex == ast.TypeString)
}

// StandardFunctions returns a new map of the functions that every expression can call, by name, such as "length" or
// "str.truncate". Each Call uses an empty Scope, so env, config and counter.next return an error, config.find returns
// its default, and rand.base64 and time.nano return a new value at each call.
func StandardFunctions() map[string]Function {
	e := &evaluation{scope: &Scope{}, callCounts: map[string]int{}}
	functions := e.standardFunctions()
	maps.Copy(functions, generalFunctions())
	return functions
}

// standardFunctions returns a new map, by name, of the standard functions that come from the reference broker or from
// this adapter, such as "config" and "length". The other standard functions are those of generalFunctions. The Call
// of a function reads environment variables, configuration values and the counter from the scope of the evaluation,
// and lets the scope's Generate decide on generated values; see generate.
func (e *evaluation) standardFunctions() map[string]Function {
	s := e.scope
	functions := map[string]Function{
		"assert":          {[]Type{Bool, String}, Bool, assert},
		"config":          {[]Type{String}, String, s.config},
		"config.find":     {[]Type{String, String}, String, s.configFind},
		"counter.next":    {nil, Int, e.generate("counter.next", s.next)},
		"env":             {[]Type{String}, String, s.env},
		"json.marshal":    {[]Type{Any}, String, jsonMarshal},
		"length":          {[]Type{Any}, Int, length},
		"list.pluck":      {[]Type{List, String}, List, pluck},
		"lookup":          {[]Type{Map, String, Any}, Any, lookup},
		"map.flatten":     {[]Type{String, String, Map}, String, mapFlatten},
		"rand.base64":     {[]Type{Int}, String, e.generate("rand.base64", randomText)},
		"regexp.matches":  {[]Type{String, String}, Bool, regexpMatches},
		"str.queryEscape": {[]Type{String}, String, ofText(url.QueryEscape)},
		"str.truncate":    {[]Type{Int, String}, String, strTruncate},
		"time.nano":       {nil, String, e.generate("time.nano", nanoseconds)},
		"yaml.toJSON":     {[]Type{String}, String, yamlToJSON},
	}
	return functions
}

// as returns an argument of a function, or an element of one, as a value of type T. The evaluation has already
// converted arguments to the types that the function declares. If the value has another type or is nil, as returns the
// zero value of T.
func as[T any](argument any) T {
	typed, _ := argument.(T)
	return typed
}

// generate returns the Call of a function whose result differs at every call, such as rand.base64. name is the name
// of the function, and create computes a result from the arguments. If the scope has no Generate, the Call is create.
// Otherwise it calls Generate with the name of the call: "rand.base64#1" for the first call of the function in one
// evaluation of the template, in the order of evaluation, "rand.base64#2" for the second. Generate then decides
// whether create is called. The Call returns the errors of create or Generate.
func (e *evaluation) generate(name string, create func(args []any) (any, error)) func(args []any) (any, error) {
	return func(args []any) (any, error) {
		if e.scope.Generate == nil {
			return create(args)
		}
		e.callCounts[name]++
		return e.scope.Generate(fmt.Sprintf("%s#%d", name, e.callCounts[name]),
			func() (any, error) { return create(args) })
	}
}

// nanoseconds implements Function.Call for the function time.nano() of expressions. It returns the current time in
// nanoseconds since 1970, as a decimal text. The arguments are ignored. It never returns an error.
func nanoseconds([]any) (any, error) { return strconv.FormatInt(time.Now().UnixNano(), 10), nil }

// assert implements Function.Call for the function assert(condition, message) of expressions. It returns true if the
// condition is true. Otherwise it returns nil and a *fault.UserError with the message, because the specification
// requires that the user sees the message.
func assert(args []any) (any, error) {
	if !as[bool](args[0]) {
		return nil, fault.Userf("%s", args[1])
	}
	return true, nil
}

// jsonMarshal implements Function.Call for the function json.marshal(value) of expressions. It returns the compact
// JSON text of the value; see jsonText. Scalars in lists and maps are encoded as strings, such as "1" for true and ""
// for null (see texts), and so is the value of a variable, which is a text anyway. Only a literal number or boolean,
// or the result of an operation or of a function whose result type is not Any, keeps its type. An empty list is
// encoded as null, as in the reference broker, but as [] inside another value.
//
// jsonMarshal returns an error if the value is an infinite number, as in 1.0/0.0, or NaN; in a list or map, these
// become strings such as "+Inf". It also returns an error if a list or map contains a Go type that expressions do not
// have.
func jsonMarshal(args []any) (any, error) {
	tree := args[0]
	list, isList := tree.([]any)
	if isList && len(list) == 0 {
		return "null", nil
	}
	if _, isMap := tree.(map[string]any); isMap || isList {
		var err error
		if tree, err = texts(tree); err != nil {
			return nil, err
		}
	}
	return jsonText(tree)
}

// lookup implements Function.Call for the function lookup(map, key, default) of expressions. It returns the value of
// the key in the map, or the default if the key is missing or its value is null. The key is not split at dots. lookup
// never returns an error.
func lookup(args []any) (any, error) {
	if value := as[map[string]any](args[0])[as[string](args[1])]; value != nil {
		return value, nil
	}
	return args[2], nil
}

// mapFlatten implements Function.Call for the function map.flatten(keySeparator, entrySeparator, map) of expressions.
// It returns a text of the entries of the map, separated by entrySeparator. Each entry is its key, keySeparator and the
// text of its value, as in "a=1,b=2" for the separators "=" and ",". The entries are sorted as texts. A value that is a
// list or map is written in Go's format, such as "[1 2]" or "map[a:1]". mapFlatten returns an error only for a scalar
// of a Go type that expressions do not have.
func mapFlatten(args []any) (any, error) {
	m, err := texts(args[2])
	if err != nil {
		return nil, err
	}
	entries := []string{}
	for key, value := range as[map[string]any](m) {
		entries = append(entries, fmt.Sprintf("%s%s%v", key, args[0], value))
	}
	slices.Sort(entries)
	return strings.Join(entries, as[string](args[1])), nil
}

// regexpMatches implements Function.Call for the function regexp.matches(pattern, text) of expressions. It returns,
// as a bool, whether the pattern, in Go's syntax (RE2), matches the text or a part of it. It returns nil and an error
// if the pattern is invalid. This error, unlike that of compile, quotes a part of the pattern or all of it, but not
// the text.
func regexpMatches(args []any) (any, error) {
	re, err := regexp.Compile(as[string](args[0]))
	if err != nil {
		return nil, err
	}
	return re.MatchString(as[string](args[1])), nil
}

// strTruncate implements Function.Call for the function str.truncate(count, text) of expressions. It returns the first
// count characters (not bytes) of the text, or the whole text if it is shorter. It returns nil and an error if the
// count is negative.
func strTruncate(args []any) (any, error) {
	count, text := as[int64](args[0]), as[string](args[1])
	if count < 0 {
		return nil, errors.New("count must not be negative")
	}
	for i := range text {
		if count == 0 {
			return text[:i], nil
		}
		count--
	}
	return text, nil
}
