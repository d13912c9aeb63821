// Package doc generates documents from a pak: a summary of its content, a reference for users as Markdown and as an
// HTML page, and the catalog for the manifest of the on-demand broker. It only reads the pak, and the same pak always
// results in the same bytes.
package doc

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

// oneLine returns a text with each run of white space replaced by a blank, and without characters that a terminal or
// a browser does not print, such as control characters.
func oneLine(text string) string {
	printable := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || unicode.IsSpace(r) {
			return r
		}
		return -1
	}, text)
	return strings.Join(strings.Fields(printable), " ")
}

// Stale compares a document that was generated before, written, with the current one, whose lines end with LF. It
// returns "" if they are equal, else the number of the first line that differs and that line of both documents, for a
// message. A CRLF in written equals an LF.
func Stale(written, current string) string {
	written = strings.ReplaceAll(written, "\r\n", "\n")
	if written == current {
		return ""
	}
	before, now := strings.Split(written, "\n"), strings.Split(current, "\n")
	index := 0
	for index < min(len(before), len(now)) && before[index] == now[index] {
		index++
	}
	return fmt.Sprintf("it differs from line %d on\n  - %s\n  + %s",
		index+1, shortened(before, index), shortened(now, index))
}

// maxShown is the maximum number of characters that a message quotes from a line.
const maxShown = 100

// shortened returns the line with an index for a message, on one line and cut after maxShown characters, which an
// ellipsis marks. It returns "(the end)" if the text ends before the line.
func shortened(lines []string, index int) string {
	if index >= len(lines) || index == len(lines)-1 && lines[index] == "" {
		return "(the end)"
	}
	line := []rune(oneLine(lines[index]))
	if len(line) > maxShown {
		return string(line[:maxShown]) + "…"
	}
	return string(line)
}

// The templates of the two formats. The HTML page contains no scripts and loads no other resources. Its content
// security policy enforces this.
var (
	//go:embed page.html.tmpl
	htmlText string
	//go:embed page.md.tmpl
	markdownText string
)

// HTML returns the reference of a pak for its users as a self-contained HTML page: it loads no scripts, fonts or
// images, and the images of services are embedded. Texts of the pak are escaped. The error is not nil if a template
// fails; the text is then incomplete.
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

// dataImage returns a data URL as a trusted URL, because html/template would reject it. It returns "" unless the URL
// begins as one of a PNG, JPEG, GIF, WebP or SVG image in base64, which browsers show without running code. The data
// itself is not checked.
func dataImage(url string) htmltemplate.URL {
	for _, kind := range []string{"png", "jpeg", "gif", "webp", "svg+xml"} {
		if strings.HasPrefix(url, "data:image/"+kind+";base64,") {
			return htmltemplate.URL(url) //nolint:gosec // checked
		}
	}
	return ""
}

// Markdown returns the reference of a pak for its users in GitHub Flavored Markdown. Texts of the pak are escaped. It
// returns an error if a template of this package fails; the text is then incomplete.
func Markdown(pak *brokerpak.Pak) (string, error) {
	functions := template.FuncMap{
		"angled": angled, "code": codeSpan, "codes": codes, "description": description, "escape": escape,
		"fence": fence,
		"json":  literal, "remarks": remarks, "sets": setsAll, "spans": spans,
		// A bar ends the cell of a table, even within code.
		"cell": func(text string) string { return strings.ReplaceAll(text, "|", `\|`) },
	}
	var out strings.Builder
	err := execute(&out, markdownText, functions, newPage(pak))
	return strings.TrimRight(out.String(), "\n") + "\n", err
}

// execute parses a text template and writes the result of its execution with the fields to w. It returns an error if
// the template is invalid or fails, or if w cannot be written. A part of the result may be written then.
func execute(w io.Writer, text string, functions template.FuncMap, fields any) error {
	parsed, err := template.New("").Funcs(functions).Parse(text)
	if err != nil {
		return fmt.Errorf("reading a template: %w", err)
	}
	return parsed.Execute(w, fields)
}

// description returns the description of a parameter as Markdown for a cell of a table: whether it is required, its
// text, its notes and the values of its enum, but not its type and default. Bars are not escaped. The result may be
// empty.
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
		item := "• " + codeSpan(literal(allowed.Value)) + " " + escape(allowed.Description)
		parts = append(parts, strings.TrimSuffix(item, " "))
	}
	return strings.Join(parts, "<br>")
}

// fence returns a fenced block of shell code. The fence is longer than any in the code.
func fence(block string) string {
	marks := "```"
	for strings.Contains(block, marks) {
		marks += "`"
	}
	return marks + "sh\n" + block + "\n" + marks + "\n"
}

// codes returns texts as code spans, separated by commas.
func codes(all []string) string { return strings.Join(value.Convert(all, codeSpan), ", ") }

// spans returns a line as Markdown, with its code as code spans and all other text as it is.
func spans(l line) string {
	var out strings.Builder
	for _, s := range l {
		if s.Code {
			out.WriteString(codeSpan(s.Text))
		} else {
			out.WriteString(s.Text) // a text of this package needs no escapes
		}
	}
	return out.String()
}

// codeSpan returns a text on one line as a code span. The delimiters are longer than any in the text.
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
	// markup matches characters that are special anywhere in a paragraph.
	markup = regexp.MustCompile("[\\\\`*_{}\\[\\]<>#&~$]")
	// leading matches the beginning of a paragraph that Markdown would render as a list or a thematic break.
	leading = regexp.MustCompile(`^([0-9]*)([-+=]|[.)]( |$))`)
)

// escape returns a text as a paragraph of Markdown on one line, with all special characters escaped except the bars
// that separate the cells of tables.
func escape(words string) string {
	return leading.ReplaceAllString(markup.ReplaceAllString(oneLine(words), `\$0`), `$1\$2`)
}

// angled returns a URL that can be written between angle brackets.
func angled(url string) string {
	return strings.NewReplacer("<", "%3C", ">", "%3E", " ", "%20", `\`, "%5C").Replace(oneLine(url))
}
