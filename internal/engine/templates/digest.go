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

// digest identifies the content of a prepared directory.
type digest struct {
	// Names are the paths of the files and symbolic links, relative to the directory.
	Names []string `json:"names"`
	// Sum is the SHA-256 of the names, types, sizes and contents of these files, in hexadecimal digits.
	Sum string `json:"sum"`
}

// writeDigest writes the digest file of a directory that is otherwise complete. The directory must not have one yet,
// because the digest covers all files. writeDigest returns an error if a file cannot be read or the digest file cannot
// be written.
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

// checkDigest returns an error that wraps errDamaged if a directory differs from its digest file, or has none. It
// returns nil otherwise. Additional files, and changed contents of files larger than maxHashed, are not detected.
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

// compute returns the sum of the files in d.Names as they are in the directory, in hexadecimal digits. The content of a
// file larger than maxHashed does not affect it. compute returns an error if one of the files is missing or cannot be
// read.
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
