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

// keepEphemeral separates the values of variables that the template p declares ephemeral from vars, because these
// values must not be written to a disk. It returns the others in a new map, or vars itself if no ephemeral variable has
// a value that is not null; vars is not changed. An ephemeral variable that is null stays in the result. It keeps the
// values in a file in memory for the runs in the working directory wd, and closes the file that an earlier call kept
// for wd, also if there are no values now. It returns an error if the earlier file cannot be closed, if a value cannot
// be encoded as JSON, or if the file in memory cannot be created or written. With an error others must not be used.
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

// passEphemeral changes the command c, a run in the working directory wd, so that OpenTofu reads the values of
// ephemeral variables that keepEphemeral kept. OpenTofu inherits the file in memory, and the link
// _ephemeral.auto.tfvars.json in c.Dir leads to it. The standard output and standard error of the run are kept in
// memory as well, because a message of a provider could contain such a value. The fields Dir, Output, Lock and Lifeline
// of c must be set before. Lock and Lifeline must not change afterwards, because the target of the link depends on
// them; see opentofu.Command.VariablesPath. If no values were kept, passEphemeral only removes the link of an earlier
// run. It returns an error if a link cannot be removed or created, or a file in memory cannot be created.
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

// keepInMemory replaces the file at path, an absolute path in the scratch directory, by a symbolic link to a file in
// memory. This process can then open path to write to or read from the file in memory, and pass the open file to other
// processes, as opentofu.Runner passes it to OpenTofu. Other processes cannot open path, because the link leads to a
// file descriptor of this process.
//
// keepInMemory removes an existing file at path; a missing one is not an error. The file in memory lasts until the
// Directory is closed; another call for the same path uses it again, with its content. keepInMemory returns an error
// if the file in memory or the link cannot be created, or if the existing file cannot be removed. On systems other
// than Linux, which have no files in memory, it always returns an error.
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

// closeMemory closes all files in memory of this directory, both those with the values of ephemeral variables and those
// with the output of runs. That removes them unless a process of OpenTofu still uses them. It closes the remaining
// files after an error, and returns all errors. It must be called only once, and the directory cannot run OpenTofu
// afterwards.
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
