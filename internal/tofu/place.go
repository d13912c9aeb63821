package tofu

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"service-adapter/internal/opentofu"
	"service-adapter/internal/opentofu/provider"
)

// place is where a command runs, a directory of the scratch directory. Runs that change the state have directories of their
// own, because they may leave an errored.tfstate.
type place string

// The places.
const (
	readPlace    place = "look"    // commands that do not change resources
	unlockPlace  place = "unlock"  // the same, while another place is in use, and without waiting for the lock
	outsidePlace place = "outside" // the same, in the default workspace
	namedPlace   place = "named"   // the same, never alone: OpenTofu makes the workspace where there is none
	reservePlace place = "base"
	applyPlace   place = applyVariant
	destroyPlace place = destroyVariant
)

// works tells whether what runs there uses providers.
func (p place) works() bool { return p == applyPlace || p == destroyPlace }

// variant is the part of a prepared directory that a place links to.
func (p place) variant() string {
	if p == destroyPlace {
		return destroyVariant
	}
	return applyVariant
}

// link makes a working directory of symlinks to a prepared variant, with a data directory of its own, which runs need for themselves.
func link(from, to string) error {
	if err := errors.Join(os.RemoveAll(to), os.MkdirAll(filepath.Join(to, dataDir), 0o700)); err != nil {
		return err
	}
	for _, in := range []string{"", dataDir} {
		entries, err := os.ReadDir(filepath.Join(from, in))
		for _, entry := range entries {
			if name := filepath.Join(in, entry.Name()); name != dataDir {
				err = errors.Join(err, os.Symlink(filepath.Join(from, name), filepath.Join(to, name)))
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// serving is the providers that run for one place of a workspace.
type serving struct {
	*provider.Group
	prepared *Prepared
	in       place
}

// StartProviders starts the providers of a template for an Apply that follows, so that they are ready when a reservation is made. It
// does not wait for them. Whatever goes wrong is left to that Apply.
func (s *session) StartProviders(ctx context.Context, p *Prepared) {
	// A state that was not saved lies where the providers would run.
	if unsaved, err := s.unsaved(); err != nil || unsaved != "" {
		return
	}
	if err := s.enter(ctx, p, applyPlace); err != nil {
		s.engine.logger.Debug("starting providers", "workspace", s.name, "error", err)
	}
}

// enter makes the directory of a place, and starts the providers that run there. Those of another place, and of another template, end.
func (s *session) enter(ctx context.Context, p *Prepared, in place) error {
	works := in.works()
	if s := s.serving; works && s != nil && s.in == in && s.prepared.dir == p.dir && s.prepared.installation.Binary == p.installation.Binary {
		return nil // The directory is theirs, and as the run before left it.
	}
	if works {
		s.stopProviders()
	}
	dir := filepath.Join(s.dir, string(in))
	if err := link(filepath.Join(p.dir, in.variant()), dir); err != nil {
		return err
	}
	if s.alone(p, in) {
		if err := isolate(filepath.Join(dir, dataDir, chosenBackend), s.name); err != nil {
			return fmt.Errorf("choosing the workspace: %w", err)
		}
	}
	if !works || len(p.Shared) == 0 {
		return nil
	}
	env, err := s.environment(!s.alone(p, in))
	if err != nil {
		return err
	}
	group, err := provider.Start(ctx, p.Shared, provider.Options{
		Dir: dir, Env: s.engine.runner.Environment(p.installation, env), Output: filepath.Join(s.dir, "provider-"), Lock: s.lock,
		Logger: s.engine.logger.With("workspace", s.name),
	})
	if err != nil {
		return err
	}
	s.serving = &serving{Group: group, prepared: p, in: in}
	return nil
}

// attach waits for the providers of a place and tells OpenTofu about them. The lease knows them from then on.
func (s *session) attach(in place, c *opentofu.Command) error {
	if s.serving == nil || s.serving.in != in {
		return nil
	}
	variable, leaders, err := s.serving.Reattach()
	if err != nil || variable == "" {
		return err
	}
	c.Env[provider.ReattachVariable], c.Lifeline = variable, s.serving.Lifeline
	if err := s.lease.serves(leaders); err != nil {
		return fmt.Errorf("recording providers: %w", err)
	}
	return nil
}

// stopProviders ends the providers that run.
func (s *session) stopProviders() {
	if s.serving != nil {
		s.serving.Stop()
		s.serving = nil
	}
}

// chosenBackend is the file of the data directory in which "tofu init" notes the backend and its settings. The hash in it is that of the
// backend block in the configuration, which is empty; other commands believe the settings as long as the hash is the same.
const chosenBackend = "terraform.tfstate"

// alone tells whether runs see the workspace as the default one of a backend in which nothing else is. With s3 OpenTofu lists all objects
// of all workspaces whenever it uses any but that, and makes the state of one that it only looks for. A template that asks for the name of
// the workspace gets it, and one that calls modules, which may ask.
func (s *session) alone(p *Prepared, in place) bool {
	return s.engine.options.Backend.Type == s3Type && !p.AsksWorkspace && len(p.Modules) == 0 && in != outsidePlace && in != namedPlace
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
