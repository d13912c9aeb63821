package pakbuild

import (
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

//go:embed skeleton
var skeleton embed.FS

// notInNames are the characters that names of paks and services should not hold.
const notInNames = `[^a-z0-9]+`

// serviceFile is the file of the skeleton that is named like the pak.
const serviceFile = "service.yml"

// Init writes a small complete pak into a directory, which must not exist or be empty. The pak is named after the directory.
// It returns the names of the files, sorted, slash-separated.
func Init(dir string) ([]string, error) {
	if err := checkVacant(dir); err != nil {
		return nil, err
	}
	name, err := nameOf(dir)
	if err != nil {
		return nil, err
	}
	replacer := strings.NewReplacer("NAME", name, "SERVICE_ID", newID(), "PLAN_ID", newID())
	source, err := fs.Sub(skeleton, "skeleton")
	if err != nil {
		return nil, err
	}
	var written []string
	err = fs.WalkDir(source, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(source, file)
		if err != nil {
			return err
		}
		if file == serviceFile {
			file = name + ".yml"
		}
		written = append(written, file)
		return create(filepath.Join(dir, filepath.FromSlash(file)), replacer.Replace(string(text)))
	})
	if err != nil {
		return nil, fmt.Errorf("writing the pak: %w", err)
	}
	slices.Sort(written)
	return written, nil
}

// nameOf makes a name of the directory's.
func nameOf(dir string) (string, error) {
	full, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	name := strings.Trim(regexp.MustCompile(notInNames).ReplaceAllString(strings.ToLower(filepath.Base(full)), "-"), "-")
	if name == "" || name == "manifest" || name == "null" { // the file of that name is taken, and the word is no text
		return "my-service", nil
	}
	return name, nil
}

// newID returns a random UUID.
func newID() string {
	var raw [16]byte
	_, _ = rand.Read(raw[:]) // never fails
	raw[6], raw[8] = raw[6]&0x0f|0x40, raw[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", raw[:4], raw[4:6], raw[6:8], raw[8:10], raw[10:])
}

// create writes a file for the author, who will share it: with ordinary modes.
func create(name, text string) (err error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil { //nolint:gosec // an author's file
		return err
	}
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, readable) //nolint:gosec // an author's file
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	_, err = file.WriteString(text)
	return err
}
