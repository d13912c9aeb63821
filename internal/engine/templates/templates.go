// Package templates keeps prepared directories: initialised directories of OpenTofu templates.
//
// A prepared directory contains the template, the files that the adapter adds to it, links to the providers, and the
// result of "tofu init". It is built once per template and installation, is never changed afterwards, and is shared by
// all runs. It has two variants: Apply, with the guard of the workspace, and Destroy, without settings that prevent the
// destruction. The name of the directory is a hash of everything that it depends on, and a digest in it detects damage.
package templates

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/provider"
	"service-adapter/internal/hclfile"
)

// layout is the version of the layout and the generated files of prepared directories. It must be incremented when
// either of them changes, so that directories that an older adapter built are not used.
const layout = 7

// Template is the OpenTofu configuration of an action, provision or bind: the texts of its files, and the names of
// variables that they may use without declaring them. The zero Template is empty; its prepared directory contains
// only the configuration that the adapter adds to every template, such as the guard.
type Template struct {
	// Files contains the text of each file in native syntax, by file name, such as "main.tf".
	Files map[string]string
	// Inputs are the names of variables that the files may use without declaring them. They are declared in a generated
	// file.
	Inputs []string
}

// templateInfo is the result of inspecting a template: its variables, resources and outputs, and the providers of
// which a single process can serve several runs. The variables include those that the template uses without declaring
// them. A prepared directory contains the templateInfo in the file template.json, so that the template does not have
// to be parsed again.
type templateInfo struct {
	*hclfile.Module
	// Shared are the providers that are started once for several runs.
	Shared []provider.Shared
}

// A Prepared is a prepared directory: a directory that contains the files of one template after "tofu init", for one
// installation of OpenTofu and its providers. Its files are not changed after it was built, and any number of runs can
// use it at the same time. Only a damaged directory is replaced, and one that has not been used for 30 days is removed.
// Cache.Prepare returns it; the zero value is not usable.
type Prepared struct {
	templateInfo // Variables includes those that the template uses without declaring them
	dir          string
	installation opentofu.Installation
}

// Installation returns the OpenTofu and the providers that the prepared directory uses: the installation with which
// Prepare was called, except that PrepareBase removes the providers.
func (p *Prepared) Installation() opentofu.Installation { return p.installation }

// SecretVariables returns the names of the variables that the template declares sensitive or ephemeral, without a
// prefix and in no particular order. It returns nil if there are none. Variables that the template uses without
// declaring them are not secret.
func (p *Prepared) SecretVariables() []string {
	var names []string
	for name, variable := range p.Variables {
		if variable.Sensitive || variable.Ephemeral {
			names = append(names, name)
		}
	}
	return names
}

// DeclaredVariables returns a new map of the values for the template's variables, by name: the entries of vars for
// variables that the template declares, or uses without declaring them, and nil for each of these variables that is
// missing in vars and has no default. Other entries of vars are left out. The map is empty and not nil if the template
// has no such variables. vars may be nil and is not changed.
func (p *Prepared) DeclaredVariables(vars map[string]any) map[string]any {
	declared := map[string]any{}
	for name, variable := range p.Variables {
		if v, ok := vars[name]; ok || !variable.HasDefault {
			declared[name] = v
		}
	}
	return declared
}

// Equal reports whether p and other are the same prepared directory with the same OpenTofu: whether the paths of the
// directories and of the OpenTofu executables are equal. other must not be nil.
func (p *Prepared) Equal(other *Prepared) bool {
	return p.dir == other.dir && p.installation.Binary == other.installation.Binary
}

// Link creates the directory dir, and missing parents, with symbolic links to all entries of a variant of the prepared
// directory. An existing dir is removed first with its content. The prepared directory must exist as long as dir is
// used. OpenTofu's data directory .terraform is not a link, because every run writes to it; only its entries are. Link
// returns an error if dir cannot be removed or created, if the prepared directory cannot be read, or if a link cannot
// be created; dir is incomplete then.
func (p *Prepared) Link(variant Variant, dir string) error {
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(filepath.Join(dir, DataDir), 0o700)); err != nil {
		return err
	}
	source := filepath.Join(p.dir, string(variant))
	for _, subdir := range []string{"", DataDir} {
		entries, err := os.ReadDir(filepath.Join(source, subdir))
		for _, entry := range entries {
			if name := filepath.Join(subdir, entry.Name()); name != DataDir {
				err = errors.Join(err, os.Symlink(filepath.Join(source, name), filepath.Join(dir, name)))
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// templateInfoFile is the file of a prepared directory that contains the templateInfo.
const templateInfoFile = "template.json"

// load reads the prepared directory at the path dir and checks it against its digest. The result has the installation
// i, which load does not compare with the directory. The error wraps fs.ErrNotExist if the directory does not exist,
// and errDamaged if the directory differs from its digest or has none; in the second case it may wrap fs.ErrNotExist as
// well, so callers must check errDamaged first. It is another error if the directory cannot be accessed or the
// templateInfo in it cannot be read or decoded. With an error the result is nil.
func load(dir string, i opentofu.Installation) (*Prepared, error) {
	if _, err := os.Stat(dir); err != nil {
		return nil, err
	}
	if err := checkDigest(dir); err != nil {
		return nil, fmt.Errorf("reading prepared directory %s: %w", dir, err)
	}
	text, err := os.ReadFile(filepath.Join(dir, templateInfoFile))
	p := &Prepared{dir: dir, installation: i}
	if err == nil {
		err = json.Unmarshal(text, &p.templateInfo)
	}
	if err != nil {
		return nil, fmt.Errorf("reading prepared directory %s: %w", dir, err)
	}
	return p, nil
}
