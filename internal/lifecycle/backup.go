package lifecycle

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"service-adapter/internal/statestore"
	"service-adapter/internal/tofu"
	"service-adapter/internal/value"
)

// backupFormat is the version of backups. Its first number changes when an older adapter could misread a newer one.
const backupFormat = "1.0"

// backupLine is a line of a backup, a JSON object: the first one has the format, each other one an entry with its state as the engine stores
// states, encrypted where there is a key, and the last one the number of entries and the digest of all lines before it.
type backupLine struct {
	Format string `json:"format_version,omitempty"`
	*Entry
	State   json.RawMessage `json:"state,omitempty"`
	Entries int             `json:"entries,omitempty"`
	Digest  string          `json:"sha256,omitempty"`
}

// Export writes a backup of everything in the state backend. It returns what could not be read, which is not in it.
func Export(ctx context.Context, m *Manager, to io.Writer, progress Progress) (count int, missing []Stored, err error) {
	digest := sha256.New()
	write := func(to io.Writer, line backupLine) error {
		text, err := json.Marshal(line)
		if err == nil {
			_, err = to.Write(append(text, '\n'))
		}
		return err
	}
	lines := io.MultiWriter(to, digest)
	if err := write(lines, backupLine{Format: backupFormat}); err != nil {
		return 0, nil, err
	}
	err = m.Walk(ctx, "", progress, func(stored *Stored) error {
		if stored.State == nil {
			missing = append(missing, *stored)
			return nil
		}
		count++
		sealed, err := m.Engine.Seal(stored.State.Text)
		if err != nil {
			return err
		}
		return write(lines, backupLine{Entry: &stored.Entry, State: sealed})
	})
	if err == nil {
		err = write(to, backupLine{Entries: count, Digest: hex.EncodeToString(digest.Sum(nil))})
	}
	return count, missing, err
}

// Backup is a backup that was found to be whole, with states that can be read.
type Backup struct {
	// Entries are in the order of the file.
	Entries []Stored
	engine  *tofu.Engine
	file    io.ReaderAt
	places  map[string]place // by workspace
}

// place is where a line is in a file, in bytes.
type place struct{ at, size int64 }

// errCutOff says that a backup has no end.
var errCutOff = errors.New("the file is cut off, or is no backup: it does not end with the digest of what is in it")

// ReadBackup reads a backup to its end, with the keys of an engine, and changes nothing. An error names the line.
func ReadBackup(engine *tofu.Engine, file io.ReaderAt, size int64) (*Backup, error) {
	backup := &Backup{engine: engine, file: file, places: map[string]place{}}
	digest := sha256.New()
	lines := bufio.NewReader(io.NewSectionReader(file, 0, size))
	at := int64(0)
	for number := 1; ; number++ {
		text, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil, errCutOff
		}
		var line backupLine
		if err == nil {
			err = value.Decode(text, &line)
		}
		switch {
		case err != nil:
		case number == 1:
			if major, _, _ := strings.Cut(line.Format, "."); major != "1" {
				err = fmt.Errorf("it is no backup, or has the format_version %q of a newer adapter; this one reads %s", line.Format, backupFormat)
			}
		case line.Digest != "":
			if line.Digest != hex.EncodeToString(digest.Sum(nil)) || line.Entries != len(backup.Entries) || at+int64(len(text)) != size {
				return nil, errors.New("the file was changed since it was written: the digest at its end is that of something else")
			}
			return backup, nil
		default:
			err = backup.add(line, place{at, int64(len(text))})
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		_, _ = digest.Write(text) // it never fails
		at += int64(len(text))
	}
}

// add adds what a line tells of a workspace.
func (b *Backup) add(line backupLine, at place) error {
	if line.Entry == nil {
		return errors.New("it has neither an entry nor a digest")
	}
	entry := *line.Entry
	kind, _, ok := Named(entry.Workspace)
	if _, twice := b.places[entry.Workspace]; !ok || twice || kind != entry.Kind {
		return fmt.Errorf("workspace %q is there twice, or is not that of a binding or an instance", entry.Workspace)
	}
	state, err := b.engine.Unseal(line.State)
	if err != nil {
		return fmt.Errorf("%s %s: %w", entry.Kind, entry.ID, err)
	}
	if record, err := DecodeRecord(state.Record); err == nil && Workspace(record.Of()) != entry.Workspace {
		return fmt.Errorf("%s %s: its state is that of another one", entry.Kind, entry.ID)
	}
	b.Entries, b.places[entry.Workspace] = append(b.Entries, Stored{Entry: entry}), at
	return nil
}

// state reads the state of a workspace.
func (b *Backup) state(workspace string) (*statestore.State, error) {
	at := b.places[workspace]
	text := make([]byte, at.size)
	if _, err := b.file.ReadAt(text, at.at); err != nil {
		return nil, fmt.Errorf("reading the backup: %w", err)
	}
	var line backupLine
	if err := value.Decode(text, &line); err != nil {
		return nil, fmt.Errorf("reading the backup: %w", err)
	}
	return b.engine.Unseal(line.State)
}

// errOther says that something is stored already that a backup has otherwise.
var errOther = errors.New("another state of it is stored, and is left as it is")

// Import stores the state of a workspace, unless the same one is stored. What is stored already is never changed; it is
// an error where that is not the same. exists says that the backend listed the workspace. It reports whether it stored it, or with dry
// would have.
func (b *Backup) Import(ctx context.Context, m *Manager, workspace string, exists, dry bool) (stored bool, err error) {
	wanted, err := b.state(workspace)
	if err != nil {
		return false, err
	}
	reader, err := m.Reader(ctx, nil)
	if err != nil {
		return false, err
	}
	if exists {
		found, err := m.Engine.Peek(ctx, reader, workspace)
		switch {
		case err != nil:
			return false, err
		case found != nil && statestore.Same(found, wanted):
			return false, nil
		case found != nil:
			return false, errOther
		}
	}
	if dry {
		return true, nil
	}
	kind, id, _ := Named(workspace)
	err = m.onWorkspace(ctx, workspace, Entry{Kind: kind, ID: id}, m.Budget, func(ctx context.Context, h *Held, found func(Entry)) (err error) {
		found(newStored(workspace, wanted, nil).Entry)
		stored, err = h.Space.Restore(ctx, h.reader, wanted)
		return err
	})
	if errors.Is(err, tofu.ErrExists) {
		err = errOther
	}
	return stored, err
}
