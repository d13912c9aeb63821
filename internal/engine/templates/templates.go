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

// Template is the OpenTofu configuration of an action.
type Template struct {
	// Files contains the text of each file in native syntax, by file name, such as "main.tf".
	Files map[string]string
	// Inputs are the names of variables that the files may use without declaring them. They are declared in a generated
	// file.
	Inputs []string
}

// templateInfo is the result of inspecting a template. A prepared directory contains it, so that the template does not
// have to be parsed again.
type templateInfo struct {
	*hclfile.Module
	// Shared are the providers that are started once for several runs.
	Shared []provider.Shared
}

// A Prepared is a prepared directory: an initialised directory for one template and one installation. It is never
// changed, and any number of runs can use it at the same time. Cache.Prepare returns it.
type Prepared struct {
	templateInfo // Variables includes those that the template uses without declaring them
	dir          string
	installation opentofu.Installation
}

// Installation returns the OpenTofu and the providers that the prepared directory uses.
func (p *Prepared) Installation() opentofu.Installation { return p.installation }

// SecretVariables returns the names of the variables that the template declares sensitive or ephemeral, in no
// particular order. It returns nil if there are none.
func (p *Prepared) SecretVariables() []string {
	var names []string
	for name, variable := range p.Variables {
		if variable.Sensitive || variable.Ephemeral {
			names = append(names, name)
		}
	}
	return names
}

// DeclaredVariables returns a new map of those of vars that the template declares, or uses without declaring them, and
// null for each of these variables that is missing in vars and has no default. The map is empty and not nil if there
// are none. vars may be nil.
func (p *Prepared) DeclaredVariables(vars map[string]any) map[string]any {
	declared := map[string]any{}
	for name, variable := range p.Variables {
		if v, ok := vars[name]; ok || !variable.HasDefault {
			declared[name] = v
		}
	}
	return declared
}

// Equal reports whether both are the same prepared directory with the same OpenTofu. other must not be nil.
func (p *Prepared) Equal(other *Prepared) bool {
	return p.dir == other.dir && p.installation.Binary == other.installation.Binary
}

// Link creates the directory dir, and missing parents, with symbolic links to all entries of a variant. An existing dir
// is removed first with its content. The prepared directory must exist as long as dir is used. OpenTofu's data
// directory is not a link, because every run writes to it; only its entries are. Link returns an error if dir cannot be
// removed or created or the prepared directory cannot be read; dir is incomplete then.
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

// load reads the prepared directory at the path dir. The result has the installation i, which load does not compare
// with the directory. The error wraps fs.ErrNotExist if the directory does not exist, and errDamaged if the directory
// differs from its digest or has none, in which case it may wrap fs.ErrNotExist as well. It is another error if the
// directory cannot be accessed or the templateInfo in it cannot be decoded.
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
