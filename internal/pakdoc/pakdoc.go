// Package pakdoc tells people and programs what is in a pak: a summary, a reference for users as Markdown and as an HTML page,
// the JSON Schemas of a pak's files for editors, and the catalog that an operator puts into the manifest of the on-demand
// broker. It only reads the pak, and the same pak gives the same bytes.
package pakdoc

import (
	"fmt"
	"strings"
	"unicode"
)

// oneLine joins the lines of a text and leaves out what a terminal or a browser would not show as a character.
func oneLine(words string) string {
	shown := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || unicode.IsSpace(r) {
			return r
		}
		return -1
	}, words)
	return strings.Join(strings.Fields(shown), " ")
}

// Stale compares a document that was written before with what the pak gives now. It returns "" when they are the same, else
// where they differ first: one sentence and the two lines. Line ends of another system are no difference.
func Stale(written, current string) string {
	written = strings.ReplaceAll(written, "\r\n", "\n")
	if written == current {
		return ""
	}
	before, now := strings.Split(written, "\n"), strings.Split(current, "\n")
	at := 0
	for at < min(len(before), len(now)) && before[at] == now[at] {
		at++
	}
	return fmt.Sprintf("it differs from line %d on\n  - %s\n  + %s", at+1, shortened(before, at), shortened(now, at))
}

// maxShown bounds the shown part of a line in characters.
const maxShown = 100

func shortened(lines []string, at int) string {
	if at >= len(lines) || at == len(lines)-1 && lines[at] == "" {
		return "(the end)"
	}
	line := []rune(oneLine(lines[at]))
	if len(line) > maxShown {
		return string(line[:maxShown]) + "…"
	}
	return string(line)
}
