package tofu

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"service-adapter/internal/opentofu"
	"service-adapter/internal/statestore"
	"service-adapter/internal/value"
)

// pushUnsaved saves the errored.tfstate of an earlier run in the backend and removes it.
func (s *states) pushUnsaved(ctx context.Context, i opentofu.Installation) error {
	if err := s.repair(ctx); err != nil {
		return err
	}
	path, err := s.unsaved()
	if err != nil || path == "" {
		return err
	}
	text, err := os.ReadFile(path) //nolint:gosec // a state of ours
	if err != nil {
		return err
	}
	// States are JSON, encrypted ones too.
	if !json.Valid(text) {
		// The disk was full, too. What the backend has is all there is, and it has the record.
		s.engine.logger.Warn("dropping a state that an earlier run could neither save nor write to its end", "workspace", s.name)
		return os.Remove(path)
	}
	if s.engine.options.Encryption != nil {
		text, err = s.decryptUnsaved(ctx, i, path)
	}
	if err == nil {
		err = s.pushOrSetAside(ctx, i, path, text)
	}
	if err != nil {
		return fmt.Errorf("saving the state that an earlier run left in %s: %w", path, err)
	}
	return nil
}

// pushOrSetAside saves a state that was not saved. When another run changed the stored one meanwhile, theirs is what counts, and the
// file must not block the workspace for ever.
func (s *states) pushOrSetAside(ctx context.Context, i opentofu.Installation, path string, text []byte) error {
	state, err := statestore.Parse(text)
	if err != nil {
		return err
	}
	stored, err := s.read(ctx, i)
	if err != nil {
		return err
	}
	// A reservation was stored before anything that is not saved. Where it is gone, another machine deleted what it was for, or it is the
	// reservation that was not saved; files that are gone were lost.
	if gone := len(bytes.TrimSpace(stored.text)) == 0; gone && s.engine.files == nil {
		if state == nil || len(state.Resources) == 0 {
			return os.Remove(path)
		}
		return s.setAside(path, state, stored.state)
	}
	if old, err := statestore.Superseded(text, stored.text, state, stored.state); err != nil {
		return err
	} else if old {
		return s.setAside(path, state, stored.state)
	}
	if err := s.push(ctx, i, readPlace, text); err != nil {
		return err
	}
	s.engine.logger.Info("saved the state of an earlier run", "workspace", s.name)
	return os.Remove(path)
}

// setAside moves a superseded state out of the way, for people to look at, and tells what only it knows.
func (s *states) setAside(path string, unsaved, stored *statestore.State) error {
	kept := filepath.Join(s.engine.options.CacheDir, s.unique("superseded")+".tfstate")
	if err := errors.Join(os.Chmod(path, 0o600), os.Rename(path, kept)); err != nil {
		return err
	}
	var only []string
	if unsaved != nil {
		only = s.beside(stored, unsaved.Instances)
	}
	s.engine.logger.Warn("set aside a state that could not be saved: another run changed the stored one since",
		"workspace", s.name, "file", kept, "only_there", only)
	return nil
}

// decryptUnsaved returns the text of a state that OpenTofu could not save. It encrypts that as well, and only a directory of its own,
// without configuration and backend, reads such a file.
func (s *states) decryptUnsaved(ctx context.Context, i opentofu.Installation, path string) ([]byte, error) {
	dir := filepath.Join(s.dir, "unsaved")
	if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700), os.Symlink(path, filepath.Join(dir, "terraform.tfstate"))); err != nil {
		return nil, err
	}
	env, err := s.environment(false)
	if err != nil {
		return nil, err
	}
	text, err := s.patiently(ctx, i, s.command(dir, env, "state", "pull", "-no-color"))
	if err == nil && len(bytes.TrimSpace(text)) == 0 {
		err = errors.New("it is empty")
	}
	return text, err
}

// Unsaved returns the workspaces of which the cache directory keeps a state that could not be saved in the backend, sorted. To open
// one of them and to ask for its State saves it.
func (e *Engine) Unsaved() ([]string, error) {
	runs := filepath.Join(e.options.CacheDir, runsName)
	files, err := filepath.Glob(filepath.Join(runs, "*", "*", erroredState))
	if err != nil {
		return nil, fmt.Errorf("looking for states that were not saved: %w", err)
	}
	names := value.Each(files, func(file string) string { return filepath.Base(filepath.Dir(filepath.Dir(file))) })
	slices.Sort(names)
	return slices.Compact(names), nil
}

// Unsaved tells whether OpenTofu could not save the state of the workspace, which then is in its scratch directory; Save tries again to
// put it into the backend.
func (s *states) Unsaved() bool {
	path, err := s.unsaved()
	return err == nil && path != ""
}

// Save puts the state into the backend that OpenTofu could not save.
func (s *states) Save(ctx context.Context, i opentofu.Installation) error {
	return s.failed("saving", s.pushUnsaved(ctx, i))
}

// keepCopy keeps a durable copy of a state of the local backend: before a run that may write it, because OpenTofu empties the file even
// where it changes nothing, and after one that was complete. OpenTofu's own backup is made only where something changes, and does not
// wait for the disk; see noBackup.
func (s *states) keepCopy(ctx context.Context) error {
	if s.engine.files == nil {
		return nil
	}
	if err := s.engine.files.Keep(ctx, s.name); err != nil {
		return fmt.Errorf("keeping a copy of the state: %w", err)
	}
	return nil
}

// keepEmpty is keepCopy before OpenTofu makes a reservation: it notes where there is nothing to keep.
func (s *states) keepEmpty(ctx context.Context) error {
	absent, err := s.absent(ctx)
	switch {
	case err != nil:
		return err
	case absent:
		return s.engine.files.MarkEmpty(s.name)
	default:
		return s.keepCopy(ctx)
	}
}

// noBackup are the options by which OpenTofu's local backend leaves the copy alone that keepCopy made.
func (s *states) noBackup(args []string) []string {
	if s.engine.files == nil {
		return args
	}
	return append([]string{args[0], "-backup=-"}, args[1:]...)
}

// repair puts that copy in the place of a local state that is not whole; where there is none, a state that an earlier run could not save.
// OpenTofu would take an empty file for an empty state. The error is statestore.ErrIncomplete when there is neither.
func (s *states) repair(ctx context.Context) error {
	if s.engine.files == nil {
		return nil
	}
	var unsaved []byte
	path, err := s.unsaved()
	if err == nil && path != "" {
		unsaved, err = os.ReadFile(path) //nolint:gosec // a state of ours
	}
	if err != nil {
		return err
	}
	err = s.whileHeld(ctx, func() error {
		repaired, err := s.engine.files.Repair(ctx, s.name, unsaved)
		if repaired {
			s.engine.logger.Warn("restored the copy of a state that was not written to its end", "workspace", s.name)
		}
		return err
	})
	if err != nil && !isLocked(err) {
		return fmt.Errorf("reading the state: %w", err)
	}
	return err
}

// absent tells of the local backend, without OpenTofu, whether there is no such workspace, or nothing in it. OpenTofu would make one
// to look into it.
func (s *states) absent(ctx context.Context) (bool, error) {
	if s.engine.files == nil {
		return false, nil
	}
	stored, err := s.engine.files.Read(ctx, s.name)
	return err == nil && stored == nil, err
}
