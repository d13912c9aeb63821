package bill

import (
	"cmp"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"service-adapter/brokerpak"
	"service-adapter/internal/value"
)

// A Pak is the content of a built pak.
type Pak struct {
	// Name and Version are those of the manifest.
	Name, Version string
	// Files are the files of the pak. They must support io.ReaderAt, as the files of a directory do.
	Files fs.FS
	// Digests maps the path of each file that the bill lists to its hexadecimal SHA-256 digest.
	Digests map[string]string
	// Executables describes the executables among the files, by path. A file that is not in it is listed as a file.
	Executables map[string]Executable
}

// An Executable is an executable of a pak.
type Executable struct {
	// Entry is the entry of terraform_binaries.
	Entry brokerpak.Binary
	// Platform is the platform of the executable.
	Platform brokerpak.Platform
	// Origin is the file that the build fetched for the entry and the platform.
	Origin Origin
}

// An Origin is a file that a build fetched.
type Origin struct {
	// Location is a URL or the path of a local file, without secrets; see PublicReference.
	Location string
	// SHA256 is the hexadecimal digest of the file.
	SHA256 string
}

// ForPak returns the bill of a built pak: its executables, sorted by path, and then its other files. It returns an
// error if a file cannot be read or the bill cannot be encoded.
func ForPak(pak Pak) ([]byte, error) {
	bom := newBOM(cdx.Component{
		BOMRef: "pak", Type: cdx.ComponentTypeApplication, Name: pak.Name, Version: pak.Version, Licenses: licences(),
	})
	var components []cdx.Component
	var opaque []cdx.BOMReference
	for _, path := range value.Keys(pak.Digests) {
		executable, ok := pak.Executables[path]
		if !ok {
			components = append(components, file(path, pak.Digests[path]))
			continue
		}
		component := executable.component(path, pak.Digests[path])
		modules, err := linkedModules(pak.Files, path)
		if err != nil {
			return nil, err
		}
		if modules == nil {
			opaque = append(opaque, cdx.BOMReference(path))
		} else {
			component.Components = &modules
		}
		components = append(components, component)
	}
	slices.SortStableFunc(components, func(a, b cdx.Component) int { return cmp.Compare(a.Type, b.Type) })
	bom.Components = &components
	if opaque != nil {
		bom.Compositions = &[]cdx.Composition{{Aggregate: cdx.CompositionAggregateUnknown, Assemblies: &opaque}}
	}
	return encode(bom)
}

// file returns the component of a file that is not an executable, such as a licence or source code.
func file(path, digest string) cdx.Component {
	return cdx.Component{
		BOMRef: path, Type: cdx.ComponentTypeFile, Name: path, Version: unknown, Hashes: sha256Of(digest),
		Licenses: licences(),
	}
}

// component returns the component of an executable, without the modules that are linked into it. digest is its SHA-256
// digest.
func (e Executable) component(path, digest string) cdx.Component {
	references := []cdx.ExternalReference{{
		Type: cdx.ERTypeDistribution, URL: e.Origin.Location, Hashes: sha256Of(e.Origin.SHA256),
		Comment: "the file that was fetched",
	}}
	if e.Entry.Source != "" {
		references = append(references, cdx.ExternalReference{
			Type: cdx.ERTypeSourceDistribution, URL: PublicReference(e.Entry.Source), Comment: "the source code",
		})
	}
	return cdx.Component{
		BOMRef: path, Type: cdx.ComponentTypeApplication, Name: e.Entry.Name,
		Version: cmp.Or(e.Entry.FileVersion(), unknown), Hashes: sha256Of(digest), Licenses: licences(),
		ExternalReferences: &references,
		Properties:         properties("platform", e.Platform.String(), "provider", e.Entry.ProviderFQN),
		Evidence:           &cdx.Evidence{Occurrences: &[]cdx.EvidenceOccurrence{{Location: path}}},
	}
}

// PublicReference returns a URL without its credentials, query and fragment, which may be secret. It returns the path
// of a local file as a reference, and "unknown" for a text that is neither.
func PublicReference(location string) string {
	location = strings.TrimPrefix(location, "file://")
	parsed, err := url.Parse(location)
	switch {
	case err == nil && parsed.Host != "":
		return (&url.URL{Scheme: parsed.Scheme, Host: parsed.Host, Path: parsed.Path}).String()
	case strings.Contains(location, "://"):
		return unknown
	}
	path, _, _ := strings.Cut(location, "?")
	return (&url.URL{Path: path}).String()
}

// linkedModules returns the components of the Go modules that are linked into an executable, and nil if no Go compiler
// built it, or if it has no build information. It returns an error if the file cannot be read.
func linkedModules(files fs.FS, path string) ([]cdx.Component, error) {
	opened, err := files.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the build information: %w", err)
	}
	defer func() { _ = opened.Close() }() // opened for reading only, so that closing loses no data
	content, ok := opened.(io.ReaderAt)
	if !ok {
		return nil, fmt.Errorf("reading the build information of %s: its parts cannot be read", path)
	}
	info, err := buildinfo.Read(content)
	switch {
	case err == nil:
		return goModules(path, info), nil
	case errors.As(err, new(*fs.PathError)):
		return nil, fmt.Errorf("reading the build information: %w", err)
	default: // a script, or an executable of another compiler
		return nil, nil
	}
}
