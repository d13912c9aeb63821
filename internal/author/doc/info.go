package doc

import (
	"cmp"
	_ "embed"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"text/tabwriter"
	"text/template"

	"service-adapter/brokerpak"
	"service-adapter/internal/value"
)

// An Info is a summary of the content of a pak: the data of its manifest, its services with their plans, and the files
// of a pak file. It is encoded as JSON or written by WriteText. In an Info from NewInfo, lists and maps are never nil,
// so that JSON has [] and {} instead of null.
type Info struct {
	Format    int               `json:"format"` // the version of the format of the pak
	Name      string            `json:"name"`
	Version   string            `json:"version"`
	Platforms []string          `json:"platforms"` // "os/arch"
	Metadata  map[string]string `json:"metadata"`
	// Parameters are the environment variables that operators may set.
	Parameters   []brokerpak.Parameter `json:"parameters"`
	Dependencies []brokerpak.Binary    `json:"dependencies"`
	Services     []InfoService         `json:"services"`
	// Contents are the files in a pak file. The list is empty for a pak directory.
	Contents []InfoFile `json:"contents"`
}

// An InfoService is the part of an Info about one service: its id, name and description, and its plans in the order of
// the definition. The list of plans is empty if the operator defines the plans.
type InfoService struct {
	ID          string     `json:"id"`
	Name        string     `json:"name"`
	Description string     `json:"description"`
	Plans       []InfoPlan `json:"plans"`
}

// An InfoPlan is the part of an InfoService about one plan: its id, name and description, as the definition contains
// them.
type InfoPlan struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description"`
}

// An InfoFile is one file in a pak file (a zip). Name is its slash-separated path in the zip, and Size its uncompressed
// size in bytes. Mode has the form of fs.FileMode.String, such as "-rwxr-xr-x". Directories are not listed.
type InfoFile struct {
	Mode string `json:"mode"`
	Size int64  `json:"size"`
	Name string `json:"name"`
}

// NewInfo returns the summary of a pak, which must be open. The error is not nil only if the index of a pak file (a
// zip) cannot be read; Contents is incomplete then, and the other fields are set. For a pak directory, Contents is
// empty and the error is always nil.
func NewInfo(pak *brokerpak.Pak) (Info, error) {
	manifest := pak.Manifest
	info := Info{
		Format: manifest.PackVersion, Name: manifest.Name, Version: manifest.Version,
		Metadata:     value.Merge(manifest.Metadata),
		Platforms:    append([]string{}, value.Convert(manifest.Platforms, brokerpak.Platform.String)...),
		Parameters:   append([]brokerpak.Parameter{}, manifest.Parameters...),
		Dependencies: append([]brokerpak.Binary{}, manifest.Binaries...), Services: []InfoService{},
		Contents: []InfoFile{},
	}
	for _, service := range pak.Services {
		plans := []InfoPlan{}
		for _, plan := range service.Plans {
			plans = append(plans, InfoPlan{plan.ID, plan.Name, plan.Description})
		}
		info.Services = append(info.Services, InfoService{service.ID, service.Name, service.Description, plans})
	}
	if !pak.IsZip() {
		return info, nil
	}
	err := fs.WalkDir(pak.Files(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		file, err := entry.Info()
		if err == nil {
			info.Contents = append(info.Contents, InfoFile{file.Mode().String(), file.Size(), name})
		}
		return err
	})
	if err != nil {
		err = fmt.Errorf("reading the index of %s: %w", pak.Path, err)
	}
	return info, err
}

//go:embed info.txt.tmpl
var infoText string

// WriteText writes the summary as plain text, as tables with aligned columns. An empty cell is written as a hyphen, and
// each cell is on one line. The tables of parameters and of contents are left out if they have no rows. WriteText
// returns an error if w does, or if the template fails; a part of the text may have been written then.
func (i Info) WriteText(w io.Writer) error {
	functions := template.FuncMap{
		"join": strings.Join,
		"cell": func(text string) string { return cmp.Or(oneLine(text), "-") },
	}
	tables := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if err := execute(tables, infoText, functions, i); err != nil {
		return err
	}
	return tables.Flush()
}
