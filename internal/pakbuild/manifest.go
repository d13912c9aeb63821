package pakbuild

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
)

// writeTexts writes manifest.yml and the definitions of the built pak into a directory, and reads them again as any reader
// would.
func writeTexts(pak *brokerpak.Pak, platforms []brokerpak.Platform, stage string) error {
	diags := &diag.List{}
	var names []string
	for i, service := range pak.Services {
		text, err := builtDefinition(pak, service.File, diags)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("definitions/service%d-%s.yml", i, service.Name)
		names = append(names, name)
		if err := writeFile(filepath.Join(stage, filepath.FromSlash(name)), text, 0o600); err != nil {
			return err
		}
	}
	if err := diags.Err(); err != nil {
		return err
	}
	text, err := builtManifest(pak, names, platforms)
	if err != nil {
		return fmt.Errorf("writing %s: %w", pak.Display(manifestName), err)
	}
	return writeFile(filepath.Join(stage, manifestName), text, 0o600)
}

// builtManifest is the manifest with the paths of the built definitions and the platforms of the build.
func builtManifest(pak *brokerpak.Pak, definitions []string, platforms []brokerpak.Platform) ([]byte, error) {
	text, err := fs.ReadFile(pak.Files(), manifestName)
	if err != nil {
		return nil, err
	}
	root, err := parseFlat(text)
	if err != nil {
		return nil, err
	}
	for key, list := range map[string]any{"service_definitions": definitions, "platforms": platforms} {
		var written yaml.Node
		if err := written.Encode(list); err != nil {
			return nil, err
		}
		rename(root, key, key, &written)
	}
	return encode(root)
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
