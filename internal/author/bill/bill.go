// Package bill writes bills of materials in the format CycloneDX 1.6 (JSON): one for a built pak, and one for this
// program. A bill lists executables with their versions, SHA-256 digests and origins, and below each executable that a
// Go compiler built the modules that are linked into it.
//
// A bill is deterministic. It has no time stamp, its lists are sorted, and its serial number is derived from its
// content, so that the same content has the same bill.
//
// A version or licence that is not known is the text "unknown". The parts of an executable that no Go compiler built
// are not known either; such executables are listed under compositions with the aggregate "unknown".
package bill

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// unknown is the text of a version or a licence that is not known.
const unknown = "unknown"

// propertyPrefix is the prefix of the names of this program's properties in a bill.
const propertyPrefix = "service-adapter:"

// licences returns the list of licences that every component of a bill gets: a single one with the name "unknown",
// because neither an executable nor its build information contains its licences.
func licences() *cdx.Licenses {
	return &cdx.Licenses{{License: &cdx.License{Name: unknown}}}
}

// sha256Of returns the list of hashes of a component, which has one element, for a SHA-256 digest in hexadecimal
// digits. It returns nil for "", which means that the digest is not known. The digest is not checked.
func sha256Of(digest string) *[]cdx.Hash {
	if digest == "" {
		return nil
	}
	return &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: digest}}
}

// properties returns the list of properties of a component for alternating names and values, in this order. It adds the
// prefix "service-adapter:" to each name. It leaves out properties with the value "", and returns nil if none is left.
// It panics if the number of arguments is odd.
func properties(pairs ...string) *[]cdx.Property {
	var list []cdx.Property
	for pair := range slices.Chunk(pairs, 2) {
		if pair[1] != "" {
			list = append(list, cdx.Property{Name: propertyPrefix + pair[0], Value: pair[1]})
		}
	}
	if list == nil {
		return nil
	}
	return &list
}

// encode sets the serial number of a bill, which must not have one yet, to a UUID that is derived from the rest of its
// content, and returns the bill as indented JSON (CycloneDX 1.6) with a line break at its end. It returns nil and an
// error if the bill cannot be encoded.
func encode(bom *cdx.BOM) ([]byte, error) {
	text, err := encodeAsIs(bom)
	if err != nil {
		return nil, err
	}
	bom.SerialNumber = "urn:uuid:" + contentUUID(text)
	return encodeAsIs(bom)
}

// encodeAsIs returns a bill as indented JSON (CycloneDX 1.6) with a line break at its end, and does not change the
// bill; encode also sets the serial number. It returns nil and an error if the CycloneDX library cannot encode the
// bill.
func encodeAsIs(bom *cdx.BOM) ([]byte, error) {
	var out bytes.Buffer
	encoder := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON)
	if err := encoder.SetPretty(true).SetEscapeHTML(false).EncodeVersion(bom, cdx.SpecVersion1_6); err != nil {
		return nil, fmt.Errorf("writing the bill of materials: %w", err)
	}
	return out.Bytes(), nil
}

// contentUUID returns a UUID of version 8, such as "0b2c5f4e-8d1a-8c57-9a3e-7f6d2b1c0e94", that is derived from the
// SHA-256 digest of a text (RFC 9562, appendix B.2). The same text always has the same UUID. Version 5 would use SHA-1,
// which this program does not use.
func contentUUID(text []byte) string {
	id := sha256.Sum256(text)
	id[6] = id[6]&0x0f | 0x80 // the version
	id[8] = id[8]&0x3f | 0x80 // the variant
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:16])
}

// newBOM returns a new bill of materials that describes subject, a pak or this program. It names this program, without
// a version, as the tool that wrote the bill. The bill has no components, serial number or time stamp yet.
func newBOM(subject cdx.Component) *cdx.BOM {
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{
		Component: &subject,
		Tools: &cdx.ToolsChoice{Components: &[]cdx.Component{
			// Without a version, because each release of this program would otherwise write another bill.
			{Type: cdx.ComponentTypeApplication, Name: "service-adapter"},
		}},
	}
	return bom
}

// goModules returns a component for each Go module in the build information of an executable, sorted by module path:
// the standard library as "stdlib", the main module, if the information names one, and its dependencies. A replaced
// module is listed as its replacement only. parent is the reference of the executable in the bill; the reference of a
// module is parent, "#" and the path of the module, so that it is unique in the bill. info must not be nil. The result
// has at least one component.
func goModules(parent string, info *debug.BuildInfo) []cdx.Component {
	goVersion, _, _ := strings.Cut(strings.TrimPrefix(info.GoVersion, "go"), " ")
	modules := []cdx.Component{goModule(parent, debug.Module{Path: "stdlib", Version: goVersion})}
	if info.Main.Path != "" {
		modules = append(modules, goModule(parent, info.Main))
	}
	for _, dependency := range info.Deps {
		for dependency.Replace != nil {
			dependency = dependency.Replace
		}
		modules = append(modules, goModule(parent, *dependency))
	}
	slices.SortFunc(modules, func(a, b cdx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })
	return modules
}

// goModule returns the component of one Go module for a bill: with the path of the module as its name, its version, its
// package URL and, if the build information contains it, its checksum in go.sum. The field Replace of module is
// ignored. The reference of the component is parent, which is the reference of the executable in the bill, followed by
// "#" and the path.
//
// A version that is empty or in parentheses, such as "(devel)", becomes "unknown", and the package URL then has none. A
// module that was replaced by a directory, so that its path begins with "." or "/", has no package URL.
func goModule(parent string, module debug.Module) cdx.Component {
	version := module.Version
	if version == "" || strings.HasPrefix(version, "(") { // "(devel)"
		version = unknown
	}
	component := cdx.Component{
		BOMRef: parent + "#" + module.Path, Type: cdx.ComponentTypeLibrary, Name: module.Path, Version: version,
		Licenses: licences(), Properties: properties("go-sum", module.Sum),
	}
	if !strings.HasPrefix(module.Path, ".") && !strings.HasPrefix(module.Path, "/") { // else the path of a directory
		component.PackageURL = packageURL(module.Path, version)
	}
	return component
}

// packageURL returns the package URL (purl) of a Go module, such as "pkg:golang/github.com/x/y@v1.2.3". The path is
// in lower case, as the type golang requires, and both parts are escaped. If version is "unknown", the URL has no
// version; version must not be "".
func packageURL(module, version string) string {
	elements := strings.Split(strings.ToLower(module), "/")
	for i, element := range elements {
		elements[i] = url.QueryEscape(element)
	}
	text := "pkg:golang/" + strings.Join(elements, "/")
	if version != unknown {
		text += "@" + url.QueryEscape(version)
	}
	return text
}

// ForProgram returns the bill of materials of this program as CycloneDX JSON, with a component for each Go module that
// is linked into it. info is the build information of the program and must not be nil. version is the release of the
// program, and commit the commit that it was built from; a commit of "" is written as "unknown". ForProgram returns an
// error if the bill cannot be encoded.
func ForProgram(version, commit string, info *debug.BuildInfo) ([]byte, error) {
	const name = "service-adapter"
	bom := newBOM(cdx.Component{
		BOMRef: name, Type: cdx.ComponentTypeApplication, Name: name, Version: version, Licenses: licences(),
		Properties: properties("commit", cmp.Or(commit, unknown)),
	})
	modules := goModules(name, info)
	bom.Components = &modules
	return encode(bom)
}
