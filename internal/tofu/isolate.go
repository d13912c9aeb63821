package tofu

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path"
)

// chosenBackend is the file of the data directory in which "tofu init" notes the backend and its settings. The hash in it is that of the
// backend block in the configuration, which is empty; other commands believe the settings as long as the hash is the same.
const chosenBackend = "terraform.tfstate"

// alone tells whether runs see the workspace as the default one of a backend in which nothing else is. With s3 OpenTofu lists all objects
// of all workspaces whenever it uses any but that, and makes the state of one that it only looks for. A template that asks for the name of
// the workspace gets it.
func (s *session) alone(p *Prepared, in place) bool {
	return s.engine.options.Backend.Type == s3Type && !p.AsksWorkspace && in != outsidePlace && in != namedPlace
}

// isolate changes a link to the note of the backend s3 into a note of its own, with which the default workspace is the one of this name.
// The state is the object PREFIX/NAME/KEY either way, and so are its lock and its digest.
func isolate(note, name string) error {
	text, err := os.ReadFile(note) //nolint:gosec // in the scratch directory
	if err != nil {
		return err
	}
	var noted map[string]any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&noted); err != nil {
		return fmt.Errorf("reading the settings that OpenTofu noted: %w", err)
	}
	backend, _ := noted["backend"].(object)
	config, _ := backend["config"].(object)
	key, _ := config["key"].(string)
	if backend["type"] != s3Type || key == "" {
		return fmt.Errorf("OpenTofu did not note the settings of the backend %s as the tested versions do", s3Type)
	}
	prefix, chosen := config["workspace_key_prefix"].(string)
	if !chosen {
		prefix = "env:"
	}
	config["key"], config["workspace_key_prefix"] = path.Join(prefix, name, key), path.Join(prefix, name)
	if text, err = json.Marshal(noted); err != nil {
		return err
	}
	return writeFile(note, text)
}
