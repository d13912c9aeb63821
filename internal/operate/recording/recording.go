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

// A Recording is a recorded request: the command and the input of the broker, with the secrets masked. Its JSON is the
// format of the files that Write writes and Read reads.
type Recording struct {
	Time    string                     `json:"time"`
	Command string                     `json:"command"`
	Input   serviceadapter.InputParams `json:"input"`
	// Withheld contains the names of the input's fields that are left out because they could not be parsed, or not be
	// masked in time.
	Withheld []string `json:"withheld,omitempty"`
}

// Write writes a request, the command of the broker with its input params, to a new file in dir, which it creates if
// necessary, and deletes the oldest recordings, so that at most maxRecordings are kept. Only the owner may read the
// file. secrets masks the input. A field that cannot be parsed, or not be masked before ctx ends, is left out and named
// in the recording. Write returns an error if the input is larger than maxRecording, or if a file cannot be written or
// deleted.
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

// maskInput returns a copy of the input with its secrets masked, and the names of the fields that it had to withhold,
// which are "" in the copy; withheld is nil if there are none. The structure of the documents is kept, so that they can
// be replayed. It returns an error if the input is larger than maxRecording bytes as JSON.
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

// maskField masks a field of the input: an id, a manifest or JSON. name is that of the field. In the fields secrets and
// previous_secrets, all values are masked, and elsewhere those that are recognised as secrets. Of a JSON field, the
// texts "" and "null" are returned unchanged. maskField returns an error if the text cannot be parsed, if it is a JSON
// string, or if ctx ends; the field must be withheld then.
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
var errUnstructured = errors.New("it is no document")

// maskManifest masks a manifest or config of BOSH in YAML, including the record in it. An empty document is returned as
// "". The error is errUnstructured if the document is not a mapping; it is another one if the text or the record cannot
// be parsed, or if ctx ends.
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

// maskRecord masks the record in a manifest, of which text is the encoded form. It does not mask names and counters at
// the keys of secrets: the names of the secrets that contain a parameter, and the counters and times by which a
// generated secret is rotated. A generated value that is a text is replaced as a whole. maskRecord returns an error if
// the record cannot be decoded or ctx ends.
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

// dropOldRecordings deletes all recordings in dir but the newest maxRecordings. Their names begin with the time. The
// error lists all files that cannot be deleted.
func dropOldRecordings(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*Z-*.json"))
	if err != nil {
		return err
	}
	slices.Sort(files)
	var failed []error
	for _, file := range files[:max(0, len(files)-maxRecordings)] {
		failed = append(failed, os.Remove(file))
	}
	return errors.Join(failed...)
}

// Read returns the recording in a file, which the user names. It returns an error if the file cannot be read, if it is
// not a recording of a protocol command, or if the recording withholds a field, because it cannot be replayed then.
func Read(file string) (*Recording, error) {
	text, err := os.ReadFile(file) //nolint:gosec // the user names the file
	if err != nil {
		return nil, fmt.Errorf("reading the recording: %w", err)
	}
	var recorded Recording
	if err := json.Unmarshal(text, &recorded); err != nil || !slices.Contains(input.Commands(), recorded.Command) {
		return nil, fmt.Errorf("reading the recording %s: record_requests did not make it", file)
	}
	if len(recorded.Withheld) > 0 {
		return nil, fmt.Errorf("playing the recording %s: it withholds %s, which could not be parsed or masked", file,
			strings.Join(recorded.Withheld, " and "))
	}
	return &recorded, nil
}
