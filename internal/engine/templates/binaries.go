package templates

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"service-adapter/internal/ctxio"
	"service-adapter/internal/durable"
	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/filelock"
)

// binariesFile is the file with the records of VerifyBinaries, next to the prepared directories.
const binariesFile = ".binaries.json"

// binary is the record of an executable in the file of VerifyBinaries: its modification time and the SHA-256 of its
// content. The zero value stands for no executable.
type binary struct {
	Modified int64  `json:"modified"` // nanoseconds since 1970
	Sum      string `json:"sha256"`
}

// VerifyBinaries reads OpenTofu, the providers and the other executables of an installation completely and compares
// them with the records of earlier calls, which a file in CacheDir contains. The error lists each executable whose
// content differs from its record although its modification time is the same, which indicates a damaged disk. The
// record of such a file stays. The modification time and digest of any other file are recorded, also together with that
// error. If the file of records is missing, unreadable or damaged, all executables count as new, and the file is
// replaced.
//
// VerifyBinaries waits while another process builds a prepared directory. It also returns an error if an executable
// cannot be read, if the context ends, if the build lock cannot be taken, or if the records cannot be written; the file
// of records is unchanged then, unless only its directory could not be synced.
func (c *Cache) VerifyBinaries(ctx context.Context, i opentofu.Installation) error {
	inspected := map[string]binary{}
	paths := i.Executables()
	for _, path := range paths {
		current, err := inspectBinary(ctx, path)
		if err != nil {
			return fmt.Errorf("reading %q: %w", path, err)
		}
		inspected[path] = current
	}
	lock, err := filelock.Lock(ctx, filepath.Join(c.dir, buildLock), nil)
	if err != nil {
		return err
	}
	defer lock.Close() //nolint:errcheck // nothing was written
	var recorded map[string]binary
	text, err := os.ReadFile(filepath.Join(c.dir, binariesFile))
	if err != nil || json.Unmarshal(text, &recorded) != nil || recorded == nil {
		recorded = map[string]binary{} // the file with the records is missing or damaged
	}
	var failed []error
	for _, path := range paths {
		current := inspected[path]
		if before, ok := recorded[path]; ok && before.Modified == current.Modified && before.Sum != current.Sum {
			failed = append(failed, fmt.Errorf(
				"%q is damaged: its content changed, and its modification time did not; "+
					"install the pak again, or run touch on the file if it was replaced on purpose", path))
			continue
		}
		recorded[path] = current
	}
	if text, err = json.Marshal(recorded); err == nil {
		err = durable.WriteFile(filepath.Join(c.dir, binariesFile), text)
	}
	return errors.Join(append(failed, err)...)
}

// inspectBinary reads the executable at a path completely and returns its record: the modification time and the SHA-256
// of the content. It returns an error if the file cannot be opened, inspected or read, or if the context ends. The
// record must not be used with an error.
func inspectBinary(ctx context.Context, path string) (b binary, err error) {
	file, err := os.Open(path) //nolint:gosec // an executable of a pak
	if err != nil {
		return binary{}, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return binary{}, err
	}
	sum := sha256.New()
	_, err = io.Copy(sum, ctxio.Reader(ctx, file))
	return binary{Modified: info.ModTime().UnixNano(), Sum: hex.EncodeToString(sum.Sum(nil))}, err
}
