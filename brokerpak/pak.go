// Package brokerpak implements the brokerpak format: Brokerpak V1 as published, and the keys that this project adds to
// service definitions. A brokerpak, or pak for short, is a .brokerpak zip or a directory with the same layout. It
// contains a manifest.yml, service definitions, OpenTofu templates and executables.
//
// Open parses the manifest and the definitions into a model and checks the rules of the format. It does not unpack a
// zip; only Pak.Executables unpacks the binaries of one platform into a cache.
//
// An error in a YAML file of a pak is reported as a diagnostic with file, line and column. Parsing continues after an
// error, so that one call reports all of them.
package brokerpak

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"service-adapter/internal/diag"
	"service-adapter/internal/value"
)

// manifestName is the name of the manifest, which every pak has in its root directory.
const manifestName = "manifest.yml"

// maxTextFile is the maximum size in bytes of a YAML or HCL file of a pak. Templates have a few kilobytes;
// definitions with embedded images have some hundred. The limit keeps a crafted zip from exhausting the memory.
const maxTextFile = 4 << 20

// A Pak is an opened brokerpak, which is a directory or a zip file with a manifest, service definitions and, if it is
// built, binaries. Open or Inspect returns it with the manifest and the definitions already parsed. It is read-only and
// safe for concurrent use. The caller must close it with Close. The zero Pak cannot be used.
type Pak struct {
	// Path is the file or directory name that was passed to Open or Inspect.
	Path string
	// Manifest is the content of manifest.yml.
	Manifest Manifest
	// Services are the service definitions, in the order of the manifest. A definition whose file cannot be read is
	// missing.
	Services []*Service
	// Warnings are the diagnostics that do not prevent the use of the pak, such as unknown keys in definitions.
	Warnings []diag.Diagnostic

	files   fs.FS
	archive *zip.Reader // nil if the pak is a directory
	closer  io.Closer   // the zip file; nil if the pak is a directory
}

// Open opens a pak and parses its manifest and service definitions. name is the path of a directory or of a zip file,
// absolute or relative to the working directory. Of a zip, only the central directory, the manifest, the definitions,
// and the OpenTofu files and other texts to which the definitions refer are read. Warnings, such as unknown keys in a
// definition, are not errors; Pak.Warnings contains them. The caller must close the returned Pak.
//
// If Open returns an error, the Pak is nil. The error is a diag.Errors with every error that was detected if the
// content of the manifest or of a definition is invalid, or if a file to which one of them refers is missing or
// cannot be read. Any other error means that name or its manifest.yml does not exist or cannot be read, or that the
// file is not a zip or is rejected as unsafe.
func Open(name string) (*Pak, error) {
	pak, diags, err := Inspect(name)
	if err != nil {
		return nil, err
	}
	if err := diags.Err(); err != nil {
		_ = pak.Close() // opened for reading, so closing it cannot lose data
		return nil, err
	}
	return pak, nil
}

// Inspect opens a pak like Open, but accepts invalid content: it returns the part of the pak that could be parsed, and
// a list of all diagnostics, both errors and the warnings that are also in Pak.Warnings. name is the path of a
// directory or of a zip file, absolute or relative to the working directory. A definition that cannot be read is only a
// diagnostic. Inspect returns an error, and nil for the pak and the list, if name or its manifest.yml does not exist or
// cannot be read, or if the file is not a zip or is rejected as unsafe. The caller must close the returned Pak.
func Inspect(name string) (*Pak, *diag.List, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, nil, fmt.Errorf("opening pak: %w", err)
	}
	if info.IsDir() {
		return load(&Pak{Path: name, files: os.DirFS(name)})
	}
	archive, file, err := openArchive(name)
	if err != nil {
		return nil, nil, err
	}
	pak, diags, err := load(&Pak{Path: name, files: archive, archive: archive, closer: file})
	if err != nil {
		_ = file.Close() // opened for reading, so closing it cannot lose data
	}
	return pak, diags, err
}

// Close closes the zip file of the pak and returns the error of closing it; a second call returns an error. Afterwards
// no file of the zip can be read, not even one that was opened with Files before. For a pak that is a directory, Close
// does nothing and returns nil.
func (p *Pak) Close() error {
	if p.closer == nil {
		return nil
	}
	return p.closer.Close()
}

// IsZip reports whether the pak was opened from a zip file, whose binaries must be unpacked before they can be
// executed. It returns false for a directory.
func (p *Pak) IsZip() bool { return p.archive != nil }

// Service returns the first service whose definition has exactly this name, or nil if the pak has none. The result is
// the element of p.Services, not a copy.
func (p *Pak) Service(name string) *Service {
	for _, service := range p.Services {
		if service.Name == name {
			return service
		}
	}
	return nil
}

// ServiceNames returns the names of the services, in the order of the manifest. It returns nil if the pak has none. The
// name of a definition without a name, which only a Pak from Inspect can have, is "".
func (p *Pak) ServiceNames() []string {
	return value.Convert(p.Services, func(s *Service) string { return s.Name })
}

// load reads and parses the manifest and the service definitions of the pak p, whose fields Path and files, and archive
// for a zip, must be set. It sets the other exported fields of p and returns p with all diagnostics: errors and
// warnings. An invalid manifest or definition, and a definition that cannot be read, are only diagnostics. load returns
// an error, which names the pak, and a nil pak and list, if manifest.yml cannot be read. It does not close p then.
func load(p *Pak) (*Pak, *diag.List, error) {
	text, err := p.readText(manifestName)
	if err != nil {
		return nil, nil, fmt.Errorf("opening pak %s: %s cannot be read: %s", p.Path, manifestName, withoutPath(err))
	}
	diags := &diag.List{}
	manifest := parseManifest(p.Display(manifestName), text, diags)
	p.Manifest = manifest
	for _, definition := range manifest.Definitions {
		if definition.Name == "" {
			continue // parseManifest has reported it
		}
		text, err := p.readText(definition.Name)
		if err != nil {
			diags.Errorf(definition.Pos, "missing-file", "service definition %q cannot be read: %s", definition.Name,
				withoutPath(err))
			continue
		}
		p.Services = append(p.Services, parseService(p, definition.Name, text, diags))
	}
	checkUnique(p.Services, diags)
	p.Warnings = slices.DeleteFunc(diags.All(), func(d diag.Diagnostic) bool { return d.Severity != diag.Warning })
	return p, diags, nil
}

// Files returns the files of the pak as a read-only file system. Paths are slash-separated and relative to the pak's
// root directory, such as "bin/linux/amd64/tofu". After Close, the files of a zip cannot be read.
func (p *Pak) Files() fs.FS { return p.files }

// readText returns the content of a text file of the pak. name is the path of the file relative to the pak's root and
// may contain "." and "..". A symbolic link in a directory is followed, even if it leads outside of the pak. readText
// returns an error if the path is absolute or leads outside of the pak by "..", or if the file does not exist (which
// errors.Is recognises as fs.ErrNotExist), is not a regular file, is larger than 4 MB (maxTextFile) or cannot be read.
// Some of these errors do not name the file.
func (p *Pak) readText(name string) (string, error) {
	clean := path.Clean(filepath.ToSlash(name))
	if !fs.ValidPath(clean) {
		return "", errors.New("the path must be relative and inside the pak")
	}
	info, err := fs.Stat(p.files, clean)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", errors.New("it is not a regular file")
	}
	file, err := p.files.Open(clean)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }() // opened for reading, so closing it cannot lose data
	data, err := io.ReadAll(io.LimitReader(file, maxTextFile+1))
	if err != nil {
		return "", err
	}
	if len(data) > maxTextFile {
		return "", fmt.Errorf("the file is larger than %d MB", maxTextFile>>20)
	}
	return string(data), nil
}

// Display returns the name of a file of the pak for messages. The parameter name is the path of the file relative to
// the pak's root; the file does not have to exist. For a pak that is a directory, the result is the shortest form of
// the file's path: "redis/redis.yml" if the pak was opened as "./redis". For a zip, it begins with the path with
// which the zip was opened: "./redis.brokerpak!/redis.yml".
func (p *Pak) Display(name string) string {
	if p.IsZip() {
		return p.Path + "!/" + path.Clean(filepath.ToSlash(name))
	}
	return filepath.Join(p.Path, name)
}

// withoutPath returns the text of a file system error, which must not be nil, without operation and path, for messages
// that already contain the path: "permission denied" for the error "open a.yml: permission denied". If err does not
// wrap a *fs.PathError, the result is its whole text.
func withoutPath(err error) string {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		return pathError.Err.Error()
	}
	return err.Error()
}

// checkUnique adds errors to diags for services with the same name or the same id, and for plans with the same id,
// whether they belong to one service or to several, because the platform identifies services and plans by them. The
// error is at the later service or plan and names the position of the first. Empty names and ids are ignored, because
// decoding has reported them. Plan names are not compared.
func checkUnique(services []*Service, diags *diag.List) {
	seen := map[string]diag.Pos{}
	unique := func(label, key string, pos diag.Pos) {
		if key == "" {
			return
		}
		id := label + " " + key
		if first, ok := seen[id]; ok {
			diags.Errorf(pos, "duplicate", "%s %q is used twice; first in %s", label, key, first)
			return
		}
		seen[id] = pos
	}
	for _, service := range services {
		unique("service name", service.Name, service.Pos)
		unique("service id", service.ID, service.Pos)
		for _, plan := range service.Plans {
			unique("plan id", plan.ID, plan.Pos)
		}
	}
}
