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

// A backupLine is one line of a backup file, which is a JSON object followed by a line feed. The first line contains
// only the version of the format. Each following line describes one binding or instance: the fields of its Entry, and
// its state in the form in which the engine stores states, which is encrypted if a key is configured. The last line
// contains the number of these entries and the SHA-256 digest of all lines before it, in hexadecimal. The zero value is
// the empty object, which is not a valid line of a backup.
type backupLine struct {
	Format string `json:"format_version,omitempty"`
	*Entry
	State   json.RawMessage `json:"state,omitempty"`
	Entries int             `json:"entries,omitempty"`
	Digest  string          `json:"sha256,omitempty"`
}

// Export writes to the writer a backup of all bindings and instances in the state backend, in the form that ReadBackup
// reads. It returns the number of states in the backup, and the entries whose states cannot be read, which the backup
// does not contain; unreadable is nil if all can be read. A state whose record alone is unreadable is in the backup.
// The states are encrypted only if the engine has a key; otherwise the backup contains secrets in clear text. progress
// is called after each state, and may be nil. Export reads the states like Manager.Walk: it may delete empty workspaces
// and restore incomplete state files of the backend local, and waits for a running command only if that holds the lock
// of such a state.
//
// Export returns an error if no pak has a usable OpenTofu, if the workspaces cannot be listed, if a state cannot be
// encrypted, if writing fails or if the context ends. The written backup is then incomplete, and ReadBackup rejects
// it. unreadable then covers only the workspaces that were visited, and count is the number of the readable ones
// among them; it includes a state that could not be encrypted or written.
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

// EmptyBackup reports whether the content of a file, read from file, is empty or is a backup without entries, so that
// replacing the file loses no data. It returns false for a backup with entries, for one whose last line is cut off, for
// any other content, and if reading fails. It reads at most 4096 bytes, and returns false if there are that many or
// more, because a backup without entries has two short lines. It does not verify the digest.
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

// A Backup is a backup file that ReadBackup has verified: it is complete and its states can be decrypted. It contains
// the entries of the file and the positions of their lines, and does not keep the states in memory: RestoreWorkspace
// reads them from the file, which the caller must keep open as long as it calls that method. The zero Backup has no
// entries and no file, so only a Backup that ReadBackup returned can be restored.
type Backup struct {
	// Entries are the entries in the order of the file. Their states and records are nil.
	Entries []Stored
	engine  *workspace.Engine
	// file must stay open while the backup is in use, because RestoreWorkspace reads the states from it.
	file io.ReaderAt
	// lines are the positions of the entries' lines in the file, by workspace.
	lines map[string]lineRange
}

// A lineRange is the position of a line in a backup file: its offset from the start of the file, and its size with the
// line feed at its end, both in bytes. The zero value is the position of no line.
type lineRange struct{ offset, size int64 }

// errCutOff means that a backup file has no last line with a digest.
var errCutOff = errors.New("the file is truncated or is not a backup: it does not end with the digest of its lines")

// ReadBackup reads a backup file to its end, verifies it and decrypts its states with the current and the old keys of
// the engine. size must be the size of the whole file in bytes. ReadBackup changes nothing. The returned Backup keeps
// the engine and the file, which must stay open, because the states are read again when they are restored.
//
// ReadBackup returns nil and an error if the file cannot be read, is empty, is not a backup, is cut off, does not match
// the digest and the number of entries in its last line, or has a format version other than 1.x. It also returns an
// error if a line between the first and the last contains no entry, if an entry has the name of a workspace that occurs
// twice, that the adapter did not choose, or that contradicts the kind of the entry, and if a state is empty, cannot be
// decrypted, is in clear text although the engine requires encryption, or has a readable record of another binding or
// instance. An error of a single line names its number.
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
				err = fmt.Errorf("it is not a backup, or has the format_version %q of a newer adapter; "+
					"this adapter reads %s",
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

// add adds the entry of a line to the backup; position is the range of bytes of that line in the file. add decrypts the
// state to verify it, and does not keep it. It returns an error, and leaves the backup unchanged, if the line contains
// no entry, if the workspace is already in the backup, if the name of the workspace was not chosen by the adapter or
// contradicts the kind of the entry, if the state is empty, cannot be decrypted or is in clear text although the engine
// requires encryption, or if its record is readable and names another binding or instance.
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
		return fmt.Errorf("%s %s: its state belongs to another binding or instance", entry.Kind, entry.ID)
	}
	b.Entries, b.lines[entry.Workspace] = append(b.Entries, Stored{Entry: entry}), position
	return nil
}

// state reads the state of the workspace with this name from the file and decrypts it. It returns nil and an error if
// the backup does not contain the workspace, if the file can no longer be read, or if the file was changed since
// ReadBackup so that the state cannot be decoded or decrypted. A change that keeps the line valid is not detected.
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
var errDiffers = errors.New("the state backend contains another state of it, which was not changed")

// RestoreWorkspace stores the state of a workspace from the backup in the state backend of the manager, unless the
// backend contains the same state. It replaces no stored state by that of the backup. name must be the Workspace of an
// entry of the backup. The caller sets listed to whether the backend lists a workspace with this name; if it is true,
// RestoreWorkspace first compares the stored state with that of the backup. With dryRun it stores nothing, and a
// workspace that is not listed counts as missing. The comparison may delete an empty workspace or restore an incomplete
// local state, even with dryRun; see workspace.Engine.Peek.
//
// RestoreWorkspace reports whether it stored the state, or with dryRun whether it would have. It returns false and no
// error if the same state is stored. It returns an error if the backend contains another state or one that cannot be
// read, if the state cannot be read from the file, or if no pak has a usable OpenTofu.
//
// Without dryRun, it opens the workspace unless the comparison settles the result. The attempt is then audited if the
// manager has an Audit, and waits for other runs on this machine, at most for the budget of the manager. A state that
// an earlier run could not save is saved first. RestoreWorkspace then also returns the errors of the Audit, of opening
// the workspace and of workspace.Workspace.Restore, for example a *statelock.Error. stored may be true together with an
// error if only the copy of a local state cannot be written or the Audit fails afterwards. If stored is false after an
// error of the backend or OpenTofu, the state may have been stored nevertheless; RestoreWorkspace can be called again.
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
