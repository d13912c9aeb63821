// Package pakdoc tells people and programs what is in a pak: a summary, a reference for users as Markdown and as an HTML page,
// the JSON Schemas of a pak's files for editors, and the catalog that an operator puts into the manifest of the on-demand
// broker. It only reads the pak, and the same pak gives the same bytes.
package pakdoc

import (
	_ "embed"
	"fmt"
	htmltemplate "html/template"
	"io"
	"regexp"
	"strings"
	"text/template"
	"unicode"

	"service-adapter/brokerpak"
	"service-adapter/internal/value"
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
		"angled": angled, "code": codeSpan, "codes": codes, "description": description, "escape": escape, "fence": fence, "json": literal,
		"remarks": remarks, "sets": setsAll, "spans": spans,
		"cell": func(text string) string { return strings.ReplaceAll(text, "|", `\|`) }, // a bar would end it, even within code
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

// description is all that is said of a parameter, in one cell of a table.
func description(p parameter) string {
	var parts []string
	if p.Required {
		parts = append(parts, "**Required.**")
	}
	if p.Description != "" {
		parts = append(parts, escape(p.Description))
	}
	for _, note := range p.Notes {
		parts = append(parts, spans(note))
	}
	if len(p.Enum) > 0 {
		parts = append(parts, "One of:")
	}
	for _, allowed := range p.Enum {
		parts = append(parts, strings.TrimSuffix("• "+codeSpan(literal(allowed.Value))+" "+escape(allowed.Description), " "))
	}
	return strings.Join(parts, "<br>")
}

// fence makes a block of shell code, whatever is in it.
func fence(block string) string {
	marks := "```"
	for strings.Contains(block, marks) {
		marks += "`"
	}
	return marks + "sh\n" + block + "\n" + marks + "\n"
}

func codes(all []string) string { return strings.Join(value.Each(all, codeSpan), ", ") }

func spans(l line) string {
	var out strings.Builder
	for _, s := range l {
		if s.Code {
			out.WriteString(codeSpan(s.Text))
		} else {
			out.WriteString(s.Text) // ours
		}
	}
	return out.String()
}

// codeSpan makes a span of code, whatever is in it.
func codeSpan(literal string) string {
	literal = oneLine(literal)
	marks := "`"
	for strings.Contains(literal, marks) {
		marks += "`"
	}
	if literal == "" || strings.HasPrefix(literal, "`") || strings.HasSuffix(literal, "`") {
		literal = " " + literal + " "
	}
	return marks + literal + marks
}

var (
	// markup are the characters that mean something anywhere in a paragraph.
	markup = regexp.MustCompile("[\\\\`*_{}\\[\\]<>#&~$]")
	// leading is what makes a paragraph a list or a rule.
	leading = regexp.MustCompile(`^([0-9]*)([-+=]|[.)]( |$))`)
)

// escape makes one paragraph of a text, without markup.
func escape(words string) string {
	return leading.ReplaceAllString(markup.ReplaceAllString(oneLine(words), `\$0`), `$1\$2`)
}

// angled makes a URL safe between angle brackets.
func angled(url string) string {
	return strings.NewReplacer("<", "%3C", ">", "%3E", " ", "%20", `\`, "%5C").Replace(oneLine(url))
}
