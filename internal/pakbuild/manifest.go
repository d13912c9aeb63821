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
		if err := writeFile(filepath.Join(stage, filepath.FromSlash(name)), text); err != nil {
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
	return writeFile(filepath.Join(stage, manifestName), text)
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
	list := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	for _, name := range definitions {
		list.Content = append(list.Content, textNode(name))
	}
	rename(root, "service_definitions", "service_definitions", list)
	list = &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	for _, platform := range platforms {
		entry := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		set(entry, "os", textNode(platform.OS))
		set(entry, "arch", textNode(platform.Arch))
		list.Content = append(list.Content, entry)
	}
	rename(root, "platforms", "platforms", list)
	return encode(root)
}

func writeFile(name string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	return os.WriteFile(name, text, 0o600)
}
