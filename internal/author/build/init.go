package build

import (
	"context"
	"crypto/rand"
	"embed"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"unicode"

	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak"
	"service-adapter/examples"
	"service-adapter/internal/ctxio"
	"service-adapter/internal/diag"
	"service-adapter/internal/value"
)

// skeletons contains the templates of new paks: "skeleton" for an empty one, and "adopted" for one that is generated
// from a BOSH manifest.
//
//go:embed skeleton adopted
var skeletons embed.FS

// notInNames matches the characters that generated names of paks and services do not contain.
const notInNames = `[^a-z0-9]+`

// serviceFile is the file of a skeleton whose name is replaced by that of the pak.
const serviceFile = "service.yml"

// Init writes a small but complete pak into the directory dir, which must be empty or not exist; it is created with its
// parent directories. The pak is named after the directory; see nameOf. Init returns the sorted, slash-separated paths
// of the files, relative to the directory. It returns nil and an error if the directory is not empty, cannot be read or
// cannot be written, or if the working directory cannot be determined. Files that were written before the error remain.
func Init(dir string) ([]string, error) { return fillIn("skeleton", dir, map[string]any{}) }

// Examples returns the sorted names of the example paks that are embedded in this program, such as "redis". InitLike
// accepts these names.
func Examples() []string {
	entries, _ := examples.Paks.ReadDir(".") // embedded files can be read
	return value.Convert(entries, fs.DirEntry.Name)
}

// InitLike writes a copy of the example pak with the name example into the directory dir, which must be empty or not
// exist; it is created with its parent directories. example must be one of Examples. The copy and its service are
// named after the directory (see nameOf), and services and plans get new ids. The JSON Schemas to which the files
// refer are not written; see SchemaFile.
//
// InitLike returns the sorted, slash-separated paths of the files, relative to the directory. It returns nil and an
// error if no such example exists, if the directory is not empty, cannot be read or cannot be written, or if the
// working directory cannot be determined. Files that were written before the error remain.
func InitLike(dir, example string) ([]string, error) {
	newIDs := map[string]string{}
	return copyPak(examples.Paks, example, dir, func(name, file, text string) (string, error) {
		switch {
		case !strings.Contains(file, "/"):
			text = ownName.ReplaceAllString(text, "name: "+name)
		case strings.HasPrefix(file, "tests/"): // the release of a test case has the name of the service
			pattern := `(?m)(^service: |^ +release: |^ +releases:\n +- name: )` + regexp.QuoteMeta(example) + `$`
			text = regexp.MustCompile(pattern).ReplaceAllString(text, "${1}"+name)
		}
		return anyID.ReplaceAllStringFunc(text, func(id string) string {
			if newIDs[id] == "" {
				newIDs[id] = newID()
			}
			return newIDs[id]
		}), nil
	})
}

// ownName matches the name of a pak or a service, and anyID matches UUIDs.
var (
	ownName = regexp.MustCompile(`(?m)^name: .*$`)
	anyID   = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
)

// maxManifest is the maximum size of the BOSH manifest for InitFrom in bytes. The largest published manifests have
// some hundred kilobytes.
const maxManifest = 4 << 20

// InitFrom writes a pak that is generated from the BOSH manifest in the file manifest, a path, into the directory
// dir, which must be empty or not exist; it is created with its parent directories. The JSON Schemas to which the
// files refer are not written; see SchemaFile. files are the sorted, slash-separated paths of the written files,
// relative to the directory. The notes describe how the manifest was converted, and the decisions that are left to
// the author; they are sorted by position.
//
// The error is a diag.Errors if the manifest is not valid, cannot be converted, or is larger than 4 MB. Other errors
// are that the manifest cannot be read, that its template cannot be written as YAML, that the directory is not empty,
// cannot be read or cannot be written, and that the working directory cannot be determined. The error wraps that of
// ctx if ctx ends while the manifest is read; ctx does not interrupt the writing. files is nil if there is an error.
//
// If the manifest cannot be read, or cannot be converted into a template, the notes are nil. Every other error occurs
// after the conversion: the notes are returned with it, and files that were written before it remain.
func InitFrom(ctx context.Context, dir, manifest string) (files []string, notes []Note, err error) {
	text, err := ctxio.Await(ctx, func() ([]byte, error) { return readAtMost(manifest, maxManifest+1) })
	if err != nil {
		return nil, nil, fmt.Errorf("reading the manifest: %w", err)
	}
	if len(text) > maxManifest {
		var faults diag.List
		faults.Errorf(diag.Pos{File: manifest}, manifestRule, "the manifest is larger than %d MB", maxManifest>>20)
		return nil, nil, faults.Err()
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
		"Template": strings.TrimSpace(string(encoded)), "Group": a.group, "Inputs": a.inputs,
		"Secrets": value.Keys(a.secrets), "Carried": a.carried, "References": a.references,
		"Releases": nil,
	})
	return files, a.notes, err
}

// readAtMost returns the content of the file at a path, but at most its first limit bytes; a longer file is not an
// error. It returns an error if the file cannot be opened or read; the content must not be used then.
func readAtMost(name string, limit int64) ([]byte, error) {
	file, err := os.Open(name) //nolint:gosec // the author names it
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // opened for reading only, so that closing loses no data
	return io.ReadAll(io.LimitReader(file, limit))
}

// fillIn writes the files of a skeleton into the directory dir, which must be empty or not exist. skeleton is a
// directory of the embedded skeletons: "skeleton" or "adopted". Its files are templates of text/template, which are
// executed with fields. fillIn sets the fields Name, the name of the pak, and ServiceID and PlanID, new UUIDs, in the
// map, which must not be nil; the caller sets all other fields that the templates use. The names, modes and first
// lines of the written files are those of copyPak.
//
// It returns the sorted, slash-separated paths of the written files, relative to dir. It returns nil and an error if
// the skeleton does not exist, if a template is invalid or fails, if dir is not empty, cannot be read or cannot be
// written, or if the working directory cannot be determined. Files that were written before the error remain.
func fillIn(skeleton, dir string, fields map[string]any) ([]string, error) {
	fields["ServiceID"], fields["PlanID"] = newID(), newID()
	functions := template.FuncMap{
		"word": word, "flow": flow,
		"hasValue": func(inputs []input) bool {
			return slices.ContainsFunc(inputs, func(declared input) bool { return declared.Value != "" })
		},
	}
	return copyPak(skeletons, skeleton, dir, func(name, file, text string) (string, error) {
		fields["Name"] = name
		var out strings.Builder
		parsed, err := template.New(file).Funcs(functions).Parse(text)
		if err == nil {
			err = parsed.Execute(&out, fields)
		}
		return out.String(), err
	})
}

// flow returns a value on one line, as YAML in flow style, such as {"a":[1,"x"]}. The result is compact JSON with
// sorted keys. Characters up to U+FFFF that are not printable, some of which YAML does not allow, are escaped. It is
// "null" for a value that JSON cannot represent, such as an infinity.
func flow(item any) string {
	var text strings.Builder
	for _, char := range string(value.MustJSON(item)) {
		if char <= 0xffff && !unicode.IsGraphic(char) {
			fmt.Fprintf(&text, `\u%04x`, char)
		} else {
			text.WriteRune(char)
		}
	}
	return text.String()
}

// word returns a text as a YAML scalar, without a line break at its end. The scalar is in quotes if YAML would read the
// plain text as another type: "true" remains a string. A text with line breaks results in several lines. word returns
// an error if the YAML library cannot encode the text.
func word(text string) (string, error) {
	scalar, err := yaml.Marshal(text)
	return strings.TrimSpace(string(scalar)), err
}

// copyPak writes the files below the directory from in the file system paks into dir, which must be empty or not
// exist; dir is created with its parent directories. copyPak returns the sorted, slash-separated paths of the written
// files, relative to dir. The new pak is named after dir; see nameOf. The file service.yml in the root of from
// becomes NAME.yml.
//
// change returns the text to write for each file. Its parameters are the name of the new pak, the path of the file
// relative to from, and the embedded text. A manifest, a definition and a test case (see schemaOf) also get a comment
// in the first line with the path of their JSON Schema for editors, which copyPak does not write; see SchemaFile. The
// files get mode 0644, and scripts, which begin with "#!", get mode 0755; the umask may reduce both.
//
// copyPak returns nil and an error if dir is not empty or cannot be read, if from does not exist, if change fails, if
// a file cannot be written, or if the working directory cannot be determined. The files that were written before the
// error remain.
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
		// All users may read the files, because the author may share them. Embedded files have no modes.
		mode := fs.FileMode(readable)
		if strings.HasPrefix(changed, "#!") {
			mode = executable
		}
		return writeFile(filepath.Join(dir, filepath.FromSlash(file)), []byte(changed), mode)
	})
	if err != nil {
		return nil, fmt.Errorf("writing the pak: %w", err)
	}
	slices.Sort(written)
	return written, nil
}

// SchemaFile returns the slash-separated path, relative to the root of a pak, of the JSON Schema for a kind of files,
// such as ".schemas/manifest.json" for "manifest". The kinds are "manifest", "definition" and "case"; SchemaFile does
// not check this.
func SchemaFile(kind string) string { return ".schemas/" + kind + ".json" }

// schemaOf returns the kind of a file of a pak, which SchemaFile accepts. file is a slash-separated path relative to
// the root of the pak. The kind is "manifest" for manifest.yml, "definition" for any other .yml file in the root,
// "case" for a .yml file in tests or below it, and "" for a file without a JSON Schema. schemaOf decides by the path
// alone and reads no file.
func schemaOf(file string) string {
	switch {
	case file == "manifest.yml":
		return "manifest"
	case strings.HasSuffix(file, ".yml") && !strings.Contains(file, "/"):
		return "definition"
	case strings.HasPrefix(file, "tests/") && strings.HasSuffix(file, ".yml"):
		return "case"
	}
	return ""
}

// nameOf returns the name of a new pak in the directory dir, such as "my-pak" for "/paks/My_Pak". It is the last
// element of the absolute path in lower case, with each run of characters other than a-z and 0-9 replaced by a hyphen,
// and without hyphens at its ends. The name is "my-service" if no character is left, or if it would be "manifest" or
// "null". The directory need not exist. nameOf returns an error only if the working directory cannot be determined.
func nameOf(dir string) (string, error) {
	full, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	base := strings.ToLower(filepath.Base(full))
	name := strings.Trim(regexp.MustCompile(notInNames).ReplaceAllString(base, "-"), "-")
	// manifest.yml is the manifest of the pak, and YAML reads null as no name.
	if name == "" || name == "manifest" || name == "null" {
		return "my-service", nil
	}
	return name, nil
}

// newID returns a new random UUID (version 4) with lower-case digits, such as "0b2c5f4e-8d1a-4c57-9a3e-7f6d2b1c0e94".
func newID() string {
	var raw [16]byte
	_, _ = rand.Read(raw[:]) // never fails
	raw[6], raw[8] = raw[6]&0x0f|0x40, raw[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", raw[:4], raw[4:6], raw[6:8], raw[8:10], raw[10:])
}
