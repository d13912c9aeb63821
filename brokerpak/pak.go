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

// A Pak is an opened brokerpak. It is read-only and safe for concurrent use. The caller must close it.
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

// Open opens a pak, which is a directory or a zip file, and parses its manifest and service definitions. Of a zip,
// only the central directory and these files are read.
//
// If the files can be read but their content is invalid, the error is a diag.Errors with every error that was
// detected. Other errors mean that the zip or its manifest cannot be read, or that the zip is rejected as unsafe. The
// caller must close the returned Pak, which is nil if there is an error.
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

// Inspect opens a pak like Open, but also returns a pak whose files have invalid content: the part of it that could be
// parsed, and all diagnostics, including those in Pak.Warnings. The returned error is non-nil only if the zip or its
// manifest does not exist or cannot be read, or if the zip is rejected as unsafe; the pak and the list are nil then.
// The caller must close the returned Pak.
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

// Close closes the zip file of the pak and returns the error of closing it. A second call returns an error. Files that
// were obtained from the pak cannot be read afterwards. Close does nothing for a directory.
func (p *Pak) Close() error {
	if p.closer == nil {
		return nil
	}
	return p.closer.Close()
}

// IsZip reports whether the pak is a zip, whose binaries must be unpacked before they can be executed.
func (p *Pak) IsZip() bool { return p.archive != nil }

// Service returns the first service with the given name, or nil if the pak has none.
func (p *Pak) Service(name string) *Service {
	for _, service := range p.Services {
		if service.Name == name {
			return service
		}
	}
	return nil
}

// ServiceNames returns the names of the services, in the order of the manifest.
func (p *Pak) ServiceNames() []string {
	return value.Convert(p.Services, func(s *Service) string { return s.Name })
}

// load parses the manifest and the service definitions of a pak whose files and Path are already set, and returns the
// same pak with all diagnostics. It returns an error, which names the pak, only if manifest.yml cannot be read. The pak
// is then nil and is not closed. A definition that cannot be read is reported as a diagnostic.
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

// Files returns the files of the pak as a file system, which can be used until Close. Paths are relative to the pak's
// root directory.
func (p *Pak) Files() fs.FS { return p.files }

// readText returns the content of a text file of the pak. The name is relative to the pak's root and may contain "."
// and "..", but must not lead outside of the pak. readText returns an error if it does, or if the file does not exist,
// is not a regular file, is larger than maxTextFile or cannot be read.
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

// Display returns the name of a file of the pak for messages: "redis/redis.yml" for a directory, or
// "redis.brokerpak!/redis.yml" for a zip.
func (p *Pak) Display(name string) string {
	if p.IsZip() {
		return p.Path + "!/" + path.Clean(filepath.ToSlash(name))
	}
	return filepath.Join(p.Path, name)
}

// withoutPath returns the text of a file system error without operation and path, for messages that already contain the
// path. For other errors it returns the whole text.
func withoutPath(err error) string {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		return pathError.Err.Error()
	}
	return err.Error()
}

// checkUnique adds errors to diags for services with the same name or id, and for plans of any service with the same
// id, because the platform identifies them by it. The error is at the later one and names the position of the first.
// Empty names and ids are ignored; they are reported elsewhere.
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
