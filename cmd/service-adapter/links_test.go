package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// releasedAnchors are the anchors of docs/operations.md that help texts and pages of earlier releases link to.
const releasedAnchors = `the-commands json a-fleet-at-a-glance choosing-a-backend backup-and-restore
	a-backup-that-any-backend-takes encryption what-is-secret before-an-upgrade upgrades drift certificates
	who-changed-what monitoring new-credentials what-a-pak-may-do after-a-fault a-killed-adapter-or-a-killed-opentofu
	an-interrupted-creation-change-import-or-deletion instances-whose-deployment-is-gone
	delete-after-a-rotation-of-the-administrators-password bindings-and-instances-that-cloud-foundry-does-not-know
	errands-of-instances the-state-backend-is-down a-command-that-takes-too-long a-disk-that-is-full
	a-machine-that-lost-power a-lock-that-stays a-state-that-is-lost-while-opentofu-works an-unreadable-state
	an-unreadable-pak broken-states a-missing-state a-lost-backend a-newer-state a-lost-provider
	bindings-of-other-adapters`

// TestOperationsIndex: docs/operations.md has at most 60 lines, links to every page in docs/operations, and has the
// anchors of the page that it replaced.
func TestOperationsIndex(t *testing.T) {
	text := readFile(t, "docs/operations.md")
	if lines := strings.Count(text, "\n"); lines > 60 {
		t.Errorf("docs/operations.md has %d lines", lines)
	}
	pages, err := filepath.Glob(filepath.Join(repository(t), "docs", "operations", "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("%d pages in docs/operations: %v", len(pages), err)
	}
	for _, page := range pages {
		if name := filepath.Base(page); !strings.Contains(text, "(operations/"+name+")") {
			t.Errorf("docs/operations.md has no link to %s", name)
		}
	}
	present := anchors(text)
	for _, anchor := range strings.Fields(releasedAnchors) {
		if !slices.Contains(present, anchor) {
			t.Errorf("docs/operations.md has no anchor %s", anchor)
		}
	}
}

// TestLinks: every relative link of a page leads to a file that exists, and to an anchor of the page if it names one.
func TestLinks(t *testing.T) {
	root := repository(t)
	var pages []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/operations/*.md", "examples/*/README.md"} {
		matches, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(matches) == 0 {
			t.Fatalf("%s matches %d pages: %v", pattern, len(matches), err)
		}
		pages = append(pages, matches...)
	}
	link := regexp.MustCompile(`\]\(([^)\s:]+)\)`)
	for _, page := range pages {
		for _, match := range link.FindAllStringSubmatch(withoutCode(readPage(t, page)), -1) {
			path, anchor, _ := strings.Cut(match[1], "#")
			target := page
			if path != "" {
				target = filepath.Join(filepath.Dir(page), path)
			}
			name, err := filepath.Rel(root, page)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s, which does not exist", name, match[1])
			} else if anchor != "" && !slices.Contains(anchors(readPage(t, target)), anchor) {
				t.Errorf("%s links to %s, but that page has no such anchor", name, match[1])
			}
		}
	}
}

// readPage returns the content of a file.
func readPage(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// withoutCode returns Markdown without its fenced blocks and its inline code.
func withoutCode(text string) string {
	text = regexp.MustCompile("(?ms)^ *```.*?^ *```$").ReplaceAllString(text, "")
	return regexp.MustCompile("`[^`\n]*`").ReplaceAllString(text, "")
}

// anchors returns the anchors of a Markdown page: those of its headings, as GitHub derives them, and the ids of its
// `<a id>` elements.
func anchors(text string) []string {
	var found []string
	for _, heading := range regexp.MustCompile(`(?m)^#+ +(.*)$`).FindAllStringSubmatch(text, -1) {
		name := strings.ToLower(regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(heading[1], ""))
		found = append(found, strings.ReplaceAll(name, " ", "-"))
	}
	for _, element := range regexp.MustCompile(`<a id="([^"]+)">`).FindAllStringSubmatch(text, -1) {
		found = append(found, element[1])
	}
	return found
}
