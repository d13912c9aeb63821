package templates

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// errDamaged reports that a prepared directory is incomplete or has been changed since it was built.
var errDamaged = errors.New("it is damaged")

// digestFile is the file with the digest of a prepared directory. It is written last, so that a directory without it is
// incomplete.
const digestFile = "digest.json"

// maxHashed is the size in bytes of the largest file that is part of the digest with its content. Larger files, such as
// programs that a module contains, are part of it only with their size, because every bind and unbind computes the
// digest.
const maxHashed = 1 << 20

// digest identifies the content of a prepared directory: the names of its files and a checksum of their names, types,
// sizes and contents. Instead of its content, a file larger than maxHashed, 1 MiB, counts only with its size, and a
// symbolic link with its target path. The zero digest lists no files.
type digest struct {
	// Names are the paths of the files and symbolic links, relative to the directory.
	Names []string `json:"names"`
	// Sum is the SHA-256 of the names, types, sizes and contents of these files, in hexadecimal digits.
	Sum string `json:"sum"`
}

// writeDigest writes the file digest.json into the directory dir, which is otherwise complete. It records the paths of
// all files and links below dir and a checksum of them, with which checkDigest detects damage. The directory must not
// have a digest file yet, because the digest covers all files. writeDigest returns an error if a file cannot be read or
// the digest file cannot be written.
func writeDigest(dir string) error {
	var d digest
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		d.Names = append(d.Names, name)
		return err
	})
	if err == nil {
		d.Sum, err = d.compute(dir)
	}
	if err != nil {
		return err
	}
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, digestFile), text, 0o600)
}

// checkDigest returns an error that wraps errDamaged if the content of the directory dir differs from its digest file,
// or if that file or a file that it lists is missing or cannot be read. It returns nil otherwise. It does not detect
// additional files, changed permissions, changed files to which links lead, and changed contents of files larger than 1
// MiB with the same size. All of its errors wrap errDamaged.
func checkDigest(dir string) error {
	var d digest
	text, err := os.ReadFile(filepath.Join(dir, digestFile))
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	var sum string
	if err == nil {
		sum, err = d.compute(dir)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", errDamaged, err)
	case sum != d.Sum:
		return fmt.Errorf("%w: its content differs from its digest", errDamaged)
	default:
		return nil
	}
}

// compute returns the checksum of the files in d.Names as they are in the directory dir: a SHA-256 in hexadecimal
// digits of their names, types, sizes and contents. Of a file larger than maxHashed, only the size counts. Of a
// symbolic link, the target counts and not the file at the target. compute returns "" and an error if one of the files
// is missing or cannot be read.
func (d digest) compute(dir string) (string, error) {
	hash := sha256.New()
	for _, name := range d.Names {
		path := filepath.Join(dir, name)
		info, err := os.Lstat(path)
		if err != nil {
			return "", err
		}
		var content string
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			content, err = os.Readlink(path)
		case info.Mode().IsRegular() && info.Size() <= maxHashed:
			var text []byte
			text, err = os.ReadFile(path) //nolint:gosec // in the prepared directory
			content = string(text)
		}
		if err != nil {
			return "", err
		}
		hash.Write(fmt.Appendf(nil, "%q %v %d %d\n%s", name, info.Mode().Type(), info.Size(), len(content), content))
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
