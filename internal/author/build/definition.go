package build

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

// maxImage is the maximum size of an image in bytes. The image becomes part of the definition, and of the broker's
// response to every catalog request.
const maxImage = 1 << 20

// A definition makes one service definition of a pak self-contained: it replaces references to files by their contents.
// It contains the files of the pak, the path of the definition for messages, the list of errors, and the names of the
// files that it has read. The fields files, name and diags must be set.
type definition struct {
	files fs.FS  // the files of the pak
	name  string // the path of the definition in messages
	diags *diag.List
	read  []string // the names of the files that were read
}

// embed replaces the references to files in a service definition by the contents of the files, in place:
//   - image_url becomes a data URL, if it is a file URL; see embedImage.
//   - In provision and bind, template_ref becomes template, and the entries of template_refs become entries of
//     templates.
//   - In provision.bosh, manifest_ref becomes manifest.
//   - In each entry of the list ops and of the mapping configs in provision.bosh, ref becomes inline.
//
// root is the mapping of the definition. embed adds the names of the files to d.read. For each file that cannot be
// used, it adds an error to d.diags and continues; the definition must not be used then.
func (d *definition) embed(root *yaml.Node) {
	d.embedImage(root)
	for _, name := range []string{"provision", "bind"} {
		action := get(root, name)
		d.embedFile(action, "template_ref", "template")
		if refs := get(action, "template_refs"); refs != nil {
			d.embedTemplates(action, refs)
		}
	}
	bosh := get(get(root, "provision"), "bosh")
	d.embedFile(bosh, "manifest_ref", "manifest")
	for _, list := range []string{"ops", "configs"} {
		if entries := get(bosh, list); entries != nil {
			for _, entry := range entries.Content {
				d.embedFile(entry, "ref", "inline")
			}
		}
	}
}

// embedFile removes the key reference, such as "template_ref", from a mapping, and sets the key in its parameter key,
// such as "template", to the content of the file that the reference names. An existing value of that key is replaced.
// The content of an empty file becomes a line break. A reference that is empty or not a text is only removed. embedFile
// adds the name of the file to d.read. If the file cannot be read or is not UTF-8 text, embedFile adds an error to
// d.diags and sets the key to a line break. It does nothing if mapping is nil, is not a mapping, or lacks the
// reference.
func (d *definition) embedFile(mapping *yaml.Node, reference, key string) {
	ref := get(mapping, reference)
	if ref == nil {
		return
	}
	remove(mapping, reference)
	if isText(ref) {
		text := d.text(ref)
		if text.Value == "" {
			text = textNode("\n") // an empty text would mean that there is no text
		}
		yamltree.Set(mapping, key, text)
	}
}

// embedTemplates replaces the key template_refs of an action, which is the mapping of provision or bind, by the key
// templates with the contents of the files. refs is the value of template_refs, which must not be nil: a mapping of
// names to paths in the pak, or null, which counts as an empty mapping. A file replaces an existing template of the
// same name, and other existing templates are kept; a value of templates that is not a mapping is replaced. Paths
// that are empty or not texts are dropped. embedTemplates adds the paths of the files to d.read. For a file that
// cannot be read or is not UTF-8 text, it adds an error to d.diags and an empty template.
func (d *definition) embedTemplates(action, refs *yaml.Node) {
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

// readFile reads the file with a name in the pak, relative to its root, and adds the name to d.read, even if reading
// fails. If the file cannot be read, for example because the name leads outside of the pak, readFile adds an error to
// d.diags and ok is false; content must not be used then. node is the scalar of the definition that contains the name;
// its position is that of the error.
func (d *definition) readFile(node *yaml.Node, name string) (content []byte, ok bool) {
	d.read = append(d.read, name)
	content, err := fs.ReadFile(d.files, path.Clean(filepath.ToSlash(name)))
	if err != nil {
		var pathErr *fs.PathError
		if errors.As(err, &pathErr) {
			err = pathErr.Err // the message contains the path already
		}
		d.errorf(node, "missing-file", "%q cannot be read: %s; paths are relative to the pak and inside of it", name,
			err)
	}
	return content, err == nil
}

// text returns the content of a file as a new string node. ref is the scalar of the definition that contains the name
// of the file, relative to the root of the pak. If the file cannot be read or is not UTF-8 text, text adds an error to
// d.diags and returns a node with the string "". It adds the name to d.read.
func (d *definition) text(ref *yaml.Node) *yaml.Node {
	content, _ := d.readFile(ref, ref.Value)
	if !utf8.Valid(content) {
		d.errorf(ref, "encoding", "%s is not UTF-8 text", ref.Value)
		content = nil
	}
	return textNode(string(content))
}

// embedImage replaces a file URL in the key image_url of a definition, such as "file://logo.png" for a file in the
// root of the pak, by a data URL with the content of the file. It adds an error to d.diags if the file cannot be
// read, is not a PNG, JPEG or SVG image, or is larger than maxImage (1 MB); the URL is replaced in this case as well,
// and is not usable. With or without an error, the name of the file is added to d.read. Any other URL, and a
// definition without the key, is not changed.
func (d *definition) embedImage(root *yaml.Node) {
	node := get(root, "image_url")
	if node == nil {
		return
	}
	name, isFile := strings.CutPrefix(node.Value, "file://")
	if !isFile {
		return
	}
	content, ok := d.readFile(node, name)
	kind := brokerpak.ImageType(name, content)
	switch {
	case !ok:
	case kind == "":
		d.errorf(node, "image", "%s must be a PNG, JPEG or SVG image", name)
	case len(content) > maxImage:
		d.errorf(node, "image", "%s is larger than %d MB; it becomes part of every catalog", name, maxImage>>20)
	}
	yamltree.Set(root, "image_url", textNode("data:"+kind+";base64,"+base64.StdEncoding.EncodeToString(content)))
}

// errorf adds an error to d.diags, at the position of a node of the definition, with a rule such as "missing-file" and
// a message that is formatted as by fmt.Sprintf.
func (d *definition) errorf(node *yaml.Node, rule, format string, args ...any) {
	d.diags.Errorf(diag.Pos{File: d.name, Line: node.Line, Column: node.Column}, rule, format, args...)
}

// isText reports whether a node is a scalar other than null and the empty string. Numbers and booleans count as texts.
// The node must not be nil.
func isText(node *yaml.Node) bool {
	return node.Kind == yaml.ScalarNode && node.ShortTag() != "!!null" && node.Value != ""
}

// writeTexts writes manifest.yml and the self-contained definitions of the built pak into the directory stage, which
// it creates if necessary: definitions/service0-NAME.yml and so on. In the manifest, the list service_definitions
// contains these paths, and platforms the platforms of the build. files are the names of the files in the source that
// the definitions replace: the source definitions, and the files to which they refer.
//
// The error is a diag.Errors if files to which definitions refer cannot be used. Other errors are that the manifest or
// a definition cannot be read, is not a valid YAML mapping, or cannot be written. After an error, files must not be
// used, and stage may contain some of the files.
func writeTexts(pak *brokerpak.Pak, platforms []brokerpak.Platform, stage string) (files []string, err error) {
	diags := &diag.List{}
	var names []string
	for i, service := range pak.Services {
		name := fmt.Sprintf("definitions/service%d-%s.yml", i, service.Name)
		names = append(names, name)
		d := &definition{files: pak.Files(), name: pak.Display(service.File), diags: diags}
		if err := rewrite(pak, service.File, filepath.Join(stage, filepath.FromSlash(name)), d.embed); err != nil {
			return nil, err
		}
		files = append(append(files, service.File), d.read...)
	}
	if err := diags.Err(); err != nil {
		return nil, err
	}
	return files, rewrite(pak, manifestName, filepath.Join(stage, manifestName), func(root *yaml.Node) {
		for key, list := range map[string]any{"service_definitions": names, "platforms": platforms} {
			var node yaml.Node
			_ = node.Encode(list) // a plain list can be encoded
			yamltree.Set(root, key, &node)
		}
	})
}

// copyTexts replaces the definitions and the manifest that writeTexts wrote into the directory stage by the texts of
// the source: manifest.yml and the files with the names in files, which writeTexts returned. The copies are unchanged
// and have the same names. copyTexts returns an error if a file cannot be read, written or removed; some of the files
// in stage may then be removed or replaced.
func copyTexts(pak *brokerpak.Pak, files []string, stage string) error {
	if err := os.RemoveAll(filepath.Join(stage, "definitions")); err != nil {
		return err
	}
	for _, name := range append([]string{manifestName}, files...) {
		clean := path.Clean(filepath.ToSlash(name))
		text, err := fs.ReadFile(pak.Files(), clean)
		if err != nil {
			return fmt.Errorf("reading %s: %w", pak.Display(name), err)
		}
		if err := writeFile(filepath.Join(stage, filepath.FromSlash(clean)), text, 0o600); err != nil {
			return fmt.Errorf("writing a copy of %s: %w", pak.Display(name), err)
		}
	}
	return nil
}

// rewrite reads the first document of the YAML file with a name in a pak, calls change with its root mapping, which
// change may modify, and writes the result to the file target, a path outside of the pak. Aliases and merge keys are
// resolved, and comments are dropped; see parseFlat. An existing target is replaced, and its directory is created if
// necessary. The file of the pak is not modified.
//
// rewrite returns an error if the file cannot be read, is not valid YAML, or is not a mapping, if it repeats a key or
// has another defect that parseFlat rejects, if the result cannot be represented as YAML, or if target cannot be
// written.
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

// writeFile writes a text to a file, replacing the content of an existing file, and creates its directories. mode is
// the mode of a new file; an existing file keeps its own. New directories get mode 0755 if mode contains all bits of
// 0644, and otherwise 0700. The umask applies to all these modes. The error is that of creating a directory or of
// writing the file, which may then be incomplete.
func writeFile(name string, text []byte, mode fs.FileMode) error {
	dirs := fs.FileMode(0o700)
	if mode&readable == readable {
		dirs = 0o755
	}
	if err := os.MkdirAll(filepath.Dir(name), dirs); err != nil {
		return err
	}
	return os.WriteFile(name, text, mode)
}

// parseFlat returns the root mapping of the first document of a YAML text; further documents are ignored. Its aliases
// and merge keys are resolved, because not all programs that read built paks support them. The nodes keep their
// positions, but not their comments and the style of block scalars. It returns nil and an error if the text is not
// valid YAML or is empty, if a key is repeated or is not a scalar, if a merged value is not a mapping or has keys that
// are not strings, if the tree has more than 200 levels or 200,000 nodes after resolving, or if the root is not a
// mapping.
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
		return nil, errors.New("the root of the file must be a mapping")
	}
	restyle(root)
	return root, nil
}

// restyle changes the style of all block scalars (| and >) of a tree to that of textStyle, because their text may not
// be valid in a block at the new indentation. It modifies the nodes in place; their values remain. Other nodes are not
// changed. The node must not be nil.
func restyle(node *yaml.Node) {
	if node.Kind == yaml.ScalarNode && node.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		node.Style = textStyle(node.Value)
	}
	for _, child := range node.Content {
		restyle(child)
	}
}

// get returns the value of a key of a mapping. It returns nil if there is no such key, or if the node is nil or not a
// mapping.
func get(mapping *yaml.Node, key string) *yaml.Node {
	_, value := yamltree.Get(mapping, key)
	return value
}

// remove removes a key and its value from a mapping in place. It does nothing if the node is not a mapping or lacks the
// key. The node must not be nil.
func remove(mapping *yaml.Node, key string) {
	removeKeys(mapping, func(candidate string) bool { return candidate == key })
}

// removeKeys removes the keys for which matches returns true, with their values, from a mapping in place, and returns
// the nodes of the removed keys in their order. The result is nil if no key matches. A node that is not a mapping is
// not modified, and the result is nil. The node must not be nil.
func removeKeys(mapping *yaml.Node, matches func(key string) bool) (removed []*yaml.Node) {
	if mapping.Kind != yaml.MappingNode {
		return nil
	}
	kept := mapping.Content[:0]
	for pair := range slices.Chunk(mapping.Content, 2) {
		if matches(pair[0].Value) {
			removed = append(removed, pair[0])
		} else {
			kept = append(kept, pair...)
		}
	}
	mapping.Content = kept
	return removed
}

// textNode returns a new scalar node that is a string, even if YAML would read the text as another type. A text with
// line breaks gets the style of textStyle: a literal block or double quotes. Any other text has no explicit style. The
// node has no position.
func textNode(text string) *yaml.Node {
	node := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
	if strings.ContainsAny(text, "\n\r") {
		node.Style = textStyle(text)
	}
	return node
}

// textStyle returns the YAML style for a text of several lines: yaml.LiteralStyle, or yaml.DoubleQuotedStyle for a text
// that a literal block cannot represent, because it is empty, is not UTF-8, begins with a blank, a tab or a line break,
// or contains a carriage return, a byte order mark or another kind of line break than "\n".
func textStyle(text string) yaml.Style {
	plain := utf8.ValidString(text) && !strings.ContainsAny(text, "\r\u0085\u2028\u2029\ufeff")
	first := strings.IndexFunc(text, func(r rune) bool { return r != '\n' })
	if !plain || first != 0 || text[0] == ' ' || text[0] == '\t' {
		return yaml.DoubleQuotedStyle
	}
	return yaml.LiteralStyle
}

// encode returns a tree without aliases as YAML text. It parses the text again to verify it. It returns an error if the
// tree cannot be encoded, or if the text is not valid YAML or results in another tree; styles, comments and positions
// may differ.
func encode(root *yaml.Node) ([]byte, error) {
	text, err := yamltree.Encode(root)
	if err != nil {
		return nil, err
	}
	var reparsed yaml.Node
	if err := yaml.Unmarshal(text, &reparsed); err != nil {
		return nil, fmt.Errorf("reading the generated definition: %w", err)
	}
	if !same(root, reparsed.Content[0]) {
		return nil, errors.New("the file contains a text that cannot be written as YAML")
	}
	return text, nil
}

// same reports whether two trees of nodes have the same structure, types and values, with the keys in the same order.
// Styles, comments and positions may differ. The roots must not be nil. Texts of scalars are compared as they are
// written: 1.0 and 1.00 differ.
func same(a, b *yaml.Node) bool {
	return a.Kind == b.Kind && a.ShortTag() == b.ShortTag() && a.Value == b.Value &&
		slices.EqualFunc(a.Content, b.Content, same)
}
