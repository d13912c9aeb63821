package brokerpak

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"service-adapter/internal/diag"
	"service-adapter/internal/yamltree"
)

// LockName is the path of the lock in a pak: beside the manifest in its source, and in the root of a built pak.
const LockName = "brokerpak.lock.yml"

// lockVersion is the version of the format of locks.
const lockVersion = 1

// SourceCode is the platform of a fetched file that is source code, in a lock.
const SourceCode = "source"

// A Lock is the content of a lock: the digests of all files that a build of the pak fetches, and of the files that are
// unpacked from them.
type Lock struct {
	Version int `key:"lock_version,required" yaml:"lock_version"`
	// Fetched are the fetched files, sorted by name, version and platform.
	Fetched []FetchedFile `key:"fetched" yaml:"fetched"`
	// Files are the files in the directories FetchedDirs of the built pak, sorted by path.
	Files []LockedFile `key:"files" yaml:"files"`
}

// A FetchedFile is a file that a build fetches for an entry of terraform_binaries.
type FetchedFile struct {
	// Name and Version are those of the entry, as the manifest has them.
	Name    string `key:"name,required" yaml:"name"`
	Version string `key:"version,required" yaml:"version"`
	// Platform is OS/ARCH, or SourceCode.
	Platform string `key:"platform,required" yaml:"platform"`
	// From is the URL without credentials and query, or the path of a local file.
	From string `key:"from,required" yaml:"from"`
	// SHA256 is the digest of the file in hexadecimal.
	SHA256 string   `key:"sha256,required" yaml:"sha256"`
	Pos    diag.Pos `yaml:"-"`
}

// A LockedFile is a file of the built pak.
type LockedFile struct {
	Path   string   `key:"path,required" yaml:"path"`
	SHA256 string   `key:"sha256,required" yaml:"sha256"`
	Pos    diag.Pos `yaml:"-"`
}

// Lock returns the lock of the pak. The result is nil if the pak has none. Lock returns a diag.Errors with all defects
// if the lock is invalid, and another error if it cannot be read.
func (p *Pak) Lock() (*Lock, error) {
	text, err := p.readText(LockName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // nil means that the pak has no lock
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %s", p.Display(LockName), withoutPath(err))
	}
	return ParseLock(p.Display(LockName), text)
}

// ParseLock parses the text of a lock; file is its name for messages. The error is a diag.Errors with all defects.
func ParseLock(file, text string) (*Lock, error) {
	diags := &diag.List{}
	lock := &Lock{}
	doc, root := parseDocument(file, text, diags)
	if root != nil {
		checkLock(lock, doc.mapping(root, "the lock", true, lockKeys(doc, lock)))
	}
	if err := diags.Err(); err != nil {
		return nil, err
	}
	return lock, nil
}

// lockRule is the rule of findings about a lock.
const lockRule = "lock"

// lockKeys returns the keys of a lock, which are decoded into lock.
func lockKeys(d *document, lock *Lock) fields {
	return d.keys("", lock, map[string]field{
		"fetched": entries(d, "fetched", true, &lock.Fetched, nil, func(decoded mappingNode, file *FetchedFile) bool {
			checkDigest(decoded, file.SHA256)
			return true
		}),
		"files": entries(d, "files", true, &lock.Files, nil, func(decoded mappingNode, file *LockedFile) bool {
			checkDigest(decoded, file.SHA256)
			checkLockedPath(decoded, file.Path)
			return true
		}),
	})
}

// checkDigest reports an error if the digest of an entry of a lock is not a SHA-256 digest in hexadecimal. An empty one
// was reported as missing.
func checkDigest(entry mappingNode, digest string) {
	const size = 64
	valid := len(digest) == size && strings.Trim(digest, "0123456789abcdef") == ""
	if digest != "" && !valid {
		entry.document.errorf(entry.values["sha256"], lockRule,
			"sha256 must be %d hexadecimal digits in lower case", size)
	}
}

// checkLockedPath reports an error if the path of an entry of a lock is not that of a fetched file. An empty one was
// reported as missing.
func checkLockedPath(entry mappingNode, name string) {
	top, _, below := strings.Cut(name, "/")
	if name != "" && (!below || !fs.ValidPath(name) || !slices.Contains(FetchedDirs(), top)) {
		entry.document.errorf(entry.values["path"], lockRule, "path must be that of a file below %s",
			strings.Join(FetchedDirs(), " or "))
	}
}

// checkLock reports errors for the version of a decoded lock and for files that are listed twice.
func checkLock(lock *Lock, decoded mappingNode) {
	if decoded.nonEmpty("lock_version") && lock.Version != lockVersion {
		decoded.document.failf(decoded.posOf("lock_version"), lockRule,
			"lock_version must be %d; a newer service-adapter wrote the lock, or it is damaged", lockVersion)
	}
	paths := map[string]bool{}
	for _, file := range lock.Files {
		if file.Path != "" && paths[file.Path] {
			decoded.document.failf(file.Pos, lockRule, "%s is listed twice", file.Path)
		}
		paths[file.Path] = true
	}
}

// NewLock returns a lock of fetched files, and of the files of a built pak with their hexadecimal SHA-256 digests.
func NewLock(fetched []FetchedFile, digests map[string]string) *Lock {
	lock := &Lock{Version: lockVersion, Fetched: slices.Clone(fetched), Files: []LockedFile{}}
	slices.SortStableFunc(lock.Fetched, func(a, b FetchedFile) int {
		return slices.Compare([]string{a.Name, a.Version, a.Platform}, []string{b.Name, b.Version, b.Platform})
	})
	for file, digest := range digests {
		lock.Files = append(lock.Files, LockedFile{Path: file, SHA256: digest})
	}
	slices.SortFunc(lock.Files, func(a, b LockedFile) int { return cmp.Compare(a.Path, b.Path) })
	return lock
}

// lockHeading is the comment at the beginning of a lock.
const lockHeading = `# SHA-256 digests of the files that pak build fetches, and of the resulting files of the pak.
# service-adapter pak lock writes this file, and pak build rejects files with other digests.
`

// Encode returns the lock as YAML. The same lock has the same text, which ParseLock accepts. It returns an error if a
// text cannot be written as YAML.
func (l *Lock) Encode() ([]byte, error) {
	text, err := yamltree.Encode(l)
	if err != nil {
		return nil, fmt.Errorf("writing the lock: %w", err)
	}
	return append([]byte(lockHeading), text...), nil
}

// Fetch returns the fetched file of an entry of terraform_binaries for a platform, or for SourceCode. If the lock has
// several, it returns the one from the given location, or else the first. ok is false if there is none, or if the lock
// is nil.
func (l *Lock) Fetch(entry Binary, platform, from string) (file FetchedFile, ok bool) {
	if l == nil {
		return FetchedFile{}, false
	}
	for _, candidate := range l.Fetched {
		if candidate.Name != entry.Name || candidate.Version != entry.Version || candidate.Platform != platform {
			continue
		}
		if !ok || candidate.From == from {
			file, ok = candidate, true
		}
		if file.From == from {
			break
		}
	}
	return file, ok
}

// inDirs returns the entries of the files in directories of the built pak, by path. The directories are slash-separated
// paths.
func (l *Lock) inDirs(dirs []string) map[string]LockedFile {
	files := map[string]LockedFile{}
	for _, file := range l.Files {
		if slices.ContainsFunc(dirs, func(dir string) bool { return strings.HasPrefix(file.Path, dir+"/") }) {
			files[file.Path] = file
		}
	}
	return files
}
