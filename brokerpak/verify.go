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

// Verify compares files of a built pak with the SHA-256 digests in the lock of the pak, which requires reading them
// completely. The parameter files contains the files of the pak, or an unpacked copy of them. If platform is nil, all
// files below bin and src are compared, otherwise only those below bin/OS/ARCH of the platform. Verify returns nil if
// the pak has no lock, because it is the source of a pak or an earlier version of this program built it. It also
// returns nil, without reading the lock, if a platform is set and files has no directory for it.
//
// Verify returns one error that names the pak and up to ten files if a file is missing, has another digest, or is not
// in the lock. It also returns an error if the lock is invalid or cannot be read, if a file cannot be read, or if ctx
// ends.
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

// summarize returns texts as a list for a message, in their order and separated by semicolons. Of more than ten texts
// it contains the first ten, followed by the number of the others, as in "; and 5 more". It returns "" for an empty
// list.
func summarize(texts []string) string {
	const shown = 10
	if len(texts) > shown {
		return fmt.Sprintf("%s; and %d more", strings.Join(texts[:shown], "; "), len(texts)-shown)
	}
	return strings.Join(texts, "; ")
}

// A Difference is a file of a built pak that differs from the pak's lock: it has another SHA-256 digest, is missing, or
// is not in the lock. It contains the path of the file in the pak and the two digests in hexadecimal; Locked is "" if
// the lock does not list the file, and Actual is "" if the file does not exist. Pos is the position of the file in the
// lock, and zero if the lock does not list it.
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

// String returns the difference as a clause that names the file and its digests, such as "bin/a (sha256:…) is not in
// the lock", "bin/a (sha256:…) is missing" or "bin/a has the digest sha256:…, not sha256:…".
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

// Differences compares digests of files of the built pak with the lock, and returns the files that differ, sorted by
// path: files with another digest, files that the lock does not list, and files of the lock that do not exist. It
// returns nil if there are none. actual maps the slash-separated paths of the existing files, such as
// "bin/linux/amd64/tofu", to their SHA-256 digests in hexadecimal; Digests returns such a map. dirs are the
// directories, such as "bin", to which the comparison of the lock's entries is limited. A file in actual that is not in
// one of dirs counts as missing from the lock, so that without dirs every file in actual is a difference. The lock must
// not be nil.
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
