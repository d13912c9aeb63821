package diag

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
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

type object = map[string]any

// report is the document of WriteJSON, in the shape of `terraform validate -json`.
type report struct {
	FormatVersion string   `json:"format_version"`
	Valid         bool     `json:"valid"`
	Verdict       string   `json:"verdict,omitempty"`
	ErrorCount    int      `json:"error_count"`
	WarningCount  int      `json:"warning_count"`
	Diagnostics   []object `json:"diagnostics"`
}

// WriteJSON renders one document in the shape of `terraform validate -json`; each diagnostic has its rule and, where there is
// one, the hint of its message besides. The verdict is on all of them, "" for none.
func WriteJSON(w io.Writer, diagnostics []Diagnostic, source Source, verdict string) error {
	count, records := map[Severity]int{}, []object{}
	for _, d := range diagnostics {
		count[d.Severity]++
		records = append(records, record(d, source))
	}
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(report{"1.0", count[Error] == 0, verdict, count[Error], count[Warning], records})
}

// record is a diagnostic, with its place where that is a file, and the line where its text is known. Lines and columns count from 1, bytes
// and offsets from 0.
func record(d Diagnostic, source Source) object {
	hint := string(d.Hint)
	out := object{"severity": d.Severity.String(), "rule": d.Rule, "summary": strings.Replace(d.Message, hint, "", 1), "detail": ""}
	if hint != "" {
		out["hint"] = strings.TrimPrefix(hint, "; ")
	}
	if d.Pos.File == "" {
		return out
	}
	start := object{"line": max(d.Pos.Line, 1), "column": max(d.Pos.Column, 1), "byte": 0}
	end := start
	if found, ok := source.find(d.Pos); ok {
		start["byte"] = found.byteAt(found.start)
		end = object{"line": d.Pos.Line, "column": found.end + 1, "byte": found.byteAt(found.end)}
		line, from, to := found.shown()
		characters := []rune(line)
		out["snippet"] = object{
			"context": nil, "code": line, "start_line": d.Pos.Line, "values": []string{},
			"highlight_start_offset": len(string(characters[:from])), "highlight_end_offset": len(string(characters[:to])),
		}
	}
	out["range"] = object{"filename": d.Pos.File, "start": start, "end": end}
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
