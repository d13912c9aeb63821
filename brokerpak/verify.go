package brokerpak

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"service-adapter/internal/diag"
	"service-adapter/internal/value"
)

// Verify compares files of a built pak with the digests in the lock of the pak, and reads them completely. files are
// those of the pak, or an unpacked copy. If platform is not nil, only the binaries of this platform are compared.
// Verify does nothing if the pak has no lock, because an earlier version of this program built it, or if the pak has no
// binaries for the platform.
//
// It returns an error, which names the pak and the files, if a file is missing, has another digest, or is not in the
// lock. It also returns an error if the lock is invalid, if a file cannot be read, or if ctx ends.
func (p *Pak) Verify(ctx context.Context, files fs.FS, platform *Platform) error {
	dirs := FetchedDirs()
	if platform != nil {
		dirs = []string{path.Join("bin", platform.OS, platform.Arch)}
		if _, err := fs.Stat(files, dirs[0]); errors.Is(err, fs.ErrNotExist) {
			return nil // Executables reports it
		}
	}
	lock, err := p.Lock()
	if err != nil || lock == nil {
		return err
	}
	actual, err := Digests(ctx, files, dirs...)
	if err != nil {
		return err
	}
	differences := value.Convert(lock.Differences(actual, dirs...), Difference.String)
	if len(differences) > 0 {
		return fmt.Errorf("pak %s differs from its lock, %s: %s; build the pak again, or get it again from where it "+
			"was published", p.Path, LockName, summarize(differences))
	}
	return nil
}

// summarize returns a list for a message, of which it shows at most ten elements.
func summarize(texts []string) string {
	const shown = 10
	if len(texts) > shown {
		return fmt.Sprintf("%s; and %d more", strings.Join(texts[:shown], "; "), len(texts)-shown)
	}
	return strings.Join(texts, "; ")
}

// A Difference is a file that differs from the lock.
type Difference struct {
	// Path is the path of the file in the pak.
	Path string
	// Locked is the digest in the lock, or "" if the lock does not list the file.
	Locked string
	// Actual is the digest of the file, or "" if the file does not exist.
	Actual string
	// Pos is the position of the file in the lock, and zero if the lock does not list it.
	Pos diag.Pos
}

// String returns the difference as a clause with both digests.
func (d Difference) String() string {
	switch {
	case d.Locked == "":
		return fmt.Sprintf("%s (sha256:%s) is not in the lock", d.Path, d.Actual)
	case d.Actual == "":
		return fmt.Sprintf("%s (sha256:%s) is missing", d.Path, d.Locked)
	default:
		return fmt.Sprintf("%s has the digest sha256:%s, not sha256:%s", d.Path, d.Actual, d.Locked)
	}
}

// Differences returns the files in directories of the built pak that differ from the lock, sorted by path. actual maps
// the paths of the existing files in these directories to their digests.
func (l *Lock) Differences(actual map[string]string, dirs ...string) []Difference {
	locked := l.inDirs(dirs)
	var differences []Difference
	for file, entry := range locked {
		if actual[file] != entry.SHA256 {
			differences = append(differences, Difference{file, entry.SHA256, actual[file], entry.Pos})
		}
	}
	for file, digest := range actual {
		if _, listed := locked[file]; !listed {
			differences = append(differences, Difference{Path: file, Actual: digest})
		}
	}
	slices.SortFunc(differences, func(a, b Difference) int { return cmp.Compare(a.Path, b.Path) })
	return differences
}
