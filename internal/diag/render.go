package diag

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The sequences that colour text on a terminal.
const (
	red, yellow, bold, reset = "\x1b[31m", "\x1b[33m", "\x1b[1m", "\x1b[0m"
)

// WriteText renders each diagnostic as "file:line:column: message [rule]", with the line of the file and a mark under what is
// meant where the source is known.
func WriteText(w io.Writer, diagnostics []Diagnostic, source Source, colours bool) error {
	var out strings.Builder
	for _, d := range diagnostics {
		paint := func(_, text string) string { return text }
		if colours {
			paint = func(colour, text string) string { return colour + text + reset }
		}
		colour := red
		if d.Severity != Error {
			colour = yellow
		}
		place := d.Pos.String()
		fmt.Fprintf(&out, "%s%s\n", paint(bold, place), strings.TrimPrefix(d.String(), place))
		if found, ok := source.find(d.Pos); ok {
			line, start, end := found.shown()
			number := strconv.Itoa(d.Pos.Line)
			margin := strings.Repeat(" ", len(number))
			fmt.Fprintf(&out, "%s |\n%s | %s\n%s | %s%s\n", margin, number, line, margin,
				indentation(line, start), paint(colour, "^"+strings.Repeat("~", max(end-start-1, 0))))
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// indentation is as wide as the first characters of a line.
func indentation(line string, characters int) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' {
			return r
		}
		return ' '
	}, string([]rune(line)[:characters]))
}

// report is the document of WriteJSON, in the shape of `terraform validate -json`.
type report struct {
	FormatVersion string       `json:"format_version"`
	Valid         bool         `json:"valid"`
	Verdict       string       `json:"verdict,omitempty"`
	ErrorCount    int          `json:"error_count"`
	WarningCount  int          `json:"warning_count"`
	Diagnostics   []jsonRecord `json:"diagnostics"`
}

type jsonRecord struct {
	Severity string       `json:"severity"`
	Summary  string       `json:"summary"`
	Detail   string       `json:"detail"`
	Rule     string       `json:"rule"`
	Hint     string       `json:"hint,omitempty"`
	Range    *jsonRange   `json:"range,omitempty"`
	Snippet  *jsonSnippet `json:"snippet,omitempty"`
}

type jsonRange struct {
	Filename string    `json:"filename"`
	Start    jsonPlace `json:"start"`
	End      jsonPlace `json:"end"`
}

// jsonPlace is a place; Byte counts from 0.
type jsonPlace struct {
	Line   int `json:"line"`
	Column int `json:"column"`
	Byte   int `json:"byte"`
}

type jsonSnippet struct {
	Context              *string  `json:"context"`
	Code                 string   `json:"code"`
	StartLine            int      `json:"start_line"`
	HighlightStartOffset int      `json:"highlight_start_offset"`
	HighlightEndOffset   int      `json:"highlight_end_offset"`
	Values               []string `json:"values"`
}

// WriteJSON renders one document in the shape of `terraform validate -json`; each diagnostic has its rule and, where there is
// one, the hint of its message besides. The verdict is on all of them, "" for none.
func WriteJSON(w io.Writer, diagnostics []Diagnostic, source Source, verdict string) error {
	document := report{FormatVersion: "1.0", Valid: true, Verdict: verdict, Diagnostics: []jsonRecord{}}
	for _, d := range diagnostics {
		switch d.Severity {
		case Error:
			document.ErrorCount++
			document.Valid = false
		case Warning:
			document.WarningCount++
		}
		document.Diagnostics = append(document.Diagnostics, record(d, source))
	}
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(document)
}

func record(d Diagnostic, source Source) jsonRecord {
	hint := string(d.Hint)
	out := jsonRecord{
		Severity: d.Severity.String(), Rule: d.Rule, Hint: strings.TrimPrefix(hint, "; "), Summary: strings.Replace(d.Message, hint, "", 1),
	}
	if d.Pos.File == "" {
		return out
	}
	start := jsonPlace{Line: max(d.Pos.Line, 1), Column: max(d.Pos.Column, 1)}
	out.Range = &jsonRange{Filename: d.Pos.File, Start: start, End: start}
	if found, ok := source.find(d.Pos); ok {
		out.Range.Start.Byte = found.byteAt(found.start)
		out.Range.End = jsonPlace{Line: start.Line, Column: found.end + 1, Byte: found.byteAt(found.end)}
		line, from, to := found.shown()
		characters := []rune(line)
		out.Snippet = &jsonSnippet{
			Code: line, StartLine: d.Pos.Line, Values: []string{},
			HighlightStartOffset: len(string(characters[:from])), HighlightEndOffset: len(string(characters[:to])),
		}
	}
	return out
}

// WriteGitHub renders each diagnostic as a workflow command, which GitHub shows as an annotation of the line.
func WriteGitHub(w io.Writer, diagnostics []Diagnostic) error {
	message := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	var out strings.Builder
	for _, d := range diagnostics {
		fmt.Fprintf(&out, "::%s file=%s", d.Severity, property.Replace(d.Pos.File))
		if d.Pos.Line > 0 {
			fmt.Fprintf(&out, ",line=%d", d.Pos.Line)
		}
		if d.Pos.Column > 0 {
			fmt.Fprintf(&out, ",col=%d", d.Pos.Column)
		}
		fmt.Fprintf(&out, ",title=%s::%s\n", property.Replace(d.Rule), message.Replace(d.Message))
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// Source returns the text of a file that diagnostics name; false when it is not known.
type Source func(file string) (text string, ok bool)

// snippet is the line that a diagnostic is about and the part of it that is meant, in characters from 0.
type snippet struct {
	line       string
	start, end int
	offset     int // bytes before the line
}

// maxSnippet bounds the characters of a line that are shown; definitions hold images in one line.
const maxSnippet = 160

// find returns the snippet of a place; false when the place is a whole file or its text is not known.
func (s Source) find(pos Pos) (snippet, bool) {
	if s == nil || pos.Line < 1 {
		return snippet{}, false
	}
	text, ok := s(pos.File)
	lines := strings.SplitAfter(text, "\n")
	if !ok || pos.Line > len(lines) {
		return snippet{}, false
	}
	found := snippet{line: strings.TrimRight(lines[pos.Line-1], "\r\n"), offset: len(strings.Join(lines[:pos.Line-1], ""))}
	found.start = min(max(pos.Column-1, 0), utf8.RuneCountInString(found.line))
	found.end = found.start + extent([]rune(found.line)[found.start:])
	return found, true
}

// extent is the length of the word, the quoted text, the expression or the BOSH variable that a line begins with.
func extent(line []rune) int {
	if len(line) == 0 {
		return 0
	}
	for open, end := range map[string]string{`"`: `"`, `'`: `'`, "${": "}", "((": "))"} {
		rest, ok := strings.CutPrefix(string(line), open)
		if !ok {
			continue
		}
		if length := strings.Index(rest, end); length >= 0 {
			return utf8.RuneCountInString(open + rest[:length] + end)
		}
	}
	length := 0
	for length < len(line) && (unicode.IsLetter(line[length]) || unicode.IsDigit(line[length]) || strings.ContainsRune("_-./", line[length])) {
		length++
	}
	return max(length, 1)
}

// byteAt returns the number of bytes before a character of the file.
func (s snippet) byteAt(character int) int {
	return s.offset + len(string([]rune(s.line)[:character]))
}

// shown returns the line as it can be printed, cut around the part that is meant, and that part in it. What would act on a
// terminal is replaced.
func (s snippet) shown() (line string, start, end int) {
	characters := []rune(s.line)
	from := 0
	if s.start > maxSnippet/2 && len(characters) > maxSnippet {
		from = s.start - maxSnippet/2
	}
	characters = characters[from:min(len(characters), from+maxSnippet)]
	for i, character := range characters {
		if character != '\t' && !unicode.IsPrint(character) {
			characters[i] = unicode.ReplacementChar
		}
	}
	return string(characters), s.start - from, min(s.end-from, len(characters))
}
