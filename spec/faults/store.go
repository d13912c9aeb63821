package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"service-adapter/spec/kit/servers"
)

// object is a JSON object.
type object = map[string]any

// The kinds of state backends in OpenTofu's notation.
const (
	local = "local"
	pg    = "pg"
	s3    = "s3"
)

// s3Key is the name of each state in s3, below the name of its workspace.
const s3Key = "state"

// A store is a state backend that trials share. Each workspace belongs to one trial.
type store struct {
	kind     string
	server   *servers.Server // nil for local
	location string          // the directory, the database or the bucket
	warm     string          // a cache with prepared directories, "" before they exist
}

// open starts the server of the backend and creates its directory, database or bucket.
func (s *store) open(ctx context.Context, dir string) (err error) {
	s.server, err = openServer(ctx, s.kind, filepath.Join(dir, "server-"+s.kind))
	switch {
	case err != nil:
		return err
	case s.kind == pg:
		return s.server.CreateDatabase(ctx, s.location)
	case s.kind == s3:
		return s.server.CreateBucket(s.location)
	default:
		s.location = filepath.Join(dir, "states")
		return nil
	}
}

// close stops the server of the backend.
func (s *store) close() {
	if s.server != nil {
		_ = s.server.Kill() // it would end with this process anyway
	}
}

// config returns the value of the configuration's key `state`.
func (s *store) config() object {
	switch s.kind {
	case pg:
		return object{"type": pg, "config": object{"conn_str": s.server.DSN(s.location)}}
	case s3:
		return object{"type": s3, "config": object{
			"bucket": s.location, "key": s3Key, "region": "us-east-1", "access_key": s.server.User,
			"secret_key": s.server.Password,
			"endpoints":  object{"s3": s.server.URL()}, "use_path_style": true, "skip_credentials_validation": true,
			"skip_requesting_account_id": true, "skip_region_validation": true, "skip_metadata_api_check": true,
			"max_retries": 1,
		}}
	default:
		return object{"type": local, "config": object{"dir": s.location}}
	}
}

// file returns the path of a workspace's state, in the directory of the backend local or of the S3 server.
func (s *store) file(workspace string) string {
	if s.kind == s3 {
		return filepath.Join(s.server.Dir, "buckets", s.location, "env:", workspace, s3Key)
	}
	return filepath.Join(s.location, "workspaces", workspace, "terraform.tfstate")
}

// read returns the state of a workspace, "" if there is none. It returns an error if the backend cannot be read.
func (s *store) read(ctx context.Context, workspace string) (string, error) {
	if s.kind == pg {
		rows, err := s.server.Query(ctx, s.location,
			"SELECT data FROM terraform_remote_state.states WHERE name = '"+workspace+"'")
		return strings.Join(rows, "\n"), err
	}
	text, err := os.ReadFile(s.file(workspace))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return string(text), err
}

// write replaces the state of a workspace that exists. It returns an error if the backend cannot be written.
func (s *store) write(ctx context.Context, workspace, text string) error {
	if s.kind == pg {
		_, err := s.server.Query(ctx, s.location,
			"UPDATE terraform_remote_state.states SET data = $text$"+text+"$text$ WHERE name = '"+workspace+"'")
		return err
	}
	return errors.Join(s.forgetChecksum(s.file(workspace)), os.WriteFile(s.file(workspace), []byte(text), 0o600))
}

// remove deletes the state of a workspace. It does nothing if there is no state, and returns an error if the backend
// cannot be written.
func (s *store) remove(ctx context.Context, workspace string) error {
	switch s.kind {
	case pg:
		_, err := s.server.Query(ctx, s.location,
			"DELETE FROM terraform_remote_state.states WHERE name = '"+workspace+"'")
		return err
	case s3:
		err := os.Remove(s.file(workspace)) // a lock is kept
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	default:
		return os.RemoveAll(filepath.Dir(s.file(workspace)))
	}
}

// forgetChecksum removes the metadata of a file from the S3 server, because it contains a checksum of the content.
func (s *store) forgetChecksum(file string) error {
	if s.kind != s3 {
		return nil
	}
	object, err := filepath.Rel(filepath.Join(s.server.Dir, "buckets"), file)
	if err != nil {
		return err
	}
	return os.RemoveAll(filepath.Join(s.server.Dir, "metadata", object))
}

// ageLock dates the lock that a killed machine left in s3 to yesterday, so that a trial does not wait ten minutes for
// it.
func (s *store) ageLock(workspace string) error {
	path := s.file(workspace) + ".tflock"
	text, err := os.ReadFile(path)
	if s.kind != s3 || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var info object
	if err = errors.Join(err, json.Unmarshal(text, &info)); err != nil {
		return fmt.Errorf("reading the lock of %s: %w", workspace, err)
	}
	info["Created"] = time.Now().Add(-24 * time.Hour)
	text, err = json.Marshal(info)
	return errors.Join(err, s.forgetChecksum(path), os.WriteFile(path, text, 0o600))
}

// takenOver returns a state as another run leaves it after it has taken over the workspace: with another nonce, and
// with the resources if resources is true. It returns an error if the text is not a state with a guard.
func takenOver(text, nonce string, resources bool) (string, error) {
	var state object
	if err := json.Unmarshal([]byte(text), &state); err != nil {
		return "", fmt.Errorf("reading a state: %w", err)
	}
	all, _ := state["resources"].([]any)
	var guard object
	for _, one := range all {
		if resource, ok := one.(object); ok && resource["name"] == "_binding" {
			guard = resource
		}
	}
	instances, _ := guard["instances"].([]any)
	if len(instances) != 1 {
		return "", errors.New("a state has no guard")
	}
	instance, _ := instances[0].(object)
	attributes, _ := instance["attributes"].(object)
	attributes["triggers_replace"] = object{"value": nonce, "type": "string"}
	if !resources {
		state["resources"], state["outputs"] = []any{guard}, object{}
	}
	serial, _ := state["serial"].(float64)
	state["serial"] = serial + 1
	changed, err := json.Marshal(state)
	return string(changed), err
}
