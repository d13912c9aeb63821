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

// An Info is a summary of a pak. The lists of an Info from NewInfo are never nil, so that empty lists are not null in
// JSON.
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

// An InfoService is a service and its plans.
type InfoService struct {
	ID          string     `json:"id"`
	Name        string     `json:"name"`
	Description string     `json:"description"`
	Plans       []InfoPlan `json:"plans"`
}

// An InfoPlan is a plan of a service.
type InfoPlan struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description"`
}

// An InfoFile is a file in a pak file. Name is its slash-separated path, and Size its uncompressed size in bytes. Mode
// has the form of fs.FileMode.String.
type InfoFile struct {
	Mode string `json:"mode"`
	Size int64  `json:"size"`
	Name string `json:"name"`
}

// NewInfo returns the summary of a pak. The error is not nil only if the index of a pak file cannot be read; Contents
// is incomplete then.
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

// WriteText writes the summary as aligned tables of plain text. An empty cell is written as a hyphen. The error is not
// nil if the template or writing to w fails; a part may be written then.
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
