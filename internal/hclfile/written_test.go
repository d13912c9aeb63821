package hclfile_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/zclconf/go-cty/cty"

	"service-adapter/internal/hclfile"
	"service-adapter/internal/tfjson"
)

// FuzzRegenerate asserts that no state makes Regenerate panic, that its text can be read, and that without mappings the
// text evaluates to the state.
func FuzzRegenerate(f *testing.F) {
	schemas, err := os.ReadFile("testdata/nested/schemas.json")
	if err != nil {
		f.Fatal(err)
	}
	recorded, err := os.ReadFile("testdata/nested/state.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(recorded)
	for _, values := range []string{
		`{}`, `null`, `{"name": "$${"}`, `{"disk": [null]}`, `{"limits": {"cpu": 1e9}}`,
		`{"tags": {"\u0000": "é"}}`,
	} {
		f.Add([]byte(nest(values)))
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		f.Add(randomState(random))
	}
	f.Fuzz(func(t *testing.T, state []byte) {
		r := hclfile.Regeneration{State: state, Schemas: schemas, Resources: []string{"nest_thing.first"}}
		if got, err := hclfile.Regenerate(r); err == nil {
			if err := checkWritten(r, got.Main); err != nil {
				t.Fatalf("%v in\n%s", err, got.Main)
			}
		}
		r.Mappings = mappings("name", "var.a", "size", "var.b", "anything", "var.c", "port", "local.x")
		r.Delete = []string{"nest_thing.first.tags", "nest_thing.first.disk.key", "nest_thing.first.rules.note"}
		r.Add = mappings("nest_thing.first.seed", "var.seed")
		got, err := hclfile.Regenerate(r)
		if err != nil {
			return
		}
		if _, diags := hclfile.Inspect(map[string]string{"main.tf": got.Main}); diags.HasErrors() {
			t.Fatalf("%v in\n%s", diags.Err(), got.Main)
		}
	})
}

var _ = Describe("Regenerate", func() {
	It("writes text that evaluates to the state", func() {
		random := rand.New(rand.NewPCG(uint64(GinkgoRandomSeed()), 0))
		for range 300 {
			r := hclfile.Regeneration{
				State: randomState(random), Schemas: read("nested/schemas.json"),
				Resources: []string{"nest_thing.first"},
			}
			got, err := hclfile.Regenerate(r)
			Expect(err).NotTo(HaveOccurred(), string(r.State))
			Expect(checkWritten(r, got.Main)).To(Succeed(), got.Main)
		}
	})

	It("writes text that evaluates to a state recorded from OpenTofu", func() {
		for _, address := range recorded {
			r := after("recorded", hclfile.Regeneration{Resources: []string{address}})
			got, err := hclfile.Regenerate(r)
			Expect(err).NotTo(HaveOccurred())
			Expect(checkWritten(r, got.Main)).To(Succeed(), got.Main)
		}
	})
})

// checkWritten compares the only resource of a main.tf with the state.
func checkWritten(r hclfile.Regeneration, text string) error {
	file, diags := hclsyntax.ParseConfig([]byte(text), "main.tf", hcl.InitialPos)
	if diags.HasErrors() {
		return diags
	}
	state, err := tfjson.DecodeState(r.State)
	if err != nil {
		return err
	}
	schemas, err := tfjson.DecodeSchemas(r.Schemas)
	if err != nil {
		return err
	}
	resource, err := state.Find(r.Resources[0])
	if err != nil {
		return err
	}
	schema, err := schemas.Resource(resource.Provider, resource.Type)
	if err != nil {
		return err
	}
	block := file.Body.(*hclsyntax.Body).Blocks[0]
	if got := strings.Join(block.Labels, "."); got != r.Resources[0] {
		return fmt.Errorf("resource %s", got)
	}
	if id := schema.Attributes["id"]; id.Computed {
		delete(schema.Attributes, "id")
	}
	return checkBody(*schema, block.Body, resource.Values)
}

func checkBody(schema tfjson.Block, body *hclsyntax.Body, values map[string]any) error {
	for name, attribute := range schema.Attributes {
		found, written := body.Attributes[name]
		if want := attribute.Settable() && values[name] != nil; written != want {
			return fmt.Errorf("%s written: %v, want %v", name, written, want)
		} else if !want {
			continue
		}
		got, diags := found.Expr.Value(nil)
		if diags.HasErrors() {
			return diags
		}
		if want := expected(attribute, values[name]); !got.RawEquals(want) {
			return fmt.Errorf("%s = %#v, want %#v", name, got, want)
		}
	}
	for name, nested := range schema.BlockTypes {
		blocks := slices.DeleteFunc(slices.Clone(body.Blocks), func(b *hclsyntax.Block) bool { return b.Type != name })
		for _, inner := range elements(nested.NestingMode, values[name]) {
			object := inner.(map[string]any)
			if nested.NestingMode == "group" && isNull(object) {
				continue
			}
			if len(blocks) == 0 {
				return fmt.Errorf("a block %s is missing", name)
			}
			if err := checkBody(nested.Block, blocks[0].Body, object); err != nil {
				return err
			}
			blocks = blocks[1:]
		}
		if len(blocks) > 0 {
			return fmt.Errorf("%d blocks %s too many", len(blocks), name)
		}
	}
	return nil
}

// elements returns the objects of nested blocks.
func elements(mode string, v any) []any {
	object, _ := v.(map[string]any)
	switch {
	case v == nil:
		return nil
	case mode == "map":
		var all []any
		for _, key := range sortedKeys(object) {
			all = append(all, object[key])
		}
		return all
	case object != nil:
		return []any{object}
	default:
		return v.([]any)
	}
}

func isNull(object map[string]any) bool {
	for _, v := range object {
		switch c := v.(type) {
		case nil:
		case []any:
			if len(c) > 0 {
				return false
			}
		case map[string]any:
			if !isNull(c) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

func sortedKeys(m map[string]any) []string {
	var keys []string
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// expected returns the value that an attribute must evaluate to. Of nested attributes, it contains those that can be
// set and are not null.
func expected(attribute tfjson.Attribute, v any) cty.Value {
	if attribute.Nested == nil {
		return literal(v)
	}
	object := func(v any) cty.Value {
		attributes := map[string]cty.Value{}
		for name, inner := range attribute.Nested.Attributes {
			if item := v.(map[string]any)[name]; inner.Settable() && item != nil {
				attributes[name] = expected(inner, item)
			}
		}
		return cty.ObjectVal(attributes)
	}
	switch attribute.Nested.NestingMode {
	case "single":
		return object(v)
	case "map":
		objects := map[string]cty.Value{}
		for _, key := range sortedKeys(v.(map[string]any)) {
			objects[key] = object(v.(map[string]any)[key])
		}
		return cty.ObjectVal(objects)
	default:
		var objects []cty.Value
		for _, item := range v.([]any) {
			objects = append(objects, object(item))
		}
		return cty.TupleVal(objects)
	}
}

// literal converts a value of a state to a value of HCL.
func literal(v any) cty.Value {
	switch c := v.(type) {
	case bool:
		return cty.BoolVal(c)
	case string:
		return cty.StringVal(c)
	case json.Number:
		return cty.MustParseNumberVal(c.String())
	case []any:
		var items []cty.Value
		for _, item := range c {
			items = append(items, literal(item))
		}
		return cty.TupleVal(items)
	case map[string]any:
		items := map[string]cty.Value{}
		for _, key := range sortedKeys(c) {
			items[cty.NormalizeString(key)] = literal(c[key])
		}
		return cty.ObjectVal(items)
	default:
		return cty.NullVal(cty.DynamicPseudoType)
	}
}

// nest returns a state with nest_thing.first.
func nest(values string) string {
	return `{"values": {"root_module": {"resources": [{"mode": "managed", "type": "nest_thing", "name": "first",
		"provider_name": "registry.opentofu.org/example/nest", "values": ` + values + `}]}}}`
}

// randomState returns a state of nest_thing.first with random values that fit its schema.
func randomState(r *rand.Rand) []byte {
	maybe := func(v any) any {
		if r.IntN(3) == 0 {
			return nil
		}
		return v
	}
	many := func(one func() any) []any {
		all := make([]any, r.IntN(3))
		for i := range all {
			all[i] = one()
		}
		return all
	}
	text := func() any { return maybe(randomText(r)) }
	number := func() any { return maybe(randomNumber(r)) }
	values := map[string]any{
		"id": text(), "arn": text(), "name": text(), "size": number(), "password": text(), "token": text(), "seed": nil,
		"tags": map[string]any{randomText(r): text(), randomText(r): randomText(r)}, "anything": randomValue(r, 4),
		"rules_as_attributes": many(func() any { return map[string]any{"from": number(), "to": text()} }),
		"admin": maybe(map[string]any{
			"login": text(), "password": text(), "created": text(),
			"size": number(),
		}),
		"rules":    many(func() any { return map[string]any{"port": number(), "note": text()} }),
		"peers":    many(func() any { return map[string]any{"host": text()} }),
		"zones":    map[string]any{randomText(r): map[string]any{"count": number()}},
		"timeouts": maybe(map[string]any{"create": text()}),
		"network": maybe(map[string]any{
			"id": text(), "mac": text(), "route": many(func() any { return map[string]any{"to": text()} }),
		}),
		"defaults": map[string]any{"level": text()}, "limits": map[string]any{"cpu": number()},
		"disk":    many(func() any { return map[string]any{"size": number(), "device": text(), "key": text()} }),
		"address": many(func() any { return map[string]any{"ip": text()} }),
		"label":   map[string]any{randomText(r): map[string]any{"value": text()}},
	}
	encoded, err := json.Marshal(values)
	if err != nil {
		panic(err) // of a value that this file has made
	}
	return []byte(nest(string(encoded)))
}

func randomText(r *rand.Rand) string {
	parts := []string{
		"$", "%", "{", "}", "$${", "%{", "${a}", "~", "\"", "\\", "\n", "\r\n", "\t", "\x00", "\x7f", "\u2028",
		"\ufeff", "é", "数", "🎉", "<<EOT\n", "EOT\n",
		"#", "//", "/*", "for", "null", "a", " ", "'", "\u0301", "\U000e0001",
	}
	var text strings.Builder
	for range r.IntN(6) {
		text.WriteString(parts[r.IntN(len(parts))])
	}
	return text.String()
}

func randomNumber(r *rand.Rand) json.Number {
	switch r.IntN(4) {
	case 0:
		return json.Number(strconv.FormatInt(r.Int64()-r.Int64(), 10))
	case 1:
		return json.Number(strconv.FormatFloat(r.NormFloat64(), 'f', -1, 64))
	case 2:
		return json.Number("1" + strings.Repeat("0", r.IntN(60)) + "1." + strings.Repeat("3", 1+r.IntN(9)))
	default:
		return json.Number(strconv.FormatFloat(r.ExpFloat64(), 'e', -1, 64))
	}
}

func randomValue(r *rand.Rand, depth int) any {
	switch kind := r.IntN(6); {
	case kind == 0:
		return r.IntN(2) == 0
	case kind == 1:
		return randomNumber(r)
	case kind == 2 || depth == 0:
		return randomText(r)
	case kind == 3:
		return nil
	case kind == 4:
		list := make([]any, r.IntN(4))
		for i := range list {
			list[i] = randomValue(r, depth-1)
		}
		return list
	default:
		object := map[string]any{}
		for range r.IntN(4) {
			object[randomText(r)] = randomValue(r, depth-1)
		}
		return object
	}
}
