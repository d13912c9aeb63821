package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"service-adapter/internal/engine/lifecycle"
)

// interrupt implements the command interrupt of TestDirector. It replaces the digest in a state that marks the last
// change as complete.
func interrupt(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: interrupt STATE")
	}
	file := ts.MkAbs(args[0])
	text, err := os.ReadFile(file)
	ts.Check(err)
	changed := regexp.MustCompile(`"[0-9a-f]{64}"`).ReplaceAll(text, []byte(`"`+strings.Repeat("0", 64)+`"`))
	if string(changed) == string(text) {
		ts.Fatalf("%s contains no digest of a complete change", args[0])
	}
	ts.Check(os.WriteFile(file, changed, 0o600))
}

// backdate implements the command backdate of TestScripts. It changes the time of creation in the record of a state,
// and the digest of the record that marks the last change as complete.
func backdate(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: backdate STATE AGE")
	}
	field := ""
	if args[1] != "unknown" {
		age, err := time.ParseDuration(args[1])
		ts.Check(err)
		field = `"created_at":"` + lifecycle.FormatTime(time.Now().Add(-age)) + `",`
	}
	file := ts.MkAbs(args[0])
	text, err := os.ReadFile(file)
	ts.Check(err)
	var state struct {
		Resources []struct {
			Instances []struct {
				Attributes struct {
					Input struct{ Value any } `json:"input"`
				} `json:"attributes"`
			} `json:"instances"`
		} `json:"resources"`
	}
	ts.Check(json.Unmarshal(text, &state))
	for _, resource := range state.Resources {
		guard, _ := resource.Instances[0].Attributes.Input.Value.(map[string]any)
		if record, ok := guard["record"].(string); ok {
			changed := regexp.MustCompile(`"created_at":"[^"]*",`).ReplaceAllString(record, "")
			changed = strings.Replace(changed, "{", "{"+field, 1)
			text = bytes.ReplaceAll(text, quoted(record), quoted(changed))
			text = bytes.ReplaceAll(text, digest(record), digest(changed))
		}
	}
	ts.Check(os.WriteFile(file, text, 0o600))
}

// quoted returns a text as the content of a JSON string, without the quotes, with the escapes that OpenTofu and the
// adapter use.
func quoted(text string) []byte {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // a text can always be encoded
	return bytes.TrimSuffix(bytes.TrimSpace(out.Bytes())[1:], []byte(`"`))
}

// digest returns the digest of a record that marks its last change as complete in a state.
func digest(record string) []byte {
	sum := sha256.Sum256([]byte(record))
	return []byte(hex.EncodeToString(sum[:]))
}
