package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// width is the number of characters after which indent cuts a line.
const width = 110

// indent indents each line of a text by two spaces, cuts long lines, and ends the text with a line break.
func indent(text string) string {
	var out strings.Builder
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		if characters := []rune(line); len(characters) > width {
			line = string(characters[:width]) + "…"
		}
		out.WriteString("  " + line + "\n")
	}
	return out.String()
}

// changedLines returns the lines that only one of two manifests has, without the adapter's record: first the lines of
// the old one, marked by "-", then those of the new one, marked by "+".
func changedLines(before, after string) string {
	only := func(mark, text, other string) []string {
		var lines []string
		others := strings.Split(other, "\n")
		for line := range strings.SplitSeq(text, "\n") {
			if !slices.Contains(others, line) && !strings.HasPrefix(line, "brokerpak:") {
				lines = append(lines, mark+line)
			}
		}
		return lines
	}
	return strings.Join(append(only("-", before, after), only("+", after, before)...), "\n")
}

// excerpt returns the lines of a text from the line that begins with first to the line before the one that contains
// end, or to the end of the text if no line contains it. The text must contain first.
func excerpt(text, first, end string) string {
	section := text[strings.Index(text, first):]
	if section, _, ok := strings.Cut(section, end); ok {
		return section[:strings.LastIndex(section, "\n")]
	}
	return section
}

// countLines returns the number of lines of a pak: the files that define the service, without the test cases.
func countLines(pak string) (int, error) {
	lines := 0
	for _, pattern := range []string{"*.yml", "bosh/*.yml", "terraform/*.tf"} {
		files, err := filepath.Glob(filepath.Join(pak, pattern))
		if err != nil {
			return 0, err
		}
		for _, file := range files {
			text, err := os.ReadFile(file) //nolint:gosec // a file of the pak
			if err != nil {
				return 0, err
			}
			lines += bytes.Count(text, []byte("\n"))
		}
	}
	return lines, nil
}

// rounded returns a duration without meaningless digits.
func rounded(took time.Duration) time.Duration { return took.Round(10 * time.Millisecond) }
