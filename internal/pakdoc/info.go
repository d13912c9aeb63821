package pakdoc

import (
	"archive/zip"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"service-adapter/brokerpak"
	"service-adapter/internal/value"
)

// Info is a summary of a pak. Lists are never nil, so that they are lists in JSON.
type Info struct {
	Format       int               `json:"format"` // the version of the pak's format
	Name         string            `json:"name"`
	Version      string            `json:"version"`
	Platforms    []string          `json:"platforms"` // "os/arch"
	Metadata     map[string]string `json:"metadata"`
	Parameters   []InfoParameter   `json:"parameters"`
	Dependencies []InfoDependency  `json:"dependencies"`
	Services     []InfoService     `json:"services"`
	// Contents are the files of a zip; a directory has none.
	Contents []InfoFile `json:"contents"`
}

// InfoParameter is an environment variable that operators may set.
type InfoParameter struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// InfoDependency is a bundled binary.
type InfoDependency struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Source  string `json:"source"`
}

// InfoService is a service and its plans.
type InfoService struct {
	ID          string     `json:"id"`
	Name        string     `json:"name"`
	Description string     `json:"description"`
	Plans       []InfoPlan `json:"plans"`
}

// InfoPlan is a plan of a service.
type InfoPlan struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description"`
}

// InfoFile is a file of a zip; Size is in bytes, unpacked.
type InfoFile struct {
	Mode string `json:"mode"`
	Size uint64 `json:"size"`
	Name string `json:"name"`
}

// NewInfo summarises a pak. The error is about reading the zip's index.
func NewInfo(pak *brokerpak.Pak) (Info, error) {
	manifest := pak.Manifest
	info := Info{
		Format: manifest.PackVersion, Name: manifest.Name, Version: manifest.Version, Platforms: []string{},
		Metadata: map[string]string{}, Parameters: []InfoParameter{}, Dependencies: []InfoDependency{}, Services: []InfoService{},
		Contents: []InfoFile{},
	}
	for _, platform := range manifest.Platforms {
		info.Platforms = append(info.Platforms, platform.String())
	}
	for key, text := range manifest.Metadata {
		info.Metadata[key] = text
	}
	for _, parameter := range manifest.Parameters {
		info.Parameters = append(info.Parameters, InfoParameter{Name: parameter.Name, Description: parameter.Description})
	}
	for _, binary := range manifest.Binaries {
		info.Dependencies = append(info.Dependencies, InfoDependency{binary.Name, binary.Version, binary.Source})
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
	contents, err := readIndex(pak.Path)
	info.Contents = contents
	return info, err
}

func readIndex(path string) (files []InfoFile, err error) {
	archive, err := zip.OpenReader(path)
	if err != nil {
		return nil, fmt.Errorf("reading the index of %s: %w", path, err)
	}
	defer func() { _ = archive.Close() }() // opened for reading: closing cannot lose anything
	files = []InfoFile{}
	for _, file := range archive.File {
		files = append(files, InfoFile{file.Mode().String(), file.UncompressedSize64, file.Name})
	}
	return files, nil
}

// WriteText writes the summary as tables for people.
func (i Info) WriteText(w io.Writer) error {
	t := &tables{writer: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	t.title("Information")
	t.row("format", strconv.Itoa(i.Format))
	t.row("name", i.Name)
	t.row("version", i.Version)
	t.row("platforms", strings.Join(i.Platforms, ", "))
	for _, key := range value.Keys(i.Metadata) {
		t.row("metadata."+key, i.Metadata[key])
	}
	if len(i.Parameters) > 0 {
		t.title("Parameters")
		t.row("NAME", "DESCRIPTION")
	}
	for _, parameter := range i.Parameters {
		t.row(parameter.Name, parameter.Description)
	}
	t.title("Dependencies")
	t.row("NAME", "VERSION", "SOURCE")
	for _, dependency := range i.Dependencies {
		t.row(dependency.Name, dependency.Version, dependency.Source)
	}
	t.title("Services")
	t.row("ID", "NAME", "PLANS", "DESCRIPTION")
	for _, service := range i.Services {
		t.row(service.ID, service.Name, strconv.Itoa(len(service.Plans)), service.Description)
	}
	if len(i.Contents) > 0 {
		t.title("Contents")
		t.row("MODE", "SIZE", "NAME")
	}
	for _, file := range i.Contents {
		t.row(file.Mode, strconv.FormatUint(file.Size, 10), file.Name)
	}
	if t.err == nil {
		t.err = t.writer.Flush()
	}
	return t.err
}

// tables writes rows under titles and keeps the first error.
type tables struct {
	writer *tabwriter.Writer
	titled bool
	err    error
}

// title begins a table; each aligns its columns by itself.
func (t *tables) title(text string) {
	if t.titled {
		t.write("\n")
	}
	t.titled = true
	t.write(text + "\n")
}

// row writes cells; what is missing is a hyphen, so that columns stay apart.
func (t *tables) row(cells ...string) {
	for i, cell := range cells {
		if cells[i] = oneLine(cell); cells[i] == "" {
			cells[i] = "-"
		}
	}
	t.write("  " + strings.Join(cells, "\t") + "\n")
}

func (t *tables) write(text string) {
	if t.err == nil {
		_, t.err = io.WriteString(t.writer, text)
	}
}
