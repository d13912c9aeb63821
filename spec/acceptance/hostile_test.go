package acceptance_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"service-adapter/spec/kit"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	yamlv2 "gopkg.in/yaml.v2"
	"gopkg.in/yaml.v3"
)

// hostileTexts are texts that have a meaning in one of the formats on their way, such as expressions, templates,
// shells, YAML and JSON.
var hostileTexts = []string{
	"${secret}", "$${secret}", "%{ if true }yes%{ endif }", "%%{x}", "${file(\"/etc/passwd\")}", "${", "%{",
	"{{.Secret}}", "<%= x %>", "$(id)", "`id`",
	`"`, `'`, `\`, `\n`, `\u0028\u0028`, `"}]}`, "a\nb", "\n", "a\n\nb\n", "  a\n b", "\ta", "a ", " a", "a\r\nb", "\r",
	"", " ",
	"y", "n", "no", "On", "TRUE", "null", "~", "0x1F", "0o17", "017", "1_000", "1e3", "12:30:45", "2024-01-01", ".inf",
	"-", "- a", "? a",
	"a: b", "a #b", "# b", "&a", "*a", "!!binary x", "%TAG", "---", "...", "--- a\n...\n", "@a", ",", "[", "{", "|",
	">", "=", "<<",
	"😀 Ünïcödé 漢字", "\u0000", "\u0007", "\u001b[31m", "\u007f", "\u0085", "\u00a0", "\u2028", "\ufeff", "\ufffd",
	"\U0010ffff",
	"( (", "))", "(", "--help", "-var=x=y", "../../etc/passwd", strings.Repeat("long ", 300),
	strings.Repeat("x", 1<<20),
}

// decomposed is a text that OpenTofu normalises to one character, because it normalises all strings to NFC.
const decomposed = "a\u0301"

// nested returns a JSON value in this many lists and objects.
func nested(levels int) string {
	return strings.Repeat(`{"a":[`, levels/2) + "1" + strings.Repeat("]}", levels/2)
}

// readBy reads the properties of the job with two YAML libraries, one of them the broker's. The keys of the result are
// the names of the libraries.
func readBy(manifest string) map[string]object {
	GinkgoHelper()
	type document struct {
		Groups []struct {
			Jobs []struct {
				Properties map[string]any `yaml:"properties"`
			} `yaml:"jobs"`
		} `yaml:"instance_groups"`
	}
	var v2, v3 document
	Expect(yamlv2.Unmarshal([]byte(manifest), &v2)).To(Succeed())
	Expect(yaml.Unmarshal([]byte(manifest), &v3)).To(Succeed())
	return map[string]object{"yaml.v2": v2.Groups[0].Jobs[0].Properties, "yaml.v3": v3.Groups[0].Jobs[0].Properties}
}

// canonical encodes a value as JSON, so that values of different decoders can be compared. Numbers keep all digits.
func canonical(value any) string {
	switch v := value.(type) {
	case map[any]any:
		keys := object{}
		for key, item := range v {
			keys[fmt.Sprint(key)] = json.RawMessage(canonical(item))
		}
		return encode(keys)
	case map[string]any:
		keys := object{}
		for key, item := range v {
			keys[key] = json.RawMessage(canonical(item))
		}
		return encode(keys)
	case []any:
		items := []json.RawMessage{}
		for _, item := range v {
			items = append(items, json.RawMessage(canonical(item)))
		}
		return encode(items)
	default:
		return encode(v)
	}
}

// expectText asserts that two texts are equal. If they differ, the failure shows only the text around the first
// difference.
func expectText(got, wanted, where string) {
	GinkgoHelper()
	at := 0
	for at < min(len(got), len(wanted)) && got[at] == wanted[at] {
		at++
	}
	around := func(text string) string { return text[max(0, at-20):min(len(text), at+20)] }
	Expect(got == wanted).To(BeTrue(), "%s, at byte %d: %q instead of %q", where, at, around(got), around(wanted))
}

// parse decodes JSON. Numbers keep all digits.
func parse(text string) any {
	GinkgoHelper()
	return decode(`{"it":` + text + `}`)["it"]
}

var _ = Describe("hostile parameters", func() {
	var b *broker

	BeforeEach(func() {
		b = newBroker(newSite("entries"))
		b.site.set(object{"max_request_kb": 4096}) // some of the texts exceed the default
	})

	It("are unchanged in the manifest and in the credentials", func(ctx context.Context) {
		keys := object{}
		for _, text := range hostileTexts {
			if len(text) < 1000 && text != "<<" { // a key of YAML is short, and the key << merges mappings
				keys[text] = text
			}
		}
		tree := object{"texts": hostileTexts, "keys": keys}
		for range 2 { // a creation and an update
			b.deploy(ctx, object{"tree": tree, "text": hostileTexts[len(hostileTexts)-1]})
			for reader, properties := range readBy(b.Manifest) {
				expectText(canonical(properties["tree"]), canonical(parse(encode(tree))), reader)
			}
			expectSame(b.Manifest, b.call(ctx, generateManifest, b.Generate(object{})))
		}
		got := credentials(b.bind(ctx, "bind-1", object{"tree": tree, "content": hostileTexts[0]}))
		Expect(got["echo"].(object)["content"]).To(Equal(hostileTexts[0]))
		expectText(canonical(got["echo"].(object)["tree"]), canonical(parse(encode(tree))), "credentials")
		Expect(b.unbind(ctx, "bind-1").Exit).To(Equal(0))
		b.site.expectNothingLeft()
	})

	It("may contain each hostile text alone", kit.Slow(), func(ctx context.Context) {
		for _, text := range append(hostileTexts, decomposed) {
			b.Manifest = ""
			b.deploy(ctx, object{"text": text})
			for reader, properties := range readBy(b.Manifest) {
				expectText(properties["text"].(string), text, reader)
			}
		}
	})

	It("keep all digits of numbers", func(ctx context.Context) {
		numbers := `[1e6,10240000000,9007199254740993,-9007199254740993,18446744073709551615,0.1,5.0]`
		written := []string{
			"1000000", "10240000000", "9007199254740993", "-9007199254740993", "18446744073709551615",
			"0.1", "5",
		}
		for i, number := range strings.Split(strings.Trim(numbers, "[]"), ",") {
			b.deploy(ctx, object{"number": json.Number(number), "tree": json.RawMessage(numbers)})
			for reader, properties := range readBy(b.Manifest) {
				Expect(canonical(properties["number"])).To(Equal(written[i]), reader)
				Expect(canonical(properties["tree"])).To(Equal("["+strings.Join(written, ",")+"]"), reader)
			}
			expectSame(b.Manifest, b.call(ctx, generateManifest, b.Generate(object{})))
		}
		got := credentials(b.bind(ctx, "bind-1",
			object{"number": json.Number("9007199254740993"), "tree": json.RawMessage(numbers)}))
		Expect(got["echo"].(object)["number"]).To(Equal(json.Number("9007199254740993")))
		Expect(canonical(got["echo"].(object)["tree"])).To(Equal("[" + strings.Join(written, ",") + "]"))
	})

	// request returns a body with the JSON of parameters that an encoder would not write.
	request := func(parameters string) string {
		body := b.body(nil)
		delete(body, "parameters")
		return strings.TrimSuffix(encode(body), "}") + `,"parameters":` + parameters + "}"
	}

	DescribeTable("that a manifest cannot contain are rejected with a message for the user:",
		func(ctx context.Context, parameters, message string) {
			generate := b.Generate(nil)
			generate["request_parameters"] = request(parameters)
			expectRefused(b.call(ctx, generateManifest, generate), message)
		},
		Entry("a reference", `{"text":"((/odb/other))"}`, `parameter "text" must not contain "(("`),
		Entry("half of a reference", `{"text":"(("}`, `parameter "text" must not contain "(("`),
		Entry("a reference in a list", `{"tree":[["((x))"]]}`, `parameter "tree" must not contain "(("`),
		Entry("a reference in a key", `{"tree":{"((x))":1}}`, `parameter "tree" must not contain "(("`),
		Entry("an encoded reference", `{"text":"\u0028\u0028x))"}`, `parameter "text" must not contain "(("`),
		Entry("a reference in characters that the adapter itself uses",
			`{"text":"\ue0f0\ue0f0admin_password\ue0f1\ue0f1"}`,
			`"text" must not contain`),
		Entry("the key that merges mappings", `{"tree":[{"<<":1}]}`, `"tree" must not have the key "<<"`),
		Entry("an integer beyond 64 bits", `{"number":123456789012345678901234567890}`, "is too large"),
	)

	DescribeTable("are rejected with a message for the user:", func(ctx context.Context, parameters, message string) {
		generate := b.Generate(nil)
		generate["request_parameters"] = request(parameters)
		expectRefused(b.call(ctx, generateManifest, generate), message)
		b.deploy(ctx, nil)
		bind := b.Bind("bind-1", nil)
		bind["request_parameters"] = request(parameters)
		expectRefused(b.call(ctx, createBinding, bind), message)
		b.site.expectNothingLeft()
	},
		Entry("a number beyond every range", `{"number":1e400}`, "is too large"),
		Entry("101 levels of nesting",
			`{"tree":`+nested(102)+`}`, `parameter "tree" is nested more than 100 levels deep`),
		Entry("20000 levels of nesting", `{"tree":`+nested(20000)+`}`, "nested"),
		Entry("a long undeclared name", `{"`+strings.Repeat("x", 5000)+`":1}`, "is not supported"),
		Entry("an undeclared name with newlines", `{"a\nb":1}`, "is not supported"),
	)

	It("may be nested 50 levels deep", func(ctx context.Context) {
		b.deploy(ctx, object{"tree": json.RawMessage(nested(50))})
		for reader, properties := range readBy(b.Manifest) {
			Expect(canonical(properties["tree"])).To(Equal(nested(50)), reader)
		}
		echo := credentials(b.bind(ctx, "bind-1", object{"tree": json.RawMessage(nested(50))}))["echo"].(object)
		Expect(canonical(echo["tree"])).To(Equal(nested(50)))
	})

	DescribeTable("cannot address another directory with the id of a binding:", func(ctx context.Context, id string) {
		b := newRedisBroker(newSite("redis"))
		b.deploy(ctx, nil)
		before := list(b.site.dir)
		Expect(credentials(b.bind(ctx, id, nil))).To(HaveKey("uri"))
		Expect(b.bind(ctx, id, nil).Exit).To(Equal(49))
		Expect(b.unbind(ctx, id).Exit).To(Equal(0))
		Expect(b.unbind(ctx, id).Exit).To(Equal(41))
		b.site.expectNothingLeft()
		Expect(list(b.site.dir)).To(ConsistOf(append(before, "cache", "state")))
	},
		Entry("a path", "../../../up"), Entry("an option", "-force"),
		Entry("a long text", strings.Repeat("two words\n😀", 500)),
	)
})
