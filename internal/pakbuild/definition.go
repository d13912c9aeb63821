package pakbuild

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
	"service-adapter/internal/yamltree"
)

// maxImage bounds an image in bytes. It becomes part of the definition, and of every answer of the broker's catalog.
const maxImage = 1 << 20

// definition is a service definition that is made self-contained: what it refers to by path is written into it.
type definition struct {
	files fs.FS
	name  string // its path, for messages
	diags *diag.List
}

// embed takes the references out of a definition.
func (d *definition) embed(root *yaml.Node) {
	d.image(root)
	for _, name := range []string{"provision", "bind"} {
		action := get(root, name)
		d.inline(action, "template_ref", "template")
		if refs := get(action, "template_refs"); refs != nil {
			d.templates(action, refs)
		}
	}
	bosh := get(get(root, "provision"), "bosh")
	d.inline(bosh, "manifest_ref", "manifest")
	for _, list := range []string{"ops", "configs"} {
		if entries := get(bosh, list); entries != nil {
			for _, entry := range entries.Content {
				d.inline(entry, "ref", "inline")
			}
		}
	}
}

// inline puts the text of a file under a key instead of its name under another. It wins over a text that is there.
func (d *definition) inline(mapping *yaml.Node, reference, key string) {
	ref := get(mapping, reference)
	if ref == nil {
		return
	}
	remove(mapping, reference)
	if isText(ref) {
		text := d.text(ref)
		if text.Value == "" {
			text = textNode("\n") // an empty text would be none
		}
		yamltree.Set(mapping, key, text)
	}
}

// templates turns template_refs into templates. A reference wins over a text beside it.
func (d *definition) templates(action, refs *yaml.Node) {
	templates := get(action, "templates")
	if templates == nil || templates.Kind != yaml.MappingNode {
		templates = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	}
	for i := 0; i+1 < len(refs.Content); i += 2 {
		if key, ref := refs.Content[i], refs.Content[i+1]; isText(ref) {
			yamltree.Set(templates, key.Value, d.text(ref))
		}
	}
	remove(action, "template_refs")
	yamltree.Set(action, "templates", templates)
}

// read reads the file that a node names.
func (d *definition) read(node *yaml.Node, name string) (data []byte, ok bool) {
	data, err := fs.ReadFile(d.files, path.Clean(filepath.ToSlash(name)))
	if err != nil {
		var found *fs.PathError
		if errors.As(err, &found) {
			err = found.Err // the message names the file once
		}
		d.errorf(node, "missing-file", "%q cannot be read: %s; paths are relative to the pak and inside of it", name, err)
	}
	return data, err == nil
}

// text reads a referenced file, which becomes a text of the definition.
func (d *definition) text(ref *yaml.Node) *yaml.Node {
	data, _ := d.read(ref, ref.Value)
	if !utf8.Valid(data) {
		d.errorf(ref, "encoding", "%s is not UTF-8 text", ref.Value)
		data = nil
	}
	return textNode(string(data))
}

// image turns a file into a data URL.
func (d *definition) image(root *yaml.Node) {
	node := get(root, "image_url")
	if node == nil {
		return
	}
	name, isFile := strings.CutPrefix(node.Value, "file://")
	if !isFile {
		return
	}
	data, ok := d.read(node, name)
	kind := brokerpak.ImageType(name, data)
	switch {
	case !ok:
	case kind == "":
		d.errorf(node, "image", "%s must be a PNG, JPEG or SVG image", name)
	case len(data) > maxImage:
		d.errorf(node, "image", "%s is larger than %d MB; it becomes part of every catalog", name, maxImage>>20)
	}
	yamltree.Set(root, "image_url", textNode("data:"+kind+";base64,"+base64.StdEncoding.EncodeToString(data)))
}

func (d *definition) errorf(node *yaml.Node, rule, format string, args ...any) {
	d.diags.Errorf(diag.Pos{File: d.name, Line: node.Line, Column: node.Column}, rule, format, args...)
}

// isText tells whether a node is a text that is not empty.
func isText(node *yaml.Node) bool {
	return node.Kind == yaml.ScalarNode && node.ShortTag() != "!!null" && node.Value != ""
}

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

// parseFlat parses the first document of a text and resolves its aliases and merges, which not all readers of built paks
// need to understand. Places are kept, comments are not.
func parseFlat(text []byte) (*yaml.Node, error) {
	first, _, err := yamltree.Read(string(text))
	if err != nil {
		return nil, err
	}
	root, faults := yamltree.Flatten(first)
	if len(faults) > 0 {
		return nil, fmt.Errorf("line %d: %s", faults[0].Node.Line, faults[0].Message)
	}
	if root.Kind != yaml.MappingNode {
		return nil, errors.New("the file must hold a mapping")
	}
	restyle(root)
	return root, nil
}

// restyle chooses a style for blocks, which their indentation would not survive otherwise.
func restyle(node *yaml.Node) {
	if node.Kind == yaml.ScalarNode && node.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		node.Style = textStyle(node.Value)
	}
	for _, child := range node.Content {
		restyle(child)
	}
}

// get returns the value of a mapping's key, nil where it has none or where the node is no mapping.
func get(mapping *yaml.Node, key string) *yaml.Node {
	_, value := yamltree.Get(mapping, key)
	return value
}

// remove deletes a key.
func remove(mapping *yaml.Node, key string) {
	take(mapping, func(found string) bool { return found == key })
}

// take removes keys of what may be a mapping, and returns them.
func take(mapping *yaml.Node, which func(key string) bool) (taken []*yaml.Node) {
	for i := 0; mapping.Kind == yaml.MappingNode && i < len(mapping.Content); {
		if key := mapping.Content[i]; which(key.Value) {
			taken = append(taken, key)
			mapping.Content = slices.Delete(mapping.Content, i, i+2)
		} else {
			i += 2
		}
	}
	return taken
}

// textNode is a string.
func textNode(text string) *yaml.Node {
	node := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
	if strings.ContainsAny(text, "\n\r") {
		node.Style = textStyle(text)
	}
	return node
}

// textStyle is the style of a text of several lines: a block, unless its first or last characters, or line breaks of other
// kinds, could be read as something else.
func textStyle(text string) yaml.Style {
	plain := utf8.ValidString(text) && !strings.ContainsAny(text, "\r\u0085\u2028\u2029\ufeff")
	if first := strings.IndexFunc(text, func(r rune) bool { return r != '\n' }); !plain || first != 0 || text[0] == ' ' || text[0] == '\t' {
		return yaml.DoubleQuotedStyle
	}
	return yaml.LiteralStyle
}

// encode writes a flat tree and makes sure that it reads as the same.
func encode(root *yaml.Node) ([]byte, error) {
	text, err := yamltree.Encode(root)
	if err != nil {
		return nil, err
	}
	var again yaml.Node
	if err := yaml.Unmarshal(text, &again); err != nil {
		return nil, fmt.Errorf("reading what was written: %w", err)
	}
	if !same(root, again.Content[0]) {
		return nil, errors.New("the file holds a text that cannot be written as YAML")
	}
	return text, nil
}

func same(a, b *yaml.Node) bool {
	return a.Kind == b.Kind && a.ShortTag() == b.ShortTag() && a.Value == b.Value && slices.EqualFunc(a.Content, b.Content, same)
}
