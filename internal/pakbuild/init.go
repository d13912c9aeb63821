package pakbuild

import (
	"crypto/rand"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak"
	"service-adapter/examples"
	"service-adapter/internal/diag"
	"service-adapter/internal/value"
)

// skeletons are new paks: one as it is, and the one of a BOSH manifest.
//
//go:embed skeleton adopted
var skeletons embed.FS

// notInNames are the characters that names of paks and services should not hold.
const notInNames = `[^a-z0-9]+`

// serviceFile is the file of the skeleton that is named like the pak.
const serviceFile = "service.yml"

// Init writes a small complete pak into a directory, which must not exist or be empty. The pak is named after the directory.
// It returns the names of the files, sorted, slash-separated.
func Init(dir string) ([]string, error) { return fillIn("skeleton", dir, map[string]any{}) }

// Examples are the names of the example paks.
func Examples() []string {
	entries, _ := examples.Paks.ReadDir(".") // what is embedded can be read
	return value.Each(entries, fs.DirEntry.Name)
}

// InitLike does what Init does, with the files of an example: under the new name, and with ids of its own.
func InitLike(dir, example string) ([]string, error) {
	fresh := map[string]string{}
	return copyPak(examples.Paks, example, dir, func(name, file, text string) (string, error) {
		switch {
		case !strings.Contains(file, "/"):
			text = ownName.ReplaceAllString(text, "name: "+name)
		case strings.HasPrefix(file, "tests/"): // which name the release that they make up like the service
			text = regexp.MustCompile(`(?m)(^service: |^ +release: |^ +releases:\n +- name: )`+regexp.QuoteMeta(example)+`$`).ReplaceAllString(text, "${1}"+name)
		}
		return anyID.ReplaceAllStringFunc(text, func(id string) string {
			if fresh[id] == "" {
				fresh[id] = newID()
			}
			return fresh[id]
		}), nil
	})
}

var (
	ownName = regexp.MustCompile(`(?m)^name: .*$`)
	anyID   = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
)

// InitFrom does what Init does, with a pak of a BOSH manifest. The notes say what became of what is in the manifest, and what the author
// has to decide. The error is a diag.Errors where the manifest cannot be read.
func InitFrom(dir, manifest string) (files []string, notes []Note, err error) {
	text, err := os.ReadFile(manifest) //nolint:gosec // the author names it
	if err != nil {
		return nil, nil, err
	}
	a, err := adopt(brokerpak.Document{Text: string(text), Pos: diag.Pos{File: manifest, Line: 1, Column: 1}})
	if err != nil {
		return nil, nil, err
	}
	encoded, err := encode(a.root)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", manifest, err)
	}
	files, err = fillIn("adopted", dir, map[string]any{
		"Template": strings.TrimSpace(string(encoded)), "Group": a.group, "Inputs": a.inputs, "Secrets": a.secrets, "References": a.references,
	})
	return files, a.notes, err
}

// fillIn writes one of the skeletons, whose files are templates of these fields, a name and ids.
func fillIn(skeleton, dir string, fields map[string]any) ([]string, error) {
	fields["ServiceID"], fields["PlanID"] = newID(), newID()
	return copyPak(skeletons, skeleton, dir, func(name, file, text string) (string, error) {
		fields["Name"] = name
		var out strings.Builder
		parsed, err := template.New(file).Funcs(template.FuncMap{"word": word}).Parse(text)
		if err == nil {
			err = parsed.Execute(&out, fields)
		}
		return out.String(), err
	})
}

// word is a text as YAML writes it: in quotes where it could be something else.
func word(text string) (string, error) {
	written, err := yaml.Marshal(text)
	return strings.TrimSpace(string(written)), err
}

// copyPak writes the files of a directory of embedded paks into one that is vacant. Change makes the text of each for the name of the new pak.
func copyPak(paks embed.FS, from, dir string, change func(name, file, text string) (string, error)) ([]string, error) {
	if err := checkVacant(dir); err != nil {
		return nil, err
	}
	name, err := nameOf(dir)
	if err != nil {
		return nil, err
	}
	source, err := fs.Sub(paks, from)
	if err != nil {
		return nil, err
	}
	var written []string
	err = fs.WalkDir(source, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(source, file)
		if err != nil {
			return err
		}
		changed, err := change(name, file, string(text))
		if err != nil {
			return err
		}
		if file == serviceFile {
			file = name + ".yml"
		}
		written = append(written, file)
		if kind := schemaOf(file); kind != "" {
			above := strings.Repeat("../", strings.Count(file, "/"))
			changed = "# yaml-language-server: $schema=" + above + SchemaFile(kind) + "\n" + changed
		}
		return writeFile(filepath.Join(dir, filepath.FromSlash(file)), []byte(changed), readable) // an author shares it
	})
	if err != nil {
		return nil, fmt.Errorf("writing the pak: %w", err)
	}
	slices.Sort(written)
	return written, nil
}

// SchemaFile is where a pak has the JSON Schema of a kind of its files: a path relative to its root.
func SchemaFile(kind string) string { return ".schemas/" + kind + ".json" }

// schemaOf is the kind of a file whose schema editors find by its first line, "" for others.
func schemaOf(file string) string {
	switch {
	case file == "manifest.yml":
		return "manifest"
	case strings.HasSuffix(file, ".yml") && !strings.Contains(file, "/"):
		return "definition"
	case strings.HasPrefix(file, "tests/"):
		return "case"
	}
	return ""
}

// nameOf makes a name of the directory's.
func nameOf(dir string) (string, error) {
	full, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	name := strings.Trim(regexp.MustCompile(notInNames).ReplaceAllString(strings.ToLower(filepath.Base(full)), "-"), "-")
	if name == "" || name == "manifest" || name == "null" { // the file of that name is taken, and the word is no text
		return "my-service", nil
	}
	return name, nil
}

// newID returns a random UUID.
func newID() string {
	var raw [16]byte
	_, _ = rand.Read(raw[:]) // never fails
	raw[6], raw[8] = raw[6]&0x0f|0x40, raw[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", raw[:4], raw[4:6], raw[6:8], raw[8:10], raw[10:])
}
