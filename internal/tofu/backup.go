package tofu

import (
	"context"
	"fmt"
	"os"
)

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
