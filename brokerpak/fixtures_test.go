package brokerpak_test

import (
	"archive/zip"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/expr"
	"service-adapter/internal/diag"
)

// basePak is a valid pak. Each case in testdata changes files of it.
const basePak = "testdata/base"

// newPak creates a directory with the files of basePak, overlaid with those of the given directories and then with
// the given texts by file name. An empty text removes the file. The directory is removed after the test.
func newPak(texts map[string]string, overlays ...string) string {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	for _, source := range append([]string{basePak}, overlays...) {
		Expect(filepath.WalkDir(source, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			inside, err := filepath.Rel(source, name)
			write(filepath.Join(dir, inside), string(text))
			return err
		})).To(Succeed())
	}
	for name, text := range texts {
		if text == "" {
			Expect(os.Remove(filepath.Join(dir, name))).To(Succeed())
			continue
		}
		write(filepath.Join(dir, name), text)
	}
	return dir
}

// write writes a file, and creates its directories.
func write(name, text string) {
	GinkgoHelper()
	Expect(os.MkdirAll(filepath.Dir(name), 0o700)).To(Succeed())
	Expect(os.WriteFile(name, []byte(text), 0o600)).To(Succeed())
}

// zipped packs a directory into a zip file and returns its name. The changes are called with the writer before it is
// closed, so that they can add entries.
func zipped(dir string, changes ...func(*zip.Writer)) string {
	GinkgoHelper()
	name := filepath.Join(GinkgoT().TempDir(), "test.brokerpak")
	file, err := os.Create(name)
	Expect(err).NotTo(HaveOccurred())
	writer := zip.NewWriter(file)
	Expect(writer.AddFS(os.DirFS(dir))).To(Succeed())
	for _, change := range changes {
		change(writer)
	}
	Expect(writer.Close()).To(Succeed())
	Expect(file.Close()).To(Succeed())
	return name
}

// entry returns a change that adds a file to a zip.
func entry(name, text string) func(*zip.Writer) {
	return func(writer *zip.Writer) {
		GinkgoHelper()
		file, err := writer.Create(name)
		Expect(err).NotTo(HaveOccurred())
		_, err = file.Write([]byte(text))
		Expect(err).NotTo(HaveOccurred())
	}
}

// open opens a valid pak and closes it after the test.
func open(name string) *brokerpak.Pak {
	GinkgoHelper()
	pak, err := brokerpak.Open(name)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(pak.Close)
	return pak
}

// outcome opens a pak and returns the result as text: the error, or the warnings and the model. The path of the pak
// is removed from the text.
func outcome(name string) string {
	GinkgoHelper()
	pak, err := brokerpak.Open(name)
	replacer := strings.NewReplacer(name+"!/", "", name+"/", "", name, "PAK")
	if err != nil {
		return replacer.Replace(err.Error()) + "\n"
	}
	DeferCleanup(pak.Close)
	var text strings.Builder
	for _, warning := range pak.Warnings {
		text.WriteString("# " + warning.String() + "\n")
	}
	model := map[string]any{
		"manifest": plain(reflect.ValueOf(pak.Manifest)),
		"services": plain(reflect.ValueOf(pak.Services)),
	}
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	Expect(encoder.Encode(model)).To(Succeed())
	return replacer.Replace(text.String())
}

// plain converts the model to maps, lists and scalars that contain all exported values that are set, except
// positions. The fields of an embedded struct become fields of the outer one.
func plain(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return nil
		}
		if template, ok := v.Interface().(*expr.Template); ok {
			return "HIL " + template.Text()
		}
		return plain(v.Elem())
	case reflect.Struct:
		fields := map[string]any{}
		for i := range v.NumField() {
			field := v.Type().Field(i)
			isPosition := field.Type == reflect.TypeFor[diag.Pos]() || field.Name == "TemplateSources"
			if !field.IsExported() || isPosition || v.Field(i).IsZero() {
				continue
			}
			if embedded, ok := plain(v.Field(i)).(map[string]any); ok && field.Anonymous {
				maps.Copy(fields, embedded)
				continue
			}
			fields[field.Name] = plain(v.Field(i))
		}
		return fields
	case reflect.Map:
		entries := map[string]any{}
		for _, key := range v.MapKeys() {
			entries[key.String()] = plain(v.MapIndex(key))
		}
		return entries
	case reflect.Slice:
		list := make([]any, v.Len())
		for i := range list {
			list[i] = plain(v.Index(i))
		}
		return list
	default:
		return v.Interface()
	}
}
