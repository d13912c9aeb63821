package pakbuild

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
	"service-adapter/internal/yamltree"
)

// writeTexts writes manifest.yml and the definitions of the built pak into a directory: the manifest with the paths of the built definitions
// and the platforms of the build.
func writeTexts(pak *brokerpak.Pak, platforms []brokerpak.Platform, stage string) error {
	diags := &diag.List{}
	var names []string
	for i, service := range pak.Services {
		name := fmt.Sprintf("definitions/service%d-%s.yml", i, service.Name)
		names = append(names, name)
		d := &definition{files: pak.Files(), name: pak.Display(service.File), diags: diags}
		if err := rewrite(pak, service.File, filepath.Join(stage, filepath.FromSlash(name)), d.embed); err != nil {
			return err
		}
	}
	if err := diags.Err(); err != nil {
		return err
	}
	return rewrite(pak, manifestName, filepath.Join(stage, manifestName), func(root *yaml.Node) {
		for key, list := range map[string]any{"service_definitions": names, "platforms": platforms} {
			var written yaml.Node
			_ = written.Encode(list) // a plain list
			yamltree.Set(root, key, &written)
		}
	})
}

// rewrite writes a YAML file of a pak with a change elsewhere.
func rewrite(pak *brokerpak.Pak, name, target string, change func(root *yaml.Node)) error {
	text, err := fs.ReadFile(pak.Files(), path.Clean(filepath.ToSlash(name)))
	var root *yaml.Node
	if err == nil {
		root, err = parseFlat(text)
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", pak.Display(name), err)
	}
	change(root)
	if text, err = encode(root); err != nil {
		return fmt.Errorf("writing %s: %w", pak.Display(name), err)
	}
	return writeFile(target, text, 0o600)
}

// writeFile writes a file of a mode, and the directories above it for those who may read it.
func writeFile(name string, text []byte, mode fs.FileMode) error {
	dirs := fs.FileMode(0o700)
	if mode == readable {
		dirs = 0o755
	}
	if err := os.MkdirAll(filepath.Dir(name), dirs); err != nil {
		return err
	}
	return os.WriteFile(name, text, mode)
}
