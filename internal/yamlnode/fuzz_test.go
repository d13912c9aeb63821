package yamlnode_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"service-adapter/internal/yamlnode"
)

// FuzzParse holds the parser to the library for the texts that it does not leave to it.
func FuzzParse(f *testing.F) {
	const seedSize = 4000 // bytes; longer ones are mutated too slowly
	for _, text := range yamlFiles(f, "../..") {
		f.Add(text[:min(len(text), seedSize)])
	}
	for _, text := range append(plainTexts, otherTexts...) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !yamlnode.Fast(text) {
			return
		}
		if difference := compare(text); difference != "" {
			t.Error(difference)
		}
	})
}

// compare says where the decoder and the library differ about the first two documents of a text, "" for nowhere.
func compare(text string) string {
	wanted := &yaml.Node{}
	decoder := yaml.NewDecoder(strings.NewReader(text))
	wantedErr := decoder.Decode(wanted)
	ours := yamlnode.NewDecoder(text)
	got, err := ours.Decode()
	switch {
	case fmt.Sprint(err) != fmt.Sprint(wantedErr):
		return fmt.Sprintf("the error is %v, that of the library is %v", err, wantedErr)
	case err != nil:
		return ""
	}
	if difference := differ(got, wanted, "."); difference != "" {
		return difference
	}
	wantedErr = decoder.Decode(&yaml.Node{})
	if _, err := ours.Decode(); fmt.Sprint(err) != fmt.Sprint(wantedErr) {
		return fmt.Sprintf("the error of the second document is %v, that of the library is %v", err, wantedErr)
	}
	return ""
}

// differ says where two nodes differ in more than comments.
func differ(a, b *yaml.Node, path string) string {
	if a.Kind != b.Kind || a.Tag != b.Tag || a.Value != b.Value || a.Style != b.Style || a.Anchor != b.Anchor ||
		(a.Alias == nil) != (b.Alias == nil) || a.Line != b.Line || a.Column != b.Column || len(a.Content) != len(b.Content) ||
		(a.Content == nil) != (b.Content == nil) {
		return fmt.Sprintf("%s is %+v, that of the library is %+v", path, *a, *b)
	}
	for i := range a.Content {
		if difference := differ(a.Content[i], b.Content[i], fmt.Sprintf("%s/%d", path, i)); difference != "" {
			return difference
		}
	}
	return ""
}

// yamlFiles are the texts of all YAML files of the source below a directory, by path.
func yamlFiles(t testing.TB, root string) map[string]string {
	t.Helper()
	texts := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == "build" || strings.HasPrefix(entry.Name(), ".git")) {
			return fs.SkipDir
		}
		if extension := filepath.Ext(path); entry.IsDir() || extension != ".yml" && extension != ".yaml" {
			return nil
		}
		text, err := os.ReadFile(path)
		texts[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}
