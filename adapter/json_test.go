package adapter_test

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/adapter"
)

// FuzzEncode holds the output that is written without the library against the library's.
func FuzzEncode(f *testing.F) {
	for _, text := range []string{
		"", "a", "name: x\n", "\"quoted\" \\ <&>\n", "a\tb", "\x00", "\x1f", "\x7f", "ä ö", "12345678\"", "1234567\x80", "\xff", "\xe2\x80", "\u2028",
		"a\u2029b", "\ufffd", "\U0001f600", "12345678ä12345678\n", "{{{{{{{{", "!!!!!!!!", "########", "        ", "[[[[[[[[]]]]]]]]",
	} {
		f.Add(text, "password", text)
	}
	f.Fuzz(func(t *testing.T, manifest, name, secret string) {
		for _, result := range []serviceadapter.MarshalledGenerateManifest{
			{Manifest: manifest},
			{
				Manifest: manifest + secret + manifest, ODBManagedSecrets: map[string]any{name: secret}, Configs: map[string]string{name: manifest},
				Labels: map[string]any{name: secret},
			},
		} {
			got, want, err := adapter.Encode(&result)
			if err != nil || string(got) != string(want) {
				t.Errorf("got %q\nwant %q, %v", got, want, err)
			}
		}
	})
}

// FuzzStringLeaves holds the input that is read without the library against the library's.
func FuzzStringLeaves(f *testing.F) {
	for _, text := range []string{
		"", "{}", "null", `{"a":{}}`, `{"a":null}`, `{"a":{"b":null}}`, `{"a":{"b":"c"}}`, " {\t\"a\" :\r\n{ \"b\" : \"c\" , \"d\":\"\" } , \"e\":{} } ",
		`{"a":{"b":"c","b":"d"}}`, `{"a":{"b":"c"},"a":{"d":"e"}}`, `{"a":{"b":"c",}}`, `{"a":{"b":"c"},}`, `{"a":{,}}`, `{"a":{"b" "c"}}`, `{"a":{"b":"c"}} x`,
		`{"a":{"b":"c"}}{}`, `{"a":{"b":"\"\\\/\b\f\n\r\t"}}`, `{"a":{"b":"\u00e4\u0000\uFfFf"}}`, `{"a":{"b":"\ud83d\ude00\ud83d"}}`, `{"a":{"b":"\u+123"}}`,
		`{"a":{"b":"\x"}}`, `{"a":{"b":"\u12"}}`, "{\"a\":{\"b\":\"\n\"}}", "{\"a\":{\"b\":\"\xff\"}}", "{\"a\":{\"b\":\"\u2028 \u00e4 12345678\"}}", `{"a":{"b\n":"c\\"}}`,
		`{"a":{"b":"c\\\"d\\\\"}}`, `{"a":{"b":"c`, `{"a":{"b":"c\`, `{"a":{"b":5}}`, `{"a":"b"}`, `["a"]`, `{"A":{"b":"c"},"a":{"B":"c"}}`, `{"\u0061":{"b":"c"}}`,
		"\ufeff{}", "{\"a\":{\"b\":\"12345678\x1f\"}}", "{\"a\":{\"b\":\"\x7f\"}}",
	} {
		f.Add([]byte(text), "a")
	}
	f.Fuzz(func(t *testing.T, data []byte, key string) {
		got, ok := adapter.StringLeaves(key, data)
		if !ok {
			return
		}
		var commands map[string]map[string]*string
		if err := json.Unmarshal(data, &commands); err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		want := map[string]string{}
		for name, text := range commands[key] {
			if text == nil {
				t.Fatalf("%q: %q is null", data, name)
			}
			want[name] = *text
		}
		if !maps.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", data, got, want)
		}
	})
}
