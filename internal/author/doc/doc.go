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

// oneLine returns a text with each run of white space, including line breaks, replaced by a blank, and without white
// space at both ends. Characters that a terminal or a browser does not print, such as control characters, are removed.
func oneLine(text string) string {
	printable := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || unicode.IsSpace(r) {
			return r
		}
		return -1
	}, text)
	return strings.Join(strings.Fields(printable), " ")
}

// Stale compares a document that was generated before, written, with the newly generated one, current. It returns "" if
// they are equal, where a CRLF in written equals an LF. Otherwise it returns a text of three lines for a message: "it
// differs from line N on", then line N of written after a minus sign, and line N of current after a plus sign. White
// space in both lines is collapsed, and each is cut after 100 characters, so that they may look equal. "(the end)"
// replaces the line of a document that ends before it.
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

// shortened returns one of the lines of a text for a message. index is counted from 0. White space in the line is
// collapsed as by oneLine, and a line of more than maxShown characters is cut and ends with an ellipsis. shortened
// returns "(the end)" if the index is beyond the last line, or is that of an empty last line.
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

// HTML returns the reference documentation of a pak for its users as a self-contained HTML page, which loads no
// scripts, fonts or images. The image of a service is embedded if image_url is a data URL that dataImage accepts, and
// left out otherwise. Texts of the pak are escaped. HTML returns an error if a template of this package is invalid or
// fails; the text is then empty or incomplete.
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

// dataImage returns a data URL unchanged as a trusted URL, because html/template would reject it as a string. It
// returns "" unless the URL begins like "data:image/png;base64," with one of the kinds png, jpeg, gif, webp and
// svg+xml, which browsers show in an img element without running code. The data after the comma is not checked.
func dataImage(url string) htmltemplate.URL {
	for _, kind := range []string{"png", "jpeg", "gif", "webp", "svg+xml"} {
		if strings.HasPrefix(url, "data:image/"+kind+";base64,") {
			return htmltemplate.URL(url) //nolint:gosec // checked
		}
	}
	return ""
}

// Markdown returns the reference documentation of a pak for its users in GitHub Flavored Markdown, which ends with one
// line break. Texts of the pak are escaped. It returns an error if a template of this package is invalid or fails; the
// text is then incomplete and must not be used.
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

// execute parses text, the source of a text/template, executes it with fields as its data (the dot), and writes the
// result to w. functions are the functions that the template can call in addition to the predefined ones; nil means
// none. It returns an error if the template is invalid, if its execution fails, for example because a function returns
// an error, or if w returns one. After an error, w may have received a part of the result.
func execute(w io.Writer, text string, functions template.FuncMap, fields any) error {
	parsed, err := template.New("").Funcs(functions).Parse(text)
	if err != nil {
		return fmt.Errorf("reading a template: %w", err)
	}
	return parsed.Execute(w, fields)
}

// description returns the Markdown for the description cell of a parameter in a table: "**Required.**" if it is
// required, its description, its notes and the values of its enum, separated by <br>. Its type and its default have
// cells of their own and are left out. Bars are not escaped; the template does that. The result is "" if the parameter
// has none of these.
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

// fence returns a block of shell code as a fenced code block of Markdown with the language sh, which ends with a line
// break. The fence has at least three backticks, and more than any run of backticks in the code. The code should not
// end with a line break, which would become an empty line in the block.
func fence(block string) string {
	marks := "```"
	for strings.Contains(block, marks) {
		marks += "`"
	}
	return marks + "sh\n" + block + "\n" + marks + "\n"
}

// codes returns each text as a Markdown code span, separated by ", ". The result is "" for an empty list.
func codes(all []string) string { return strings.Join(value.Convert(all, codeSpan), ", ") }

// spans returns a line as Markdown: its spans of code as code spans, and all other spans without escapes, because these
// are constants of this package. The result is "" for an empty line.
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

// codeSpan returns a text as a Markdown code span. White space in the text is collapsed and unprintable characters are
// removed, as by oneLine. The delimiters have more backticks than any run in the text. Blanks surround a text that is
// empty or that begins or ends with a backtick. Bars are not escaped.
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

// escape returns a text on one line, as by oneLine, so that Markdown shows it literally as a paragraph or a part of
// one. Backslashes precede all characters with a special meaning, also those of HTML, and a character at the beginning
// of the text that would begin a list, a heading or a thematic break. Bars, which separate the cells of tables, are not
// escaped. The result for "" is "".
func escape(words string) string {
	return leading.ReplaceAllString(markup.ReplaceAllString(oneLine(words), `\$0`), `$1\$2`)
}

// angled returns a URL in the form in which it can be written between the angle brackets of a Markdown link, <URL>. The
// result does not include these brackets. Angle brackets, backslashes and white space within the URL are
// percent-encoded; a run of white space becomes one %20. White space at the ends and unprintable characters are
// removed. angled does not check that the text is a URL, and returns "" for "".
func angled(url string) string {
	return strings.NewReplacer("<", "%3C", ">", "%3E", " ", "%20", `\`, "%5C").Replace(oneLine(url))
}
