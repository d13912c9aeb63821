package diag

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The escape sequences that colour text on a terminal.
const (
	red, yellow, bold, reset = "\x1b[31m", "\x1b[33m", "\x1b[1m", "\x1b[0m"
)

// WriteText writes each diagnostic in the form of Diagnostic.String, in the order of the parameter. If source provides
// the line of the file, that line follows with its number, and with the affected part underlined by "^~~~". That is the
// word at the column of the diagnostic, or at the beginning of the line if the column is 0. At most 160 characters of
// the line are shown, and characters that cannot be printed are replaced. A nil source provides no lines.
//
// colours enables escape sequences for terminals: the position is bold, and the underline red for an error and yellow
// otherwise. WriteText calls the writer once, even without diagnostics, and returns its error.
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
		position := d.Pos.String()
		fmt.Fprintf(&out, "%s%s\n", paint(bold, position), strings.TrimPrefix(d.String(), position))
		if excerpt, ok := source.excerpt(d.Pos); ok {
			line, start, end := excerpt.printable()
			number := strconv.Itoa(d.Pos.Line)
			margin := strings.Repeat(" ", len(number))
			fmt.Fprintf(&out, "%s |\n%s | %s\n%s | %s%s\n", margin, number, line, margin,
				indentation(line, start), paint(colour, "^"+strings.Repeat("~", max(end-start-1, 0))))
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// indentation returns one blank for each of the first characters of a line, so that a text after the blanks is below
// the rest of the line. A tab among these characters remains a tab. characters is their number; indentation panics if
// the line has fewer.
func indentation(line string, characters int) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' {
			return r
		}
		return ' '
	}, string([]rune(line)[:characters]))
}

// A report is the JSON document that WriteJSON writes, in the format of `terraform validate -json`, with the additional
// summary Verdict. It consists of the version of that format, Valid, which means that no diagnostic is an error, the
// numbers of errors and of warnings, and the diagnostics. Notices are among the Diagnostics, but are not counted. An
// empty Verdict is left out.
type report struct {
	FormatVersion string       `json:"format_version"`
	Valid         bool         `json:"valid"`
	Verdict       string       `json:"verdict,omitempty"`
	ErrorCount    int          `json:"error_count"`
	WarningCount  int          `json:"warning_count"`
	Diagnostics   []jsonRecord `json:"diagnostics"`
}

// A jsonRecord is the JSON form of one diagnostic of a report. Severity is "error", "warning" or "notice". Summary is
// the message without the hint, and Detail is always "". Hint is the hint without the "; " at its beginning, or "" if
// the message has none. Range is nil if the diagnostic names no file. Snippet is nil if the diagnostic concerns no
// particular line of a file, or if the text of the line is not available.
type jsonRecord struct {
	Severity string       `json:"severity"`
	Summary  string       `json:"summary"`
	Detail   string       `json:"detail"`
	Rule     string       `json:"rule"`
	Hint     string       `json:"hint,omitempty"`
	Range    *jsonRange   `json:"range,omitempty"`
	Snippet  *jsonSnippet `json:"snippet,omitempty"`
}

// A jsonRange is the part of a file that a diagnostic concerns: the name of the file, and the start and the end of
// the part. End is exclusive. It equals Start if the text of the line is not available or the part is empty. A Start
// whose column is beyond the end of the line is not corrected: End is then the end of the line, before Start.
type jsonRange struct {
	Filename string       `json:"filename"`
	Start    jsonPosition `json:"start"`
	End      jsonPosition `json:"end"`
}

// A jsonPosition is a position in a file. Line and Column, in characters, count from 1. Byte is the offset in the file
// and counts from 0; it is 0 if the text of the line is not available.
type jsonPosition struct {
	Line   int `json:"line"`
	Column int `json:"column"`
	Byte   int `json:"byte"`
}

// A jsonSnippet is the line of a file that a diagnostic concerns, or the part of a long line around the affected part,
// in the printable form of snippet.printable. StartLine is the number of the line, from 1. The offsets are in bytes of
// Code, from the beginning of the affected part up to its end. Context is always null and Values is always empty; the
// format requires them.
type jsonSnippet struct {
	Context              *string  `json:"context"`
	Code                 string   `json:"code"`
	StartLine            int      `json:"start_line"`
	HighlightStartOffset int      `json:"highlight_start_offset"`
	HighlightEndOffset   int      `json:"highlight_end_offset"`
	Values               []string `json:"values"`
}

// WriteJSON writes one JSON document in the format of `terraform validate -json` with all diagnostics, in the order of
// the parameter. Its field valid is true if no diagnostic is an error; notices are listed, but not counted. In addition
// to that format, each diagnostic has its rule and, if its message contains one, the hint without its leading "; ". The
// summary is then the message without the hint. verdict is a summary of all diagnostics in words, and is left out if it
// is "". source provides the lines of the files for the snippets; a nil source provides none. WriteJSON returns the
// error of the writer.
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
		document.Diagnostics = append(document.Diagnostics, newJSONRecord(d, source))
	}
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(document)
}

// newJSONRecord converts a diagnostic to its JSON form, in which the summary is the message without the hint. The
// record has no range and no snippet if the diagnostic names no file. If the diagnostic concerns a whole file, or if
// source is nil or does not provide the line, the record has no snippet, and its range is empty. A line or column that
// is 0, because the diagnostic concerns the whole file or line, becomes 1 in the range.
func newJSONRecord(d Diagnostic, source Source) jsonRecord {
	hint := string(d.Hint)
	out := jsonRecord{
		Severity: d.Severity.String(), Rule: d.Rule,
		Hint: strings.TrimPrefix(hint, "; "), Summary: strings.Replace(d.Message, hint, "", 1),
	}
	if d.Pos.File == "" {
		return out
	}
	start := jsonPosition{Line: max(d.Pos.Line, 1), Column: max(d.Pos.Column, 1)}
	out.Range = &jsonRange{Filename: d.Pos.File, Start: start, End: start}
	if excerpt, ok := source.excerpt(d.Pos); ok {
		out.Range.Start.Byte = excerpt.byteAt(excerpt.start)
		out.Range.End = jsonPosition{Line: start.Line, Column: excerpt.end + 1, Byte: excerpt.byteAt(excerpt.end)}
		line, from, to := excerpt.printable()
		characters := []rune(line)
		out.Snippet = &jsonSnippet{
			Code: line, StartLine: d.Pos.Line, Values: []string{},
			HighlightStartOffset: len(string(characters[:from])), HighlightEndOffset: len(string(characters[:to])),
		}
	}
	return out
}

// WriteGitHub writes each diagnostic as a workflow command, which GitHub shows as an annotation of the line, such as
// "::error file=a.yml,line=3,col=5,title=unknown-key::the message". The command is the severity and the title is the
// rule. Special characters are encoded as "%25", "%0A" and so on. A line or column that is 0 is left out; an empty
// file or rule is not, so that the command contains "file=" or "title=". WriteGitHub calls the writer once, even
// without diagnostics, and returns its error.
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

// A Source returns the text of a file, by the name that diagnostics have in Pos.File. It returns false if the text is
// not available. A nil Source provides no text.
type Source func(file string) (text string, ok bool)

// A snippet is the line of a file that a diagnostic concerns, without its line break. The affected part is from start
// up to end, in characters of the line from 0; end is exclusive. The snippet also contains the offset of the line in
// the file, in bytes.
type snippet struct {
	line       string
	start, end int
	offset     int // bytes before the line
}

// maxSnippet is the number of characters of a line that are shown. Definitions can contain images in a single line.
const maxSnippet = 160

// excerpt returns the line that a position denotes, with its affected part. The affected part is the word, as
// wordLength defines it, that begins at the column, or at the beginning of the line if the column is 0. It is empty if
// the line has no character there. excerpt returns the zero snippet and false if the position denotes a whole file, or
// if the source is nil or does not provide a file with that line.
func (s Source) excerpt(pos Pos) (snippet, bool) {
	if s == nil || pos.Line < 1 {
		return snippet{}, false
	}
	text, ok := s(pos.File)
	lines := strings.SplitAfter(text, "\n")
	if !ok || pos.Line > len(lines) {
		return snippet{}, false
	}
	line := strings.TrimRight(lines[pos.Line-1], "\r\n")
	start := min(max(pos.Column-1, 0), utf8.RuneCountInString(line))
	return snippet{
		line: line, start: start, end: start + wordLength([]rune(line)[start:]),
		offset: len(strings.Join(lines[:pos.Line-1], "")),
	}, true
}

// wordLength returns the number of characters of the word, quoted text, ${expression} or ((variable)) with which a line
// begins, including the quotation marks and brackets. A word consists of letters, digits and the characters "_-./".
// wordLength returns 1 if the line begins with any other character, or with a quotation mark or bracket that is not
// closed in the line, and 0 for an empty line.
func wordLength(line []rune) int {
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
	isOther := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_-./", r)
	}
	if length := slices.IndexFunc(line, isOther); length >= 0 {
		return max(length, 1)
	}
	return len(line)
}

// byteAt returns the offset in bytes, within the file, of the character of the line with the index character, from 0.
// The index may be the length of the line in characters, for its end; byteAt panics if the index is greater.
func (s snippet) byteAt(character int) int {
	return s.offset + len(string([]rune(s.line)[:character]))
}

// printable returns the line in a printable form, and the affected part: the indexes start and end count characters of
// that form from 0, and end is exclusive. A line of more than maxSnippet characters is cut to a part of at most that
// length that contains the start of the affected part; end is then at most the end of the part. Characters that cannot
// be printed, except tabs, are replaced by U+FFFD, because they could change the terminal.
func (s snippet) printable() (line string, start, end int) {
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
