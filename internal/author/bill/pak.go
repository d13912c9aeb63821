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

// A Pak is the content of a built pak, which ForPak describes in a bill: the name and version in its manifest, its
// files, the digests of those files that the bill lists, and a description of each executable among them. The
// executables in Files must implement io.ReaderAt, as the files of a directory do. A file that is not in Executables is
// listed without its modules. The zero value is a pak without a name and files.
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

// An Executable describes one executable file of a built pak: its entry of terraform_binaries in the manifest, its
// platform, and its origin, which is the file, often an archive, that the build fetched for this entry and platform.
type Executable struct {
	// Entry is the entry of terraform_binaries.
	Entry brokerpak.Binary
	// Platform is the platform of the executable.
	Platform brokerpak.Platform
	// Origin is the file that the build fetched for the entry and the platform.
	Origin Origin
}

// An Origin identifies a file that a build fetched: Location is its URL or local path without secrets, and SHA256 is
// the hexadecimal digest of the file, or "" if that is not known.
type Origin struct {
	// Location is a URL or the path of a local file, without secrets; see PublicReference.
	Location string
	// SHA256 is the hexadecimal digest of the file.
	SHA256 string
}

// ForPak returns the bill of materials of a built pak as CycloneDX JSON. It has a component for each path in
// pak.Digests: first the executables, which are those that pak.Executables also contains, then the other files, both
// sorted by path. An executable with the build information of a Go compiler lists the modules that are linked into it;
// any other executable is also listed under compositions with the aggregate "unknown". ForPak reads only the
// executables. It returns nil and an error if one of them cannot be read (see linkedModules) or does not implement
// io.ReaderAt, or if the bill cannot be encoded.
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

// file returns the component of a file of a pak that is not an executable, such as a licence or source code. path is
// the slash-separated path in the pak, and is both the name and the reference of the component. digest is its SHA-256
// digest in hexadecimal, or "" if that is not known.
func file(path, digest string) cdx.Component {
	return cdx.Component{
		BOMRef: path, Type: cdx.ComponentTypeFile, Name: path, Version: unknown, Hashes: sha256Of(digest),
		Licenses: licences(),
	}
}

// component returns the component of an executable, without the modules that are linked into it. path is the
// slash-separated path in the pak, and is the reference of the component. The name and the version are those of
// e.Entry, the version in the form of Binary.FileVersion, or "unknown" if e.Entry has none. The component refers to
// the location of e.Origin, which contains no secrets, and, if e.Entry has a URL of the source code, to that URL,
// from which component removes secrets (see PublicReference). digest is the SHA-256 digest of the executable in
// hexadecimal, or "" if that is not known.
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

// PublicReference returns a location without parts that may be secret, as the text for a bill or a lock. For the path
// of a local file, it is the path without its query and without the prefix "file://", if any, escaped as in a URL:
// "my%20file" for "file://my file". For a URL with a host and another scheme, it is the URL without its credentials,
// query and fragment. For any other text with "://", it is "unknown".
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

// linkedModules returns a component for each Go module that is linked into the executable at a path in files; see
// goModules. The path is also the reference of the executable in the bill. The result is nil, without an error, if no
// Go compiler built the file, or if it has no build information.
//
// linkedModules returns an error if the file cannot be opened or read, or if it does not implement io.ReaderAt. An
// error of reading counts only if it is a *fs.PathError, as those of a directory are; any other one results in nil.
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
