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

	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/statestore"
	"service-adapter/internal/engine/workspace"
	"service-adapter/internal/value"
)

// backupFormat is the version of the backup format. Its first number changes when an older adapter could misread a
// newer backup.
const backupFormat = "1.0"

// A backupLine is one line of a backup, which is a JSON object. The first line contains the format. Each following
// line contains an entry and its state in the form in which the engine stores states, which is encrypted if a key is
// configured. The last line contains the number of entries and the digest of all lines before it.
type backupLine struct {
	Format string `json:"format_version,omitempty"`
	*Entry
	State   json.RawMessage `json:"state,omitempty"`
	Entries int             `json:"entries,omitempty"`
	Digest  string          `json:"sha256,omitempty"`
}

// Export writes a backup of all bindings and instances in the state backend. It returns the number of states in the
// backup, and the entries whose states cannot be read, which the backup does not contain. An unreadable record alone
// does not exclude a state. The states are encrypted only if the engine has a key; otherwise the backup contains
// secrets in clear text. progress may be nil; see Progress.
//
// Export returns an error if no pak has a usable OpenTofu, if the workspaces cannot be listed, if a state cannot be
// encrypted, if writing fails or if the context ends. The written backup is then incomplete, and ReadBackup rejects it.
func Export(
	ctx context.Context, m *Manager, to io.Writer, progress Progress,
) (count int, unreadable []Stored, err error) {
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
			unreadable = append(unreadable, *stored)
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
	return count, unreadable, err
}

// EmptyBackup reports whether a file is empty or is a backup without entries, so that replacing it loses no data. It
// returns false for a backup that is cut off, for other files, and if the file cannot be read.
func EmptyBackup(file io.Reader) bool {
	const maxSize = 1 << 12 // bytes; a backup without entries has two short lines
	text, err := io.ReadAll(io.LimitReader(file, maxSize))
	if err != nil || len(text) == maxSize {
		return false
	}
	if len(text) == 0 {
		return true
	}
	var first, last backupLine
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	return len(lines) == 2 &&
		value.Decode([]byte(lines[0]), &first) == nil && value.Decode([]byte(lines[1]), &last) == nil &&
		first.Format != "" && last.Digest != "" && last.Entries == 0
}

// A Backup is a backup file that ReadBackup has verified: it is complete and its states can be decrypted. It does not
// keep the states in memory: RestoreWorkspace reads them from the file, which the caller must keep open as long as it
// calls that method.
type Backup struct {
	// Entries are the entries in the order of the file. Their states and records are nil.
	Entries []Stored
	engine  *workspace.Engine
	// file must stay open while the backup is in use, because RestoreWorkspace reads the states from it.
	file io.ReaderAt
	// lines are the positions of the entries' lines in the file, by workspace.
	lines map[string]lineRange
}

// A lineRange is the position of a line in a file, in bytes.
type lineRange struct{ offset, size int64 }

// errCutOff means that a backup file has no last line with a digest.
var errCutOff = errors.New("the file is cut off, or is no backup: it does not end with the digest of its lines")

// ReadBackup reads a backup of this size to its end, verifies it and decrypts its states with the keys of the engine.
// It changes nothing. It returns an error if the file cannot be read, is not a backup, is cut off, was modified, has a
// newer format, contains a workspace twice, or contains a state that cannot be decrypted or belongs to another binding
// or instance. Where possible, the error names the line.
func ReadBackup(engine *workspace.Engine, file io.ReaderAt, size int64) (*Backup, error) {
	backup := &Backup{engine: engine, file: file, lines: map[string]lineRange{}}
	digest := sha256.New()
	lines := bufio.NewReader(io.NewSectionReader(file, 0, size))
	offset := int64(0)
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
				err = fmt.Errorf("it is no backup, or has the format_version %q of a newer adapter; this one reads %s",
					line.Format, backupFormat)
			}
		case line.Digest != "":
			if line.Digest != hex.EncodeToString(digest.Sum(nil)) || line.Entries != len(backup.Entries) ||
				offset+int64(len(text)) != size {
				return nil, errors.New("the file was changed since it was written: " +
					"its content does not match the digest at its end")
			}
			return backup, nil
		default:
			err = backup.add(line, lineRange{offset, int64(len(text))})
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		_, _ = digest.Write(text) // a hash never returns an error
		offset += int64(len(text))
	}
}

// add adds the entry of a line at this position to the backup. It returns an error if the line contains no entry, if
// the workspace is already in the backup or was not named by the adapter, or if its state cannot be decrypted or
// belongs to another binding or instance.
func (b *Backup) add(line backupLine, position lineRange) error {
	if line.Entry == nil {
		return errors.New("it has neither an entry nor a digest")
	}
	entry := *line.Entry
	kind, _, ok := ParseWorkspace(entry.Workspace)
	if _, duplicate := b.lines[entry.Workspace]; !ok || duplicate || kind != entry.Kind {
		return fmt.Errorf("workspace %q occurs twice, or is not that of a binding or an instance", entry.Workspace)
	}
	state, err := b.engine.Unseal(line.State)
	if err != nil {
		return fmt.Errorf("%s %s: %w", entry.Kind, entry.ID, err)
	}
	if record, err := DecodeRecord(state.Record); err == nil && Workspace(record.KindAndID()) != entry.Workspace {
		return fmt.Errorf("%s %s: its state is that of another one", entry.Kind, entry.ID)
	}
	b.Entries, b.lines[entry.Workspace] = append(b.Entries, Stored{Entry: entry}), position
	return nil
}

// state reads and decrypts the state of a workspace that the backup contains. It returns an error if the file can no
// longer be read or was changed since ReadBackup, so that the state cannot be decoded or decrypted.
func (b *Backup) state(name string) (*statestore.State, error) {
	position := b.lines[name]
	text := make([]byte, position.size)
	if _, err := b.file.ReadAt(text, position.offset); err != nil {
		return nil, fmt.Errorf("reading the backup: %w", err)
	}
	var line backupLine
	if err := value.Decode(text, &line); err != nil {
		return nil, fmt.Errorf("reading the backup: %w", err)
	}
	return b.engine.Unseal(line.State)
}

// errDiffers means that the state backend contains another state than the backup.
var errDiffers = errors.New("another state of it is stored, and is left as it is")

// RestoreWorkspace stores the state of a workspace from the backup, unless the state backend contains the same state.
// It never replaces a stored state: it returns an error if the backend contains another one, or one that cannot be
// read. name must be that of an entry of the backup. The caller sets listed if the backend lists a workspace with this
// name. With dryRun, a workspace that is not listed counts as missing.
//
// RestoreWorkspace reports whether it stored the state. With dryRun it stores nothing, and reports whether it would
// have. Only work that may store the state is audited. It also returns an error if the state cannot be read from the
// file, if no pak has a usable OpenTofu, and those of opening the workspace and of workspace.Workspace.Restore.
func (b *Backup) RestoreWorkspace(
	ctx context.Context, m *Manager, name string, listed, dryRun bool,
) (stored bool, err error) {
	restored, err := b.state(name)
	if err != nil {
		return false, err
	}
	reader, err := m.StateReader(ctx, nil)
	if err != nil {
		return false, err
	}
	if listed {
		existing, err := m.Engine.Peek(ctx, reader, name)
		switch {
		case err != nil:
			return false, err
		case existing != nil && statestore.SameContent(existing, restored):
			return false, nil
		case existing != nil:
			return false, errDiffers
		}
	}
	if dryRun {
		return true, nil
	}
	kind, id, _ := ParseWorkspace(name)
	change := func(
		ctx context.Context, space *workspace.Workspace, reader opentofu.Installation, report func(Entry),
	) (err error) {
		report(newStored(name, restored, nil).Entry)
		stored, err = space.Restore(ctx, reader, restored)
		return err
	}
	err = m.changeWorkspace(ctx, name, Entry{Identity: Identity{Kind: kind, ID: id}}, m.Budget, change)
	if errors.Is(err, workspace.ErrExists) {
		err = errDiffers
	}
	return stored, err
}
