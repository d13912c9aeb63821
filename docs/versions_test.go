package docs_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"service-adapter/internal/engine/opentofu"
)

// TestTestedVersions compares the versions of OpenTofu that the program lists as tested with those that the Makefile
// builds and those on the page about versions.
func TestTestedVersions(t *testing.T) {
	var built []string
	for _, line := range regexp.MustCompile(`(?m)^(?:OLDER_)?OPENTOFU(?:_VERSION)? +:= .*$`).
		FindAllString(readPage(t, "Makefile"), -1) {
		built = append(built, regexp.MustCompile(`\d+\.\d+\.\d+`).FindAllString(line, -1)...)
	}
	slices.SortFunc(built, opentofu.Compare)
	if !slices.Equal(built, opentofu.Tested()) {
		t.Errorf("the Makefile builds %q, and tested are %q", built, opentofu.Tested())
	}
	const page = "docs/opentofu-versions.md"
	if rows := firstCells(section(t, page, "Tested versions")); !slices.Equal(rows, opentofu.Tested()) {
		t.Errorf("%s lists %q as tested, and tested are %q", page, rows, opentofu.Tested())
	}
}

// TestDefectiveVersions compares the table of defects with that of the program, with all texts.
func TestDefectiveVersions(t *testing.T) {
	const page = "docs/opentofu-versions.md"
	var rows, wanted []string
	text := section(t, page, "Versions with defects")
	for _, row := range regexp.MustCompile("(?m)^\\| `.*$").FindAllString(text, -1) {
		rows = append(rows, strings.ReplaceAll(row, "`", ""))
	}
	for _, defect := range opentofu.Defects() {
		cells := []string{defect.Versions(), defect.Issue, defect.Summary, defect.Fixed}
		wanted = append(wanted, "| "+strings.Join(cells, " | ")+" |")
	}
	if !slices.Equal(rows, wanted) {
		t.Errorf("%s lists\n%s\nand the program has\n%s", page, strings.Join(rows, "\n"), strings.Join(wanted, "\n"))
	}
}
