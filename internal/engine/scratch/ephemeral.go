package scratch

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"

	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/templates"
	"service-adapter/internal/privatefs"
)

// ephemeralLink is the name of the link in a working directory by which OpenTofu reads the values of ephemeral
// variables. OpenTofu loads files with this ending without an argument.
const ephemeralLink = "_ephemeral.auto.tfvars.json"

// keepEphemeral returns a copy of vars without the values of variables that the template declares ephemeral. It keeps
// those values in memory for the runs in the working directory, in place of those of an earlier run. It returns an
// error if the kernel cannot create a file in memory or a value cannot be encoded.
func (d *Directory) keepEphemeral(
	p *templates.Prepared, wd WorkingDir, vars map[string]any,
) (others map[string]any, err error) {
	if earlier := d.ephemeral[wd]; earlier != nil {
		delete(d.ephemeral, wd)
		if err := earlier.Close(); err != nil {
			return nil, err
		}
	}
	values := map[string]any{}
	for _, name := range p.EphemeralVariables() {
		if vars[name] != nil {
			values[name] = vars[name]
		}
	}
	if len(values) == 0 {
		return vars, nil
	}
	text, err := json.Marshal(values)
	if err != nil {
		return nil, fmt.Errorf("encoding variables: %w", err)
	}
	file, err := memoryFile()
	if err != nil {
		return nil, err
	}
	d.ephemeral[wd] = file
	others = maps.Clone(vars)
	maps.DeleteFunc(others, func(name string, _ any) bool { return values[name] != nil })
	_, err = file.Write(text)
	return others, err
}

// passEphemeral makes a run in the working directory read the values of ephemeral variables that keepEphemeral kept, if
// there are any. OpenTofu inherits the file in memory, and a link in the working directory leads to it. The output of
// the run is kept in memory as well, because a message of a provider could contain such a value. The Lifeline of the
// command must be set before. passEphemeral returns an error if a link or a file in memory cannot be created.
func (d *Directory) passEphemeral(wd WorkingDir, c *opentofu.Command) error {
	link := filepath.Join(c.Dir, ephemeralLink)
	if err := privatefs.Remove(link); err != nil {
		return err
	}
	c.Variables = d.ephemeral[wd]
	if c.Variables == nil {
		return nil
	}
	return errors.Join(
		os.Symlink(c.VariablesPath(), link),
		d.keepInMemory(c.Output+".stdout"), d.keepInMemory(c.Output+".stderr"),
	)
}

// keepInMemory replaces the file at a path of the scratch directory by a link to a file in memory, which lasts until
// the Directory is closed. Only this process can follow the link.
func (d *Directory) keepInMemory(path string) error {
	file := d.outputs[path]
	if file == nil {
		var err error
		if file, err = memoryFile(); err != nil {
			return err
		}
		d.outputs[path] = file
	}
	if err := privatefs.Remove(path); err != nil {
		return err
	}
	return os.Symlink(fmt.Sprintf("/proc/self/fd/%d", file.Fd()), path)
}

// closeMemory closes all files in memory, which removes them unless a process of OpenTofu still uses them.
func (d *Directory) closeMemory() error {
	var failed []error
	for _, file := range d.ephemeral {
		failed = append(failed, file.Close())
	}
	for _, file := range d.outputs {
		failed = append(failed, file.Close())
	}
	return errors.Join(failed...)
}
