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

// A Type is the type of an argument or of the result of a function. The type of an argument may also contain the flag
// Optional or Repeated. The zero value is Any.
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

// A kind is a type without flags: its name in the documentation of functions, and the corresponding type of HIL.
type kind struct {
	name string
	hil  ast.Type
}

// kind returns the type without its flags. It panics for a value that is not one of the types.
func (t Type) kind() kind {
	return [...]kind{
		Any: {"any", ast.TypeAny}, String: {"string", ast.TypeString}, Int: {"int", ast.TypeInt},
		Bool:  {"bool", ast.TypeBool},
		Float: {"float", ast.TypeFloat}, List: {"list", ast.TypeList}, Map: {"map", ast.TypeMap},
		Number: {"number", ast.TypeAny},
	}[t&^flagMask]
}

// String returns the name of the type in the documentation of functions, such as "optional string" or "list...".
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

// A Function is a function that expressions can call. Args are the types of its arguments. The last ones may have the
// flag Optional or Repeated.
type Function struct {
	Args   []Type
	Result Type
	// Call computes the result. It is called with a number of arguments that Args allows. They are already converted to
	// string, int64, bool, float64, []any or map[string]any; an argument of type Number or Any is not converted. The
	// result must have the type Result. If that is Any, a scalar result becomes a text.
	Call func(args []any) (any, error)
}

// Signature returns the types of the arguments and of the result, such as "(int, string) string".
func (f Function) Signature() string {
	return "(" + strings.Join(value.Convert(f.Args, Type.String), ", ") + ") " + f.Result.String()
}

// checkArity returns an error, which starts with the given name of the function, if the function cannot be called
// with this number of arguments.
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

// types returns the type of each argument of a call with this number of arguments, which checkArity must accept. The
// types do not include the flags Optional and Repeated. Each further argument of a repeated one has the same type.
func (f Function) types(args int) []Type {
	types := make([]Type, args)
	for i := range types {
		types[i] = f.Args[min(i, len(f.Args)-1)] &^ flagMask
	}
	return types
}

// literal returns a HIL literal of a function's result. It returns false if the value does not have exactly this type;
// an int counts as an int64. The literal must not be used then. No value has the type Any.
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

// StandardFunctions returns a new map of the functions that every expression can call, by name. Their Call uses an
// empty Scope, so that env, config and counter.next fail, and config.find returns its default.
func StandardFunctions() map[string]Function {
	e := &evaluation{scope: &Scope{}, callCounts: map[string]int{}}
	functions := e.standardFunctions()
	maps.Copy(functions, generalFunctions())
	return functions
}

// standardFunctions returns a new map of those standard functions that come from the reference broker or from this
// adapter, bound to the scope of the evaluation. See generalFunctions for those of OpenTofu.
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

// as returns an argument in the type that its function declares. The evaluation has already converted it; if it has
// not, the zero value of the type is returned.
func as[T any](argument any) T {
	typed, _ := argument.(T)
	return typed
}

// generate returns the Call of a function whose result differs at every call, such as a random text. create computes a
// result. If the scope has Generate, that function receives the name of the call, such as "rand.base64#2" for the
// second call in the template, and decides whether create is called. The name counts the calls of one evaluation, in
// the order of their evaluation. The errors are those of create or Generate.
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

// nanoseconds implements time.nano(): the current time in nanoseconds since 1970, as text. It never fails.
func nanoseconds([]any) (any, error) { return strconv.FormatInt(time.Now().UnixNano(), 10), nil }

// assert implements assert(condition, message), which is true. If the condition is false, it fails with the message as
// a *fault.UserError, because the specification requires that the user sees the message.
func assert(args []any) (any, error) {
	if !as[bool](args[0]) {
		return nil, fault.Userf("%s", args[1])
	}
	return true, nil
}

// jsonMarshal implements json.marshal(value). Scalars in lists and maps are encoded as strings; the value of a variable
// is a text anyway, and only a literal number or the result of a function keeps its type. An empty list is encoded as
// null, as in the reference broker, but as [] inside another value. It fails only for values of unsupported types.
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

// lookup implements lookup(map, key, default). It returns the default if the key is missing or its value is null. It
// never fails.
func lookup(args []any) (any, error) {
	if value := as[map[string]any](args[0])[as[string](args[1])]; value != nil {
		return value, nil
	}
	return args[2], nil
}

// mapFlatten implements map.flatten(keySeparator, entrySeparator, map): a text of the entries of the map, each its key,
// keySeparator and the text of its value. The entries are sorted as texts and separated by entrySeparator. It fails
// only for values of unsupported types.
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

// regexpMatches implements regexp.matches(pattern, text): whether a part of the text matches. It fails if the pattern
// is invalid; the error quotes the faulty part of the pattern.
func regexpMatches(args []any) (any, error) {
	re, err := regexp.Compile(as[string](args[0]))
	if err != nil {
		return nil, err
	}
	return re.MatchString(as[string](args[1])), nil
}

// strTruncate implements str.truncate(count, text): the first characters of the text, or the whole text if it is
// shorter. It counts characters, not bytes, and fails if the count is negative.
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
