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

// A Report is the result of checking a pak: the findings, sorted by position, the number of checked text files, and
// notes. A note is a remark that is not a finding: a check that was left out, or a feature that operators cannot use
// with a service. A Report without Diagnostics means that the pak has no findings, unless Lint also returned an error,
// because the Report may then be incomplete.
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

// Source returns the text of a file that has findings. file is the path as it is in the position of a finding. The
// second result is false, and the text "", for a file without findings and for one that could not be read.
func (r *Report) Source(file string) (string, bool) {
	text, ok := r.texts[file]
	return text, ok
}

// A linter checks one pak and collects the findings, the notes and the paths of the checked files. Notes are remarks
// that are not findings, such as that a check was left out; see Report. The fields pak, diags and files must not be
// nil. Without releases, the manifests are not compared with any.
type linter struct {
	pak   *brokerpak.Pak
	diags *diag.List
	files map[string]bool // the checked files, by the path in positions
	notes []string
	// releases are those that the author passed, with which the manifests are compared.
	releases []*release.Release
}

// Lint checks the pak directory or pak file at path. It does not run OpenTofu and does not modify the pak. Defects of
// the pak are not errors but findings of the report. The generated manifests are compared with the releases, which must
// be all that the service deploys; without releases, jobs and their properties and links are not checked.
//
// Lint returns a nil report and an error if the pak or its manifest.yml does not exist or cannot be read, or if a pak
// file is not a zip or is rejected as unsafe. It returns an error and a report that may be incomplete if checks were
// left out because ctx ended, if a definition cannot be read again, or if the pak cannot be closed.
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

// lint performs all checks of the pak: those of the binaries, the lock, the releases that the author passed, each
// service, and unused files. It adds the findings to l.diags, the paths of the checked files to l.files, and the notes
// to l.notes; see Report. A service whose file is not a YAML mapping is skipped, because that was reported before.
//
// lint returns an error if ctx ended before a service was checked or during its simulated deployments, or if the file
// of a service cannot be read again. The remaining checks are left out then, and the findings, files and notes that
// were added before remain.
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
	l.unused()
	return nil
}

// addSource stores the content of a file of the pak in the report, so that findings can be shown with the lines around
// them. file is the path as it is in the position of a finding, such as dir/service.yml, or pak.brokerpak!/service.yml
// in a pak file. A file that is already stored or that cannot be read is ignored.
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

// A serviceCheck checks one service definition of a pak. It embeds the linter of the pak, to which it adds its
// findings. The field documentTrees is nil until the method documents sets it; the other fields must not be nil.
type serviceCheck struct {
	*linter
	service   *brokerpak.Service
	positions *positionIndex
	// provision contains the declarations of the provision template; it is empty without one.
	provision *hclfile.Module
	// documentTrees are the BOSH templates that are valid YAML: the manifest template, the ops files and the BOSH
	// configs, in this order.
	documentTrees []templateDocument
}

// run performs all checks of the service. It adds the findings to c.diags, the paths of the checked files to c.files,
// and notes to c.notes. Deployments are only simulated, and compared with releases, if the service has a bosh section
// whose templates can be rendered. If ctx ended before all manifests of these simulations were generated, run returns
// the error of ctx and leaves out the remaining checks. It returns no other error, and does not check ctx otherwise.
func (c *serviceCheck) run(ctx context.Context) error {
	c.specification()
	c.image()
	c.inputs()
	c.outputTypes()
	c.examples()
	c.credentials()
	c.templates("provision", &c.service.Provision)
	c.templates("bind", &c.service.Bind)
	c.expressions()
	renderable := c.service.Provision.Bosh != nil && c.documents()
	c.plans()
	if c.service.Provision.Bosh == nil {
		c.instances()
		checkUnused(c)
		return nil
	}
	p := &player{serviceCheck: c}
	if renderable {
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

// A Rule describes a class of findings: its name, such as "hcl-output", its severity, and the requirement that a
// finding violates. The severity is "both" if some findings of the rule are errors and others are warnings.
type Rule struct {
	// Name identifies the rule. It is the Rule of a diagnostic.
	Name string
	// Severity is "error" or "warning", or "both" if it depends on the finding.
	Severity string
	// Summary states the requirement, as a clause.
	Summary string
}

// Rules returns all rules in the order of docs/rules.md, which is sorted by name. They are read from the copy of this
// file that is embedded in the program.
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
// mapping, which the parser of definitions recorded, or from the variable root, which denotes the whole document. An
// empty positionIndex contains no nodes; its methods value and key then return the position that they receive.
type positionIndex struct {
	file  string
	nodes map[diag.Pos]*yaml.Node // by position; the zero position is that of the root
}

// indexPositions parses the first document of a YAML text, resolves its aliases and merge keys, and returns an index of
// its nodes. file is the path of the text in positions; indexPositions does not read it. The index is nil and the
// second result false if the text is not valid YAML or is not a mapping.
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

// add adds a node and its descendants to the index. A position that the index already contains keeps its node. A
// mapping in block style has the same position as its first key and is added before it, so that the position resolves
// to the mapping.
func (p *positionIndex) add(node *yaml.Node) {
	if pos := p.pos(node); p.nodes[pos] == nil {
		p.nodes[pos] = node
	}
	for _, child := range node.Content {
		p.add(child)
	}
}

// pos returns the position of a node: its line and column in the file of the index.
func (p *positionIndex) pos(node *yaml.Node) diag.Pos {
	return diag.Pos{File: p.file, Line: node.Line, Column: node.Column}
}

// get returns the node of the value at a path of keys below the mapping at pos, such as "provision", "bosh". Without
// keys, it returns the node at pos itself. It returns nil if a key does not exist, or if the index has no node at pos.
func (p *positionIndex) get(pos diag.Pos, path ...string) *yaml.Node {
	node := p.nodes[pos]
	for _, name := range path {
		_, node = yamltree.Get(node, name)
	}
	return node
}

// value returns the position of the value at a path of keys below the mapping at pos. If the value does not exist, it
// returns the position of the nearest ancestor that exists, or pos itself if the index has no node at pos.
func (p *positionIndex) value(pos diag.Pos, path ...string) diag.Pos {
	for end := len(path); end >= 0; end-- {
		if node := p.get(pos, path[:end]...); node != nil {
			return p.pos(node)
		}
	}
	return pos
}

// key returns the position of the last key of a path of keys below the mapping at pos. If the key does not exist, it
// returns the position of the value of the nearest ancestor that exists, or pos itself if the index has no node at pos.
// key panics if path is empty.
func (p *positionIndex) key(pos diag.Pos, path ...string) diag.Pos {
	last := len(path) - 1
	if key, _ := yamltree.Get(p.get(pos, path[:last]...), path[last]); key != nil {
		return p.pos(key)
	}
	return p.value(pos, path[:last]...)
}

// binaries checks that the pak lists an OpenTofu if it needs one, and that it contains the executable of each entry of
// terraform_binaries for each of the pak's platforms. It adds the findings to l.diags. The lack of an OpenTofu in the
// list is an error; see openTofu. A missing executable, and a provider for which several files match, is an error in a
// pak file and a warning in a pak directory; see brokerpak.Binary.Find. If a pak directory has no directory bin/OS/ARCH
// for any of its platforms, executables are not checked and a note is added to l.notes instead, because building the
// pak adds them.
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

// openTofu adds an error to l.diags if terraform_binaries has entries but lists no OpenTofu, although a service of the
// pak has OpenTofu templates or the entries include a provider. A pak with an empty terraform_binaries is not reported.
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

// hasBinaries reports whether the pak contains the directory bin/OS/ARCH of at least one of its platforms. The
// directory bin/ alone does not count, because authors also keep other files in it.
func (l *linter) hasBinaries() bool {
	return slices.ContainsFunc(l.pak.Manifest.Platforms, func(platform brokerpak.Platform) bool {
		info, err := fs.Stat(l.pak.Files(), path.Join("bin", platform.OS, platform.Arch))
		return err == nil && info.IsDir()
	})
}

// unused adds a warning to l.diags for each file that the pak does not use, if it ends with .yml, .yaml or .tf and is
// in a directory that also contains a used file with the same extension. In the root of the pak, only files that look
// like service definitions, because they have a top-level key provision, bind or service_definitions, are reported. All
// other files, such as documentation and sources, are not intended for brokers.
//
// The caller must have checked the services, so that l.files contains all used files. A directory that cannot be read
// is skipped.
func (l *linter) unused() {
	kind := func(name string) string { return path.Dir(name) + "/*" + path.Ext(name) }
	kinds := map[string]bool{}
	for file := range l.files {
		kinds[kind(file)] = true
	}
	_ = fs.WalkDir(l.pak.Files(), ".", func(name string, entry fs.DirEntry, err error) error {
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
}

// definition matches the top-level keys by which a service definition is recognized.
var definition = regexp.MustCompile(`(?m)^(provision|bind|service_definitions):`)
