// Package paklint finds what is wrong with a brokerpak: what the specification demands, also where other brokers do not look;
// what the definition, the OpenTofu templates, the BOSH templates and the binaries say about each other; and what a deployment
// of each plan would run into. Every finding has its place in a file and a rule of docs/rules.md.
//
// An error means that the pak, or a part of it, cannot work. What works although the specification forbids it is a warning.
package paklint

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
	"service-adapter/internal/diag"
	"service-adapter/internal/hclfile"
	"service-adapter/internal/yamltree"
)

// Report is the result of looking at a pak.
type Report struct {
	// Diagnostics are all findings, sorted by place.
	Diagnostics []diag.Diagnostic
	// Files is the number of text files that were looked at.
	Files int
	// Notes say what was not looked at, and what operators cannot do with a service, and why.
	Notes []string

	texts map[string]string
}

// Source returns the text of a file with findings.
func (r *Report) Source(file string) (string, bool) {
	text, ok := r.texts[file]
	return text, ok
}

// linter is the work on one pak.
type linter struct {
	pak   *brokerpak.Pak
	diags *diag.List
	files map[string]bool
	notes []string
}

// Lint looks at a pak, a directory or a zip. The error means that it cannot be read at all.
func Lint(ctx context.Context, path string) (*Report, error) {
	pak, diags, err := brokerpak.Inspect(path)
	if err != nil {
		return nil, err
	}
	l := &linter{pak: pak, diags: diags, files: map[string]bool{pak.Display("manifest.yml"): true}}
	err = l.lint(ctx)
	report := &Report{Diagnostics: l.diags.All(), Files: len(l.files), Notes: l.notes, texts: map[string]string{}}
	for _, found := range report.Diagnostics {
		l.remember(report, found.Pos.File)
	}
	return report, errors.Join(err, pak.Close())
}

func (l *linter) lint(ctx context.Context) error {
	l.binaries()
	for _, service := range l.pak.Services {
		if err := ctx.Err(); err != nil {
			return err
		}
		l.files[l.pak.Display(service.File)] = true
		text, err := fs.ReadFile(l.pak.Files(), filepath.ToSlash(filepath.Clean(service.File)))
		if err != nil {
			return fmt.Errorf("reading %s again: %w", service.File, err)
		}
		places, ok := readPlaces(l.pak.Display(service.File), string(text))
		if !ok {
			continue // not YAML, which was reported
		}
		check := &serviceCheck{linter: l, service: service, places: places}
		check.provision, _ = hclfile.Inspect(service.Provision.Templates) // templates reports what is wrong with it
		if err := check.run(ctx); err != nil {
			return err
		}
	}
	return l.unused()
}

// remember reads a file for the snippets. A file that cannot be read has none.
func (l *linter) remember(report *Report, file string) {
	if _, known := report.texts[file]; known {
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

// serviceCheck is the work on one service definition.
type serviceCheck struct {
	*linter
	service *brokerpak.Service
	places  *places
	// provision is what the provision template declares.
	provision *hclfile.Module
}

func (c *serviceCheck) run(ctx context.Context) error {
	c.specification()
	c.image()
	c.inputs()
	c.plans()
	c.examples()
	c.credentials()
	c.templates("provision", &c.service.Provision)
	c.templates("bind", &c.service.Bind)
	c.expressions()
	if c.service.Provision.Bosh == nil {
		c.instances()
		return nil
	}
	p := &player{serviceCheck: c}
	if c.documents() {
		if err := p.play(ctx); err != nil {
			return err
		}
		p.paths()
	}
	p.groups()
	p.jobs()
	return nil
}

// Rule is what a finding violates.
type Rule struct {
	// Name stands in brackets behind the finding.
	Name string
	// Severity is "error", "warning", or "both" where other brokers accept some of it.
	Severity string
	// Summary is what the rule demands, as a clause.
	Summary string
}

// Rules returns all rules, sorted by name, as docs/rules.md has them.
func Rules() []Rule {
	var all []Rule
	for _, section := range regexp.MustCompile(`(?m)^## (\S+)\n\n\*([^:*]+): ([^*]+)\.\*`).FindAllStringSubmatch(docs.Rules, -1) {
		severity := strings.ToLower(section[2])
		if strings.Contains(severity, "error") && strings.Contains(severity, "warning") {
			severity = "both"
		}
		all = append(all, Rule{Name: section[1], Severity: severity, Summary: section[3]})
	}
	return all
}

// places finds the places of keys and values in a YAML file, starting from a place that the parser told.
type places struct {
	file  string
	nodes map[diag.Pos]*yaml.Node // the zero place is that of the root
}

// readPlaces parses a file; false when it is no YAML mapping.
func readPlaces(file, text string) (*places, bool) {
	first, _, err := yamltree.Read(text)
	if err != nil || first.Kind != yaml.MappingNode {
		return nil, false
	}
	flat, _ := yamltree.Flatten(first)
	p := &places{file: file, nodes: map[diag.Pos]*yaml.Node{root: flat}}
	p.add(flat)
	return p, true
}

// add notes a node before its children: where a mapping begins with a key, the place is that of the mapping.
func (p *places) add(node *yaml.Node) {
	if pos := p.pos(node); p.nodes[pos] == nil {
		p.nodes[pos] = node
	}
	for _, child := range node.Content {
		p.add(child)
	}
}

func (p *places) pos(node *yaml.Node) diag.Pos {
	return diag.Pos{File: p.file, Line: node.Line, Column: node.Column}
}

// get returns the value at a path of keys below the mapping at a place, or nil.
func (p *places) get(pos diag.Pos, path ...string) *yaml.Node {
	node := p.nodes[pos]
	for _, name := range path {
		_, node = yamltree.Get(node, name)
	}
	return node
}

// value returns the place of that value, or the place that is nearest to it.
func (p *places) value(pos diag.Pos, path ...string) diag.Pos {
	for end := len(path); end >= 0; end-- {
		if node := p.get(pos, path[:end]...); node != nil {
			return p.pos(node)
		}
	}
	return pos
}

// key is the same for the last key itself.
func (p *places) key(pos diag.Pos, path ...string) diag.Pos {
	last := len(path) - 1
	if key, _ := yamltree.Get(p.get(pos, path[:last]...), path[last]); key != nil {
		return p.pos(key)
	}
	return p.value(pos, path[:last]...)
}

// binaries checks that the pak holds its binaries for each of its platforms. The source of a pak has none: they come into it
// when it is built.
func (l *linter) binaries() {
	l.engine()
	if !l.pak.IsZip() && !l.built() {
		l.notes = append(l.notes, "there is no bin/ for the platforms: the binaries are not checked")
		return
	}
	for _, platform := range l.pak.Manifest.Platforms {
		for _, binary := range l.pak.Manifest.Binaries {
			_, err := binary.Find(l.pak.Files(), path.Join("bin", platform.OS, platform.Arch))
			switch {
			case err == nil:
			case l.pak.IsZip():
				l.diags.Errorf(binary.Pos, "binary", "the pak has no %s %s for %s: %s", binary.Name, binary.Version, platform, err)
			default:
				l.diags.Warnf(binary.Pos, "binary", "there is no %s %s for %s: %s", binary.Name, binary.Version, platform, err)
			}
		}
	}
}

// engine checks that there is an OpenTofu for the providers and the templates.
func (l *linter) engine() {
	needed := ""
	for _, service := range l.pak.Services {
		if len(service.Provision.Templates)+len(service.Bind.Templates) > 0 {
			needed = "the templates of service " + strconv.Quote(service.Name)
		}
	}
	for _, binary := range l.pak.Manifest.Binaries {
		switch binary.Kind() {
		case brokerpak.Tofu:
			return
		case brokerpak.Provider:
			needed = binary.Name
		}
	}
	if needed != "" && len(l.pak.Manifest.Binaries) > 0 {
		l.diags.Errorf(l.pak.Manifest.Binaries[0].Pos, "required", "terraform_binaries must list an OpenTofu, named tofu, which runs %s", needed)
	}
}

// built tells whether the directory has binaries for at least one platform. Authors keep other things in bin/ as well.
func (l *linter) built() bool {
	return slices.ContainsFunc(l.pak.Manifest.Platforms, func(platform brokerpak.Platform) bool {
		info, err := fs.Stat(l.pak.Files(), path.Join("bin", platform.OS, platform.Arch))
		return err == nil && info.IsDir()
	})
}

// unused warns of files that nothing uses: a YAML file or template in a folder that has others of its kind which are used, and beside
// the manifest a service definition. What else a pak holds, such as pages, tests and sources, is not for brokers.
func (l *linter) unused() error {
	kind := func(name string) string { return path.Dir(name) + "/*" + path.Ext(name) }
	kinds := map[string]bool{}
	for file := range l.files {
		kinds[kind(file)] = true
	}
	err := fs.WalkDir(l.pak.Files(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return fs.SkipDir // whoever needs a file in it says that it cannot be read
		}
		file := l.pak.Display(name)
		switch {
		case !entry.Type().IsRegular(), l.files[file], !kinds[kind(file)], !slices.Contains([]string{".yml", ".yaml", ".tf"}, path.Ext(name)):
			return nil
		case !strings.Contains(name, "/"):
			text, _ := fs.ReadFile(l.pak.Files(), name) // what cannot be read is no definition
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

// definition finds the keys that a service definition has at its top.
var definition = regexp.MustCompile(`(?m)^(provision|bind|service_definitions):`)
