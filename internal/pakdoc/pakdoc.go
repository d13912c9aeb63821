// Package pakdoc tells people and programs what is in a pak: a summary, a reference for users as Markdown and as an HTML page,
// the JSON Schemas of a pak's files for editors, and the catalog that an operator puts into the manifest of the on-demand
// broker. It only reads the pak, and the same pak gives the same bytes.
package pakdoc

import (
	_ "embed"
	"fmt"
	htmltemplate "html/template"
	"io"
	"strings"
	"text/template"
	"unicode"

	"service-adapter/brokerpak"
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

// The templates of the two formats. The HTML page needs no script and loads nothing, which its content security policy enforces.
var (
	//go:embed page.html.tmpl
	htmlText string
	//go:embed page.md.tmpl
	markdownText string
)

// HTML returns the reference of a pak for its users as one page that needs nothing else: no script, no font, no image but those
// in the pak's definitions. Texts of the pak never become markup. The same pak gives the same bytes.
func HTML(pak *brokerpak.Pak) (string, error) {
	functions := htmltemplate.FuncMap{
		"flat": oneLine, "image": dataImage, "json": literal, "remarks": remarks, "sets": setsAll,
	}
	parsed, err := htmltemplate.New("page").Funcs(functions).Parse(htmlText)
	if err != nil {
		return "", fmt.Errorf("reading a template: %w", err)
	}
	var out strings.Builder
	err = parsed.Execute(&out, newPage(pak))
	return out.String(), err
}

// dataImage is an image that is part of the definition, which html/template would refuse. Only types that browsers show without running
// anything pass.
func dataImage(url string) htmltemplate.URL {
	for _, kind := range []string{"png", "jpeg", "gif", "webp", "svg+xml"} {
		if strings.HasPrefix(url, "data:image/"+kind+";base64,") {
			return htmltemplate.URL(url) //nolint:gosec // checked
		}
	}
	return ""
}

// Markdown returns the reference of a pak for its users, as Markdown that GitHub and others render. Texts of the pak never
// become markup. The same pak gives the same bytes.
func Markdown(pak *brokerpak.Pak) (string, error) {
	functions := template.FuncMap{
		"angled": angled, "code": codeSpan, "codes": codes, "escape": escape, "fence": fence, "json": literal, "remarks": remarks,
		"sets": setsAll, "spans": spans, "table": table,
	}
	var out strings.Builder
	err := execute(&out, markdownText, functions, newPage(pak))
	return strings.TrimRight(out.String(), "\n") + "\n", err
}

// execute fills in a template of plain text.
func execute(w io.Writer, text string, functions template.FuncMap, data any) error {
	parsed, err := template.New("").Funcs(functions).Parse(text)
	if err != nil {
		return fmt.Errorf("reading a template: %w", err)
	}
	return parsed.Execute(w, data)
}
