// Package recording keeps recordings of the latest requests of the broker, with their secrets masked, so that they can
// be replayed.
package recording

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"
	"gopkg.in/yaml.v3"

	"service-adapter/adapter/input"
	"service-adapter/internal/privatefs"
	"service-adapter/internal/record"
	"service-adapter/internal/redact"
	"service-adapter/internal/value"
	"service-adapter/internal/yamltree"
)

// Bounds of the recordings: the number of recordings that are kept, and the maximum size of one in bytes.
const (
	maxRecordings = 200
	maxRecording  = 8 << 20
)

// A Recording is a recorded request of the broker: the time in RFC 3339 format, the command such as "create-binding",
// the input with its secrets masked, and the names of the fields that are left out of the input. A field is left out,
// and is "" or "null" in the input, if it could not be parsed, has no structure by which secrets can be recognised,
// or could not be masked in time. The JSON of a Recording is the format of the files that Write creates and Read
// reads. The zero value is not a request.
type Recording struct {
	Time    string                     `json:"time"`
	Command string                     `json:"command"`
	Input   serviceadapter.InputParams `json:"input"`
	// Withheld contains the names of the input's fields that are left out, because they could not be parsed, have no
	// structure by which secrets can be recognised, or could not be masked in time.
	Withheld []string `json:"withheld,omitempty"`
}

// Write stores a request in a new JSON file in the directory dir, which it creates if necessary, and then deletes the
// oldest recordings, so that at most 200 (maxRecordings) are kept. Only the owner may read the file and a directory
// that Write creates.
//
// command is the name of the broker's command, and params is its input, which is not changed. In the file, the texts in
// secrets and values that are recognised as secrets are masked. A field that cannot be parsed, or cannot be masked
// before ctx ends, is left out and named in the recording; that is not an error. secrets may be nil.
//
// Write returns an error and creates no file if the input is larger than 8 MB (maxRecording) as JSON, or if the
// directory cannot be created. If the file cannot be written, an incomplete file may remain. If the directory cannot be
// read or an old recording cannot be deleted, Write returns an error although the new file is complete.
func Write(
	ctx context.Context, dir, command string, params serviceadapter.InputParams, secrets *redact.Secrets,
) error {
	now := time.Now().UTC()
	recorded := Recording{Time: now.Format(time.RFC3339Nano), Command: command}
	var err error
	if recorded.Input, recorded.Withheld, err = maskInput(ctx, secrets, params); err != nil {
		return err
	}
	text, err := json.MarshalIndent(recorded, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	name := fmt.Sprintf("%s-%s-%d.json", now.Format("20060102T150405.000000000Z"), command, os.Getpid())
	if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
		return err
	}
	return dropOldRecordings(dir)
}

// maskInput returns a copy of the broker's input in which secrets are masked, and the names of the fields that are left
// out, because they cannot be parsed, are neither a mapping nor a list by which secrets can be recognised, or cannot be
// masked before ctx ends; see maskField. These fields are "" or "null" in the copy; withheld is nil if there are none.
// The structure of the documents in the fields is kept, so that they can be replayed. params is not changed. secrets
// are the values that are known to be secret. It may be nil; then only values that the documents themselves show to be
// secret, for example by their keys, are masked. maskInput returns an error if the input is larger than 8 MB
// (maxRecording) as JSON, or cannot be encoded as JSON; the copy must not be used then.
func maskInput(
	ctx context.Context, secrets *redact.Secrets, params serviceadapter.InputParams,
) (clean serviceadapter.InputParams, withheld []string, err error) {
	commands := map[string]map[string]string{}
	text, err := json.Marshal(params)
	if err == nil {
		err = json.Unmarshal(text, &commands)
	}
	if err == nil && len(text) > maxRecording {
		err = fmt.Errorf("the request has %d bytes; only up to %d are recorded", len(text), maxRecording)
	}
	if err != nil {
		return clean, nil, err
	}
	for _, fields := range commands {
		for _, name := range value.Keys(fields) {
			document, err := maskField(ctx, secrets, name, fields[name])
			if err != nil {
				withheld = append(withheld, name)
			}
			fields[name] = document
		}
	}
	return clean, withheld, json.Unmarshal(value.MustJSON(commands), &clean)
}

// maskField returns text, the value of the input's field called name, with its secrets masked. secrets are the values
// that are known to be secret, and may be nil. The form of the field depends on the name:
//   - binding_id and instance_id: a text that is masked as it is.
//   - manifest and previous_manifest: a manifest in YAML; see maskManifest. An empty or null manifest becomes "".
//   - previous_configs: a JSON object whose values are configs of BOSH in YAML, each of which is masked like a
//     manifest.
//   - secrets and previous_secrets: a JSON document in which all texts and numbers are masked, with the exceptions that
//     redact.Secrets.Document makes for a secret document.
//   - Any other name: a JSON document in which the values that are recognised as secrets are masked.
//
// The texts "" and "null" of a JSON field are returned unchanged.
//
// maskField returns an error if the text, or the adapter's record in a manifest, cannot be parsed, if a JSON field is a
// JSON string, if a manifest or config is neither a mapping nor empty, or if ctx ends. The result is "" or "null" then,
// and the caller must report the field as left out.
func maskField(ctx context.Context, secrets *redact.Secrets, name, text string) (string, error) {
	switch name {
	case "binding_id", "instance_id":
		return secrets.Mask(ctx, text)
	case "manifest", "previous_manifest":
		return maskManifest(ctx, secrets, text)
	}
	if text == "" || text == "null" {
		return text, nil
	}
	document, err := value.DecodeJSON([]byte(text))
	if err != nil {
		return "", err
	}
	// each type of config is a YAML text
	if configs, ok := document.(map[string]any); ok && name == "previous_configs" {
		for kind, config := range configs {
			if configs[kind], err = maskManifest(ctx, secrets, value.Text(config)); err != nil {
				return "", err
			}
		}
		return string(value.MustJSON(configs)), nil
	}
	if _, isText := document.(string); isText {
		return "", errUnstructured
	}
	masked, err := secrets.Document(ctx, document, name == "secrets" || name == "previous_secrets")
	return string(value.MustJSON(masked)), err
}

// errUnstructured reports that a text has no structure by which it can be masked.
var errUnstructured = errors.New("its content has no structure, so its secrets cannot be masked")

// maskManifest returns text, a manifest or config of BOSH in YAML, with its secrets masked, also those in the adapter's
// record in a manifest; see maskRecord. Comments and the layout of the text are lost. An empty or null document results
// in "" without an error. maskManifest returns "" and errUnstructured if the document is not a mapping, and "" and
// another error if the text or the record cannot be parsed, or if ctx ends.
func maskManifest(ctx context.Context, secrets *redact.Secrets, text string) (string, error) {
	var document any
	if err := yaml.Unmarshal([]byte(text), &document); err != nil || document == nil {
		return "", err
	}
	tree, ok := value.Normalise(document).(map[string]any)
	if !ok {
		return "", errUnstructured
	}
	masked, err := secrets.Document(ctx, tree, false)
	if err != nil {
		return "", err
	}
	if text, ok := tree[record.Key].(string); ok {
		//nolint:forcetypeassert // Document keeps the type
		if masked.(map[string]any)[record.Key], err = maskRecord(ctx, secrets, text); err != nil {
			return "", err
		}
	}
	encoded, err := yamltree.Encode(masked)
	return string(encoded), err
}

// maskRecord returns the adapter's record in a manifest with its secrets masked. text and the result are the encoded
// form of the record. All recorded values of secrets are masked. Of the recorded results of functions such as
// rand.base64, all texts are replaced by redact.Mask. Counters and times are kept, because a replay needs them, and
// so are the names of secret parameters and of the secrets that hold their values. In the rest of the record, the
// values that are recognised as secrets are masked. maskRecord returns "" and an error if the record cannot be
// decoded, before or after masking, or if ctx ends.
func maskRecord(ctx context.Context, secrets *redact.Secrets, text string) (string, error) {
	stored, err := record.Decode(text)
	if err != nil {
		return "", err
	}
	generated, recorded, names := stored.Generated, stored.Secrets, stored.SecretParameters
	stored.Generated, stored.Secrets, stored.SecretParameters = nil, nil, nil
	masked, err := secrets.Document(ctx, stored.Encode(), false)
	if err != nil {
		return "", err
	}
	if stored, err = record.Decode(value.Text(masked)); err != nil {
		return "", err
	}
	for name, secret := range recorded {
		if secret.Value, err = secrets.Document(ctx, secret.Value, true); err != nil {
			return "", err
		}
		recorded[name] = secret
	}
	for _, calls := range generated {
		for call, item := range calls {
			if _, isText := item.(string); isText { // all others are counters and times
				calls[call] = redact.Mask
			}
		}
	}
	stored.Generated, stored.Secrets, stored.SecretParameters = generated, recorded, names
	return stored.Encode(), nil
}

// dropOldRecordings deletes all recordings in the directory dir except the newest 200 (maxRecordings). Recordings are
// the files whose names match *Z-*.json, such as "20261121T101500.000000000Z-create-binding-42.json"; their order is
// that of the names, which begin with the time. Other files are kept. A recording that another process deletes at the
// same time is not an error. dropOldRecordings returns an error if the directory cannot be read, and else an error that
// lists all recordings that cannot be deleted, or nil.
func dropOldRecordings(dir string) error {
	entries, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return err
	}
	entries = slices.DeleteFunc(entries, func(entry os.DirEntry) bool {
		_, rest, found := strings.Cut(entry.Name(), "Z-")
		return !found || !strings.HasSuffix(rest, ".json")
	})
	var failed []error
	for _, entry := range entries[:max(0, len(entries)-maxRecordings)] {
		failed = append(failed, privatefs.Remove(filepath.Join(dir, entry.Name())))
	}
	return errors.Join(failed...)
}

// Read returns the recording in a file that Write created. file is its path, absolute or relative to the working
// directory. Read returns nil and an error if the file cannot be read, if it is not JSON or not a recording of a
// command of the broker's protocol, or if a field of the input was left out, because such a request cannot be replayed.
func Read(file string) (*Recording, error) {
	text, err := os.ReadFile(file) //nolint:gosec // the user names the file
	if err != nil {
		return nil, fmt.Errorf("reading the recording: %w", err)
	}
	var recorded Recording
	if err := json.Unmarshal(text, &recorded); err != nil || !slices.Contains(input.Commands(), recorded.Command) {
		return nil, fmt.Errorf("reading the recording %s: record_requests did not write it", file)
	}
	if len(recorded.Withheld) > 0 {
		return nil, fmt.Errorf("replaying the recording %s: it lacks %s, which could not be parsed or masked", file,
			strings.Join(recorded.Withheld, " and "))
	}
	return &recorded, nil
}
