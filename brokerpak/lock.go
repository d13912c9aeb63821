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

// LockName is the path of the lock in a pak: next to the manifest in its source, and in the root of a built pak.
const LockName = "brokerpak.lock.yml"

// lockVersion is the version of the format of locks.
const lockVersion = 1

// SourceCode is the platform of a fetched file that is source code, in a lock.
const SourceCode = "source"

// A Lock is the content of the file brokerpak.lock.yml of a pak: the SHA-256 digests of all files that a build of the
// pak fetches, and of the files in the directories bin and src of the built pak, which are copied or unpacked from
// them. The zero Lock lists no files and has no valid version; NewLock creates a Lock. A nil *Lock means that the pak
// has no lock.
type Lock struct {
	Version int `key:"lock_version,required" yaml:"lock_version"`
	// Fetched are the fetched files, sorted by name, version and platform.
	Fetched []FetchedFile `key:"fetched" yaml:"fetched"`
	// Files are the files in the directories FetchedDirs of the built pak, sorted by path.
	Files []LockedFile `key:"files" yaml:"files"`
}

// A FetchedFile is a file that a build fetches for an entry of terraform_binaries, as recorded in a lock: the name and
// version of the entry, the platform ("linux/amd64", or SourceCode for its source code), the location from which the
// file is fetched (a URL without credentials and query, or the path of a local file), and its SHA-256 digest in
// hexadecimal. All of these are required in a lock. Pos is the position of the entry in a parsed lock, and otherwise
// zero. Lock.Fetch returns the zero FetchedFile if the lock has no such file.
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

// A LockedFile is an entry of a lock for a file of the built pak: the slash-separated path relative to the root of the
// pak, such as "bin/linux/amd64/tofu", and the SHA-256 digest in hexadecimal. Both are required. Pos is the position of
// the entry in a parsed lock, and zero in a lock from NewLock.
type LockedFile struct {
	Path   string   `key:"path,required" yaml:"path"`
	SHA256 string   `key:"sha256,required" yaml:"sha256"`
	Pos    diag.Pos `yaml:"-"`
}

// Lock reads and parses the lock of the pak, the file brokerpak.lock.yml in its root. The result is nil, without an
// error, if the pak does not have the file. If the content is invalid, Lock returns nil and a diag.Errors with all
// defects; see ParseLock. If the file cannot be read, is not a regular file or is larger than 4 MB, it returns nil and
// another error, which names the file.
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

// ParseLock parses the text of a lock. The parameter file is the name of the file in error messages; the file is not
// read. ParseLock returns nil and a diag.Errors with all defects if the text is empty, is too large (see
// parseDocument), is not valid YAML or not a mapping, contains unknown or repeated keys or values of the wrong type,
// lacks a required key, has another lock_version than 1, a digest that is not 64 hexadecimal digits in lower case or
// a path that is not below bin or src, or lists a path twice. Text after the first YAML document is ignored.
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

// lockKeys returns descriptions of the keys of a lock: lock_version, fetched and files. Decoding a key stores its value
// in lock. It adds errors to the diagnostics of d for entries that are not mappings, that have unknown keys or values
// of the wrong type, that lack a required key, or whose digest or path is invalid (see checkDigest and
// checkLockedPath); such entries are stored all the same. checkLock checks the version and repeated paths later.
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

// checkDigest adds an error to the diagnostics of the entry's document, at the key sha256, if digest is neither empty
// nor a SHA-256 digest: 64 hexadecimal digits in lower case. An empty digest is ignored, because decoding has already
// reported it as missing. entry contains the nodes of the entry of the lock.
func checkDigest(entry mappingNode, digest string) {
	const size = 64
	valid := len(digest) == size && strings.Trim(digest, "0123456789abcdef") == ""
	if digest != "" && !valid {
		entry.document.errorf(entry.values["sha256"], lockRule,
			"sha256 must be %d hexadecimal digits in lower case", size)
	}
}

// checkLockedPath adds an error to the diagnostics of the entry's document, at the key path, if name is not the
// slash-separated path of a file below bin or src, such as "bin/linux/amd64/tofu". A path with a component "." or "..",
// or with an empty one, is an error as well. An empty name is ignored, because decoding has already reported it as
// missing. entry contains the nodes of the entry of the lock.
func checkLockedPath(entry mappingNode, name string) {
	top, _, below := strings.Cut(name, "/")
	if name != "" && (!below || !fs.ValidPath(name) || !slices.Contains(FetchedDirs(), top)) {
		entry.document.errorf(entry.values["path"], lockRule, "path must be that of a file below %s",
			strings.Join(FetchedDirs(), " or "))
	}
}

// checkLock adds errors to the diagnostics of decoded.document if the lock_version is not 1, and for each path in
// lock.Files that an earlier entry already has. decoded contains the nodes of the lock, for the positions. A missing
// version and empty paths are ignored, because decoding has already reported them.
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

// NewLock returns a lock of the current version (1). The parameter fetched contains the files that the build fetched;
// the lock has a copy of it, sorted by name, version and platform. digests maps the paths of the files of the built
// pak, such as "bin/linux/amd64/tofu", to their SHA-256 digests in hexadecimal; the lock lists them sorted by path. The
// values are not checked. Both parameters may be nil.
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

// Encode returns the text of the lock as YAML, below a comment that explains the file. The same lock always has the
// same text. ParseLock accepts the text if the values of the lock are valid and the text is not too large (see
// parseDocument). The lock must not be nil. Encode returns nil and an error if the YAML library cannot encode a value.
func (l *Lock) Encode() ([]byte, error) {
	text, err := yamltree.Encode(l)
	if err != nil {
		return nil, fmt.Errorf("writing the lock: %w", err)
	}
	return append([]byte(lockHeading), text...), nil
}

// Fetch returns the fetched file that the lock records for an entry of terraform_binaries, by the entry's name and
// version, and a platform: "OS/ARCH", or SourceCode for the entry's source code. from is the URL (without credentials
// and query) or the local path from which the caller fetches the file. If the lock has several matching files, Fetch
// returns the one with this location, or else the first; a single match is returned whatever its location. If no file
// matches, or the lock is nil, Fetch returns the zero FetchedFile and false.
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

// inDirs returns the lock's entries for files that are in the given directories of the built pak or their
// subdirectories, by path. The directories are slash-separated paths relative to the root of the pak, without a slash
// at the end, such as "bin/linux/amd64". The map is empty and not nil if there are none. The lock must not be nil.
func (l *Lock) inDirs(dirs []string) map[string]LockedFile {
	files := map[string]LockedFile{}
	for _, file := range l.Files {
		if slices.ContainsFunc(dirs, func(dir string) bool { return strings.HasPrefix(file.Path, dir+"/") }) {
			files[file.Path] = file
		}
	}
	return files
}
