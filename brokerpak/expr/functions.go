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

// Type is the type of an argument or result of a function.
type Type int

// The types. An argument is converted where HIL does so by itself: between string, int and float, from string to bool and
// from bool to string. Any admits every type.
const (
	Any Type = iota
	String
	Int
	Bool
	Float
	List
	Map
	Number // an int, or else a float, by its value; a text is converted
)

// Optional marks an argument that may be missing, Repeated one that may come again. Only the last arguments are marked.
const (
	Optional Type = 1 << (iota + 4)
	Repeated

	marks = Optional | Repeated
)

// kind is a type: its name in the documentation of functions, and what HIL calls it.
type kind struct {
	name string
	hil  ast.Type
}

func (t Type) kind() kind {
	return [...]kind{
		Any: {"any", ast.TypeAny}, String: {"string", ast.TypeString}, Int: {"int", ast.TypeInt}, Bool: {"bool", ast.TypeBool},
		Float: {"float", ast.TypeFloat}, List: {"list", ast.TypeList}, Map: {"map", ast.TypeMap}, Number: {"number", ast.TypeAny},
	}[t&^marks]
}

// String returns the name of the type as in the documentation of functions.
func (t Type) String() string {
	name := t.kind().name
	switch t & marks {
	case Optional:
		return "optional " + name
	case Repeated:
		return name + "..."
	}
	return name
}

// Function is a function that expressions can call.
type Function struct {
	Args   []Type
	Result Type
	// Doc is one sentence for authors.
	Doc string
	// Call gets as many arguments as Args allows, as string, int64, bool, float64, []any or map[string]any, a Number as it was
	// given; the elements of lists and maps are values of any kind. It returns a value of the type Result; where that is Any,
	// scalars become texts.
	Call func(args []any) (any, error)
}

// Signature returns the types of the function, such as "(int, string) string".
func (f Function) Signature() string {
	return "(" + strings.Join(value.Each(f.Args, Type.String), ", ") + ") " + f.Result.String()
}

// checkArity returns an error when the function takes another number of arguments.
func (f Function) checkArity(name string, args int) error {
	least, most := len(f.Args), len(f.Args)
	for _, arg := range f.Args {
		switch arg & marks {
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

// types returns the types of so many arguments, a number that the function takes.
func (f Function) types(args int) []Type {
	types := make([]Type, args)
	for i := range types {
		types[i] = f.Args[min(i, len(f.Args)-1)] &^ marks
	}
	return types
}

// literal makes a literal of a result that has exactly this type.
func (t Type) literal(value any) (*ast.LiteralNode, bool) {
	if i, ok := value.(int); ok {
		value = int64(i)
	}
	made := naturalLiteral(value)
	_, isText := value.(string)
	fits := made.Typex == t.kind().hil || t == Number && (made.Typex == ast.TypeInt || made.Typex == ast.TypeFloat)
	return made, fits && isText == (made.Typex == ast.TypeString)
}

// StandardFunctions returns the functions that every expression can call, by name.
func StandardFunctions() map[string]Function {
	e := &evaluation{scope: &Scope{}, made: map[string]int{}}
	functions := e.standardFunctions()
	maps.Copy(functions, generalFunctions())
	return functions
}

// standardFunctions returns the standard functions that are about one evaluation.
func (e *evaluation) standardFunctions() map[string]Function {
	s := e.scope
	functions := map[string]Function{
		"assert":       {[]Type{Bool, String}, Bool, "Fails with the message when the condition is false.", assert},
		"config":       {[]Type{String}, String, "Returns the configuration value of the key; a map or list becomes JSON.", s.config},
		"config.find":  {[]Type{String, String}, String, "Returns the configuration value of the key, or the default when it is not set.", s.configFind},
		"counter.next": {nil, Int, "Returns the next number of a counter that starts at 1.", e.generate("counter.next", s.next)},
		"env":          {[]Type{String}, String, "Returns the value of the environment variable.", s.env},
		"json.marshal": {[]Type{Any}, String, "Returns the value as JSON; all scalars in a list or map are strings.", jsonMarshal},
		"length":       {[]Type{Any}, Int, "Returns the number of elements of a list, entries of a map, or characters of a text.", length},
		"list.pluck":   {[]Type{List, String}, List, "Returns what the maps of the list have under the key.", pluck},
		"lookup":       {[]Type{Map, String, Any}, Any, "Returns the value of the key in the map, or the default when it is missing or null.", lookup},
		"map.flatten": {
			[]Type{String, String, Map},
			String,
			"Joins the sorted entries of the map: the first text stands between key and value, the second between entries.", mapFlatten,
		},
		"rand.base64":     {[]Type{Int}, String, "Returns that many random bytes as URL encoded Base64.", e.generate("rand.base64", randomText)},
		"regexp.matches":  {[]Type{String, String}, Bool, "Tells whether the regular expression matches somewhere in the text.", regexpMatches},
		"str.queryEscape": {[]Type{String}, String, "Escapes the text for the query of a URL.", ofText(url.QueryEscape)},
		"str.truncate":    {[]Type{Int, String}, String, "Returns the first characters of the text, at most that many.", strTruncate},
		"time.nano":       {nil, String, "Returns the nanoseconds since January 1, 1970 UTC.", e.generate("time.nano", nanoseconds)},
		"yaml.toJSON":     {[]Type{String}, String, "Returns a YAML text as JSON, which an input of type object or array takes.", yamlToJSON},
	}
	return functions
}

// as is an argument in the type that its function declares: the evaluation has cast it.
func as[T any](argument any) T {
	typed, _ := argument.(T)
	return typed
}

// generate is a function that gives another value at every call, about which the owner of the scope decides.
func (e *evaluation) generate(name string, create func(args []any) (any, error)) func(args []any) (any, error) {
	return func(args []any) (any, error) {
		if e.scope.Generate == nil {
			return create(args)
		}
		e.made[name]++
		return e.scope.Generate(fmt.Sprintf("%s#%d", name, e.made[name]), func() (any, error) { return create(args) })
	}
}

func nanoseconds([]any) (any, error) { return strconv.FormatInt(time.Now().UnixNano(), 10), nil }

// assert fails with an error for the cf user: the specification says that the user gets to see the message.
func assert(args []any) (any, error) {
	if !as[bool](args[0]) {
		return nil, fault.Userf("%s", args[1])
	}
	return true, nil
}

// jsonMarshal gives scalars in lists and maps as texts. An empty list is null by itself, as in the reference broker, and a list inside others.
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

func lookup(args []any) (any, error) {
	if value := as[map[string]any](args[0])[as[string](args[1])]; value != nil {
		return value, nil
	}
	return args[2], nil
}

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

func regexpMatches(args []any) (any, error) {
	re, err := regexp.Compile(as[string](args[0]))
	if err != nil {
		return nil, err
	}
	return re.MatchString(as[string](args[1])), nil
}

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
