// Package brokerpak is the pak format: Brokerpak V1 as published, with the additions of this project in the service
// definitions. It reads a pak from a .brokerpak zip or from a directory of the same layout, without unpacking the zip.
//
// Every fault of a pak's YAML files is reported with file, line and column, and all of them at once.
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

// manifestName is the file every pak has in its root.
const manifestName = "manifest.yml"

// maxTextFile bounds the YAML and HCL files of a pak in bytes. Templates are a few kilobytes, definitions with images in them
// some hundred; the bound keeps a crafted zip from filling the memory.
const maxTextFile = 4 << 20

// Pak is an opened brokerpak. It is read only and safe for concurrent use.
type Pak struct {
	// Path is where the pak was opened.
	Path string
	// Manifest is the content of manifest.yml.
	Manifest Manifest
	// Services are the service definitions in the order of the manifest.
	Services []*Service
	// Warnings are diagnostics that do not keep the pak from being used, such as unknown keys in definitions.
	Warnings []diag.Diagnostic

	files   fs.FS
	archive *zip.Reader // nil: a directory
	closer  io.Closer
}

// Open reads the manifest and the service definitions of a pak: a directory, or a zip file, of which it reads the index and
// those files only. The error is a diag.Errors when the files were readable and their content is wrong. Close releases it.
func Open(name string) (*Pak, error) {
	pak, diags, err := Inspect(name)
	if err != nil {
		return nil, err
	}
	if err := diags.Err(); err != nil {
		_ = pak.Close() // opened for reading: closing cannot lose anything
		return nil, err
	}
	return pak, nil
}

// Inspect is Open for those who look at a pak with faults as well: it returns what could be read, and all diagnostics, also
// those in Pak.Warnings. An error means that the pak's files cannot be read.
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
		_ = file.Close() // opened for reading: closing cannot lose anything
	}
	return pak, diags, err
}

// Close releases the pak's file.
func (p *Pak) Close() error {
	if p.closer == nil {
		return nil
	}
	return p.closer.Close()
}

// IsZip tells whether the pak is a zip, whose binaries must be unpacked before they can run.
func (p *Pak) IsZip() bool { return p.archive != nil }

// Service returns the service of a name, or nil.
func (p *Pak) Service(name string) *Service {
	for _, service := range p.Services {
		if service.Name == name {
			return service
		}
	}
	return nil
}

// ServiceNames returns the names of the services in their order.
func (p *Pak) ServiceNames() []string {
	return value.Each(p.Services, func(s *Service) string { return s.Name })
}

// load reads the pak of which the files are known.
func load(p *Pak) (*Pak, *diag.List, error) {
	text, err := p.readText(manifestName)
	if err != nil {
		return nil, nil, fmt.Errorf("opening pak %s: %s cannot be read: %s", p.Path, manifestName, reason(err))
	}
	diags := &diag.List{}
	manifest := parseManifest(p.Display(manifestName), text, diags)
	for _, definition := range manifest.Definitions {
		if definition.Name == "" {
			continue // reported already
		}
		text, err := p.readText(definition.Name)
		if err != nil {
			diags.Errorf(definition.Pos, "missing-file", "service definition %q cannot be read: %s", definition.Name, reason(err))
			continue
		}
		p.Services = append(p.Services, parseService(p, definition.Name, text, diags))
	}
	checkUnique(p.Services, diags)
	p.Warnings = slices.DeleteFunc(diags.All(), func(d diag.Diagnostic) bool { return d.Severity != diag.Warning })
	p.Manifest = manifest
	return p, diags, nil
}

// Files are the files of the pak, by their path in it.
func (p *Pak) Files() fs.FS { return p.files }

// readText reads a text file of the pak. The name is relative to the pak's root, "./" is tolerated, ".." is not.
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
		return "", errors.New("it is not a plain file")
	}
	file, err := p.files.Open(clean)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }() // opened for reading: closing cannot lose anything
	data, err := io.ReadAll(io.LimitReader(file, maxTextFile+1))
	if err != nil {
		return "", err
	}
	if len(data) > maxTextFile {
		return "", fmt.Errorf("the file is larger than %d MB", maxTextFile>>20)
	}
	return string(data), nil
}

// Display is how a file of the pak is called in messages: "redis/redis.yml", or "redis.brokerpak!/redis.yml" in a zip.
func (p *Pak) Display(name string) string {
	if p.IsZip() {
		return p.Path + "!/" + path.Clean(filepath.ToSlash(name))
	}
	return filepath.Join(p.Path, name)
}

// reason shortens an error of the file system: the path is already in the message.
func reason(err error) string {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		return pathError.Err.Error()
	}
	return err.Error()
}

// checkUnique reports services and plans that share a name or an id; the platform would mix them up.
func checkUnique(services []*Service, diags *diag.List) {
	seen := map[string]diag.Pos{}
	unique := func(what, key string, pos diag.Pos) {
		if key == "" {
			return
		}
		id := what + " " + key
		if first, ok := seen[id]; ok {
			diags.Errorf(pos, "duplicate", "%s %q is used twice; first in %s", what, key, first)
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
