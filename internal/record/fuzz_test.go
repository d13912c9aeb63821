package record_test

import (
	"strings"
	"testing"

	"service-adapter/internal/record"
)

func FuzzFromManifest(f *testing.F) {
	encoded := strings.ReplaceAll(full().Encode(), "'", "''")
	for _, seed := range []string{
		"", "name: x\n", "name: x\nbrokerpak: '" + encoded + "'\n", "brokerpak: '" + encoded + "'\nname: [",
		"brokerpak: {a: b}",
		"x: |\n  brokerpak: '{}'\n", "brokerpak: &a\n  <<: *a",
		"brokerpak: '{\"format\":1,\"parameters\":{\"a\":1e400}}'",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, manifest []byte) {
		r, err := record.FromManifest(string(manifest))
		if (r == nil) && err == nil {
			return
		}
		if (r == nil) == (err == nil) {
			t.Fatalf("got %+v and %v", r, err)
		}
		if err != nil {
			return
		}
		expectSame(t, r.Encode(), record.Decode)
	})
}

// expectSame asserts that an encoded text contains nothing that BOSH replaces in a manifest, and that it is decoded
// unchanged.
func expectSame[T interface{ Encode() string }](t *testing.T, text string, decode func(string) (T, error)) {
	t.Helper()
	if text == "null" {
		return // an infinite number, which is rejected before it is recorded
	}
	if strings.Contains(text, "(") {
		t.Errorf("%q holds a parenthesis", text)
	}
	again, err := decode(text)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	if got := again.Encode(); got != text {
		t.Errorf("%q comes back as %q", text, got)
	}
}

func FuzzIntent(f *testing.F) {
	intent := record.Intent{
		Instance: record.Instance{InstanceID: "i", Service: "s"}, Inputs: map[string]any{
			"a": int64(1),
			"b": "((x))",
		}, EvaluatedByErrand: []string{"c"},
		Constants: map[string]any{"request.instance_id": "i"}, Versions: record.Versions{Pak: "p", Template: "t"},
	}
	for _, seed := range []string{
		intent.Encode(), "", "{}",
		`{"format":1,"instance_id":"i","service":"s","inputs":{"a":1e400}}`, `{"format":2}`, "[]",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		i, err := record.DecodeIntent(text)
		if (i == nil) == (err == nil) {
			t.Fatalf("got %+v and %v", i, err)
		}
		if err != nil {
			return
		}
		expectSame(t, i.Encode(), record.DecodeIntent)
	})
}
