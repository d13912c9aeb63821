package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"service-adapter/spec/kit/broker"
)

// TestConceptsPage runs the commands of docs/concepts.md, the last of which prints the JSON of the page.
func TestConceptsPage(t *testing.T) {
	page := readFile(t, "docs/concepts.md")
	dir := t.TempDir()
	if err := os.Symlink(broker.Binary(t), filepath.Join(dir, "service-adapter")); err != nil {
		t.Fatal(err)
	}
	site := operatorsSite{dir: dir, environment: []string{
		"PATH=" + dir + string(filepath.ListSeparator) + os.Getenv("PATH"), "TMPDIR=" + dir,
	}}
	last := ""
	for _, block := range indentedShellBlock.FindAllStringSubmatch(page, -1) {
		for line := range strings.Lines(block[1]) {
			output, err := site.run(strings.TrimSpace(line), "")
			if err != nil {
				t.Fatalf("%s: %v\n%s", line, err, output)
			}
			last = string(output)
		}
	}
	printed := regexp.MustCompile("(?ms)^```json\n(.*?)^```$").FindStringSubmatch(page)
	if printed == nil || !matches(decodeJSON(t, printed[1]), decodeJSON(t, last)) {
		t.Errorf("the last command of the page printed %s", last)
	}
}
