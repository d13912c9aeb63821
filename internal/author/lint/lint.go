// Package lint reports defects of a brokerpak. It checks the requirements of the specification, including those that
// other brokers do not check. It compares the service definitions, the OpenTofu templates, the BOSH templates and the
// binaries with each other. And it generates the manifest of each plan with sample values, to find errors that a
// deployment would meet. Every finding has a position in a file and a rule of docs/rules.md.
//
// An error means that the pak, or a part of it, cannot work. A violation of the specification that does not prevent
// the pak from working is a warning.
package lint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak"
	"service-adapter/docs"
	"service-adapter/internal/author/release"
	"service-adapter/internal/diag"
	"service-adapter/internal/hclfile"
	"service-adapter/internal/yamltree"
)

// A Report is the result of checking a pak.
type Report struct {
	// Diagnostics are all findings, sorted by position.
	Diagnostics []diag.Diagnostic
	// Files is the number of text files that were checked.
	Files int
	// Notes are remarks that are not findings: checks that were left out, and features that operators cannot use with a
	// service, each with the reason.
	Notes []string

	texts map[string]string // the content of the files with findings, by the path in their positions
}

// Source returns the text of a file with findings, whose path is that of a finding's position. The second result is
// false for any other file, and for a file that could not be read.
func (r *Report) Source(file string) (string, bool) {
	text, ok := r.texts[file]
	return text, ok
}

// A linter checks one pak.
type linter struct {
	pak   *brokerpak.Pak
	diags *diag.List
	files map[string]bool // the checked files, by the path in positions
	notes []string
	// releases are those that the author gave, with which the manifests are compared.
	releases []*release.Release
}

// Lint checks the pak directory or pak file at path. It does not run OpenTofu and does not modify the pak. The error is
// not nil if the pak cannot be read or closed, or if ctx ended; the report is then nil or incomplete. Defects of the
// pak are not errors but findings of the report. The generated manifests are compared with the releases, which must be
// all that the service deploys; without releases, jobs and their properties and links are not checked.
func Lint(ctx context.Context, path string, releases ...*release.Release) (*Report, error) {
	pak, diags, err := brokerpak.Inspect(path)
	if err != nil {
		return nil, err
	}
	l := &linter{
		pak: pak, diags: diags, files: map[string]bool{pak.Display("manifest.yml"): true}, releases: releases,
	}
	err = l.lint(ctx)
	report := &Report{Diagnostics: l.diags.All(), Files: len(l.files), Notes: l.notes, texts: map[string]string{}}
	for _, finding := range report.Diagnostics {
		l.addSource(report, finding.Pos.File)
	}
	return report, errors.Join(err, pak.Close())
}

// lint adds the findings about the binaries, the given releases, each service and unused files to l.diags. It returns
// an error if ctx ended or if a file that was read before cannot be read again.
func (l *linter) lint(ctx context.Context) error {
	l.binaries()
	l.defects()
	l.pins()
	l.checkReleases()
	for _, service := range l.pak.Services {
		if err := ctx.Err(); err != nil {
			return err
		}
		l.files[l.pak.Display(service.File)] = true
		text, err := fs.ReadFile(l.pak.Files(), filepath.ToSlash(filepath.Clean(service.File)))
		if err != nil {
			return fmt.Errorf("reading %s again: %w", service.File, err)
		}
		positions, ok := indexPositions(l.pak.Display(service.File), string(text))
		if !ok {
			continue // not YAML, which was reported
		}
		check := &serviceCheck{linter: l, service: service, positions: positions}
		check.provision, _ = hclfile.Inspect(service.Provision.Templates) // templates reports the findings
		if err := check.run(ctx); err != nil {
			return err
		}
	}
	return l.unused()
}

// addSource adds the content of a file to the report, so that findings can be shown with the lines around them. A
// file that cannot be read is left out.
func (l *linter) addSource(report *Report, file string) {
	if _, exists := report.texts[file]; exists {
		return
	}
	name, inZip := strings.CutPrefix(file, l.pak.Path+"!/")
	if !inZip {
		relative, err := filepath.Rel(l.pak.Path, file)
		if err != nil {
			return
		}
		name = filepath.ToSlash(relative)
	}
	if text, err := fs.ReadFile(l.pak.Files(), name); err == nil {
		report.texts[file] = string(text)
	}
}

// A serviceCheck checks one service definition.
type serviceCheck struct {
	*linter
	service   *brokerpak.Service
	positions *positionIndex
	// provision contains the declarations of the provision template; it is empty without one.
	provision *hclfile.Module
	// documentTrees are the BOSH templates that are valid YAML: the manifest template and the ops files, in order.
	documentTrees []templateDocument
}

// run performs all checks of the service. The error is not nil only if ctx ended.
func (c *serviceCheck) run(ctx context.Context) error {
	c.specification()
	c.image()
	c.inputs()
	c.outputTypes()
	c.plans()
	c.examples()
	c.credentials()
	c.templates("provision", &c.service.Provision)
	c.templates("bind", &c.service.Bind)
	c.expressions()
	if c.service.Provision.Bosh == nil {
		c.instances()
		checkUnused(c)
		return nil
	}
	p := &player{serviceCheck: c}
	if c.documents() {
		if err := p.play(ctx); err != nil {
			return err
		}
		p.paths()
		if err := p.compareReleases(ctx); err != nil {
			return err
		}
	}
	p.groups()
	p.jobs()
	checkUnused(c)
	return nil
}

// A Rule describes a class of findings.
type Rule struct {
	// Name identifies the rule. It is the Rule of a diagnostic.
	Name string
	// Severity is "error" or "warning", or "both" if other brokers accept some of the violations.
	Severity string
	// Summary states the requirement, as a clause.
	Summary string
}

// Rules returns all rules, sorted by name. They are read from the copy of docs/rules.md that is part of the program.
func Rules() []Rule {
	var all []Rule
	heading := regexp.MustCompile(`(?m)^## (\S+)\n\n\*([^:*]+): ([^*]+)\.\*`)
	for _, section := range heading.FindAllStringSubmatch(docs.Rules, -1) {
		severity := strings.ToLower(section[2])
		if strings.Contains(severity, "error") && strings.Contains(severity, "warning") {
			severity = "both"
		}
		all = append(all, Rule{Name: section[1], Severity: severity, Summary: section[3]})
	}
	return all
}

// A positionIndex resolves the positions of keys and values in a YAML file. Its methods start from the position of a
// mapping, which the parser of definitions recorded, or from root.
type positionIndex struct {
	file  string
	nodes map[diag.Pos]*yaml.Node // by position; the zero position is that of the root
}

// indexPositions parses the first document of a text, whose file is only used in positions, and resolves its aliases
// and merge keys. The second result is false, and the index nil, if the document is not a YAML mapping.
func indexPositions(file, text string) (*positionIndex, bool) {
	first, _, err := yamltree.Read(text)
	if err != nil || first.Kind != yaml.MappingNode {
		return nil, false
	}
	flat, _ := yamltree.Flatten(first)
	p := &positionIndex{file: file, nodes: map[diag.Pos]*yaml.Node{root: flat}}
	p.add(flat)
	return p, true
}

// add adds a node and its descendants to the index. The node is added before its children because a mapping has the
// same position as its first key, and the position must resolve to the mapping.
func (p *positionIndex) add(node *yaml.Node) {
	if pos := p.pos(node); p.nodes[pos] == nil {
		p.nodes[pos] = node
	}
	for _, child := range node.Content {
		p.add(child)
	}
}

// pos returns the position of a node.
func (p *positionIndex) pos(node *yaml.Node) diag.Pos {
	return diag.Pos{File: p.file, Line: node.Line, Column: node.Column}
}

// get returns the value at a path of keys below the mapping at pos. Without keys, that is the mapping itself. It
// returns nil if there is no such value.
func (p *positionIndex) get(pos diag.Pos, path ...string) *yaml.Node {
	node := p.nodes[pos]
	for _, name := range path {
		_, node = yamltree.Get(node, name)
	}
	return node
}

// value returns the position of the value at a path of keys below the mapping at pos. If the value does not exist, it
// returns the position of the nearest ancestor that exists, and pos if there is nothing at pos.
func (p *positionIndex) value(pos diag.Pos, path ...string) diag.Pos {
	for end := len(path); end >= 0; end-- {
		if node := p.get(pos, path[:end]...); node != nil {
			return p.pos(node)
		}
	}
	return pos
}

// key returns the position of the last key of a path below the mapping at pos. If the key does not exist, it returns
// the position of the nearest ancestor that exists. path must not be empty.
func (p *positionIndex) key(pos diag.Pos, path ...string) diag.Pos {
	last := len(path) - 1
	if key, _ := yamltree.Get(p.get(pos, path[:last]...), path[last]); key != nil {
		return p.pos(key)
	}
	return p.value(pos, path[:last]...)
}

// binaries checks that the pak lists an OpenTofu if it needs one, and that it contains its binaries for each of its
// platforms. A binary that is missing is an error in a pak file and a warning in a pak directory. If a directory
// contains none at all, there is only a note, because building the pak adds them.
func (l *linter) binaries() {
	l.openTofu()
	if !l.pak.IsZip() && !l.hasBinaries() {
		l.notes = append(l.notes, "there is no bin/ for the platforms, so the binaries were not checked")
		return
	}
	for _, platform := range l.pak.Manifest.Platforms {
		for _, binary := range l.pak.Manifest.Binaries {
			_, err := binary.Find(l.pak.Files(), path.Join("bin", platform.OS, platform.Arch))
			switch {
			case err == nil:
			case l.pak.IsZip():
				l.diags.Errorf(binary.Pos, "binary", "the pak has no %s %s for %s: %s",
					binary.Name, binary.Version, platform, err)
			default:
				l.diags.Warnf(binary.Pos, "binary", "there is no %s %s for %s: %s",
					binary.Name, binary.Version, platform, err)
			}
		}
	}
}

// openTofu reports an error if terraform_binaries lists no OpenTofu although the pak has templates or providers. A
// pak without any binaries is not reported.
func (l *linter) openTofu() {
	dependent := "" // a part of the pak that needs OpenTofu
	for _, service := range l.pak.Services {
		if len(service.Provision.Templates)+len(service.Bind.Templates) > 0 {
			dependent = "the templates of service " + strconv.Quote(service.Name)
		}
	}
	for _, binary := range l.pak.Manifest.Binaries {
		switch binary.Kind() {
		case brokerpak.Tofu:
			return
		case brokerpak.Provider:
			dependent = binary.Name
		}
	}
	if dependent != "" && len(l.pak.Manifest.Binaries) > 0 {
		l.diags.Errorf(l.pak.Manifest.Binaries[0].Pos, "required",
			"terraform_binaries must list an OpenTofu, named tofu, which runs %s", dependent)
	}
}

// hasBinaries reports whether the pak has a directory of binaries for at least one of its platforms. The directory
// bin/ alone proves nothing, because authors also keep other files there.
func (l *linter) hasBinaries() bool {
	return slices.ContainsFunc(l.pak.Manifest.Platforms, func(platform brokerpak.Platform) bool {
		info, err := fs.Stat(l.pak.Files(), path.Join("bin", platform.OS, platform.Arch))
		return err == nil && info.IsDir()
	})
}

// unused warns about files that the pak does not use: YAML files and OpenTofu templates in a directory that also
// contains used files with the same extension. In the root of the pak, only service definitions are reported. All other
// files, such as documentation, tests and sources, are not intended for brokers. The caller must have checked the
// services, so that l.files is complete. A directory that cannot be read is skipped and is not an error, so that unused
// returns an error only if the walk itself fails.
func (l *linter) unused() error {
	kind := func(name string) string { return path.Dir(name) + "/*" + path.Ext(name) }
	kinds := map[string]bool{}
	for file := range l.files {
		kinds[kind(file)] = true
	}
	err := fs.WalkDir(l.pak.Files(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return fs.SkipDir // a file that is needed from it has been reported as unreadable
		}
		file := l.pak.Display(name)
		switch {
		case !entry.Type().IsRegular(), l.files[file], !kinds[kind(file)],
			!slices.Contains([]string{".yml", ".yaml", ".tf"}, path.Ext(name)):
			return nil
		case !strings.Contains(name, "/"):
			text, _ := fs.ReadFile(l.pak.Files(), name) // a file that cannot be read is not a definition
			if !definition.Match(text) {
				return nil
			}
		}
		l.diags.Warnf(diag.Pos{File: file, Line: 1}, "unused-file", "nothing in the pak uses this file")
		return nil
	})
	if err != nil {
		return fmt.Errorf("looking for files that are not used: %w", err)
	}
	return nil
}

// definition matches the top-level keys by which a service definition is recognized.
var definition = regexp.MustCompile(`(?m)^(provision|bind|service_definitions):`)
