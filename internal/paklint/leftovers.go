package paklint

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"service-adapter/internal/diag"
	"service-adapter/internal/value"
)

// fileName is what Cloud Foundry takes as the name of a file with a credential, for apps with bindings in files:
// ServiceBindingFilesBuilder of the Cloud Controller. The sizes, in bytes, are what it and Linux, for the variable VCAP_SERVICES, take.
var fileName = regexp.MustCompile(`^[a-z0-9._-]+$`)

const (
	maxFileName     = 253
	maxCredentials  = 1_000_000
	maxVcapServices = 131_072
)

// credentials warns of what Cloud Foundry does not give to apps: names, and texts in the definition that are too large.
func (c *serviceCheck) credentials() {
	name := func(pos diag.Pos, name string) {
		if name != "" && (len(name) > maxFileName || !fileName.MatchString(name)) {
			c.diags.Warnf(pos, "credential", "Cloud Foundry makes no file of the credential %q: a name has 1 to 253 small letters, digits "+
				"and the characters - _ .; apps with bindings in files cannot start", name)
		}
	}
	for _, output := range c.service.Bind.Outputs {
		name(output.Pos, output.Name)
	}
	if c.service.Provision.Bosh == nil {
		return
	}
	size, last := 0, diag.Pos{}
	for _, key := range value.Keys(c.service.Provision.Bosh.Outputs) {
		output := c.service.Provision.Bosh.Outputs[key]
		if output.Expr == nil {
			continue
		}
		name(output.Expr.Pos(), key)
		if output.Expr.IsLiteral() {
			size, last = size+len(output.Expr.Text()), output.Expr.Pos()
		}
	}
	switch {
	case size > maxCredentials:
		c.diags.Warnf(last, "credential", "the outputs of provision.bosh have %d bytes, and Cloud Foundry takes no more than %d", size, maxCredentials)
	case size > maxVcapServices:
		c.diags.Warnf(last, "credential", "the outputs of provision.bosh have %d bytes, and the variable VCAP_SERVICES of an app no more than %d",
			size, maxVcapServices)
	}
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
