package pakdoc

import (
	"regexp"
	"strings"

	"service-adapter/internal/value"
)

// table describes parameters, one a row. A column that no row has anything in is left out.
func table(title string, all []parameter) string {
	rows := [][]string{{title, "Type", "Default", "Description"}, {"---", "---", "---", "---"}}
	typed, defaulted := false, false
	for _, p := range all {
		typed, defaulted = typed || p.Type != "", defaulted || p.Default != nil
		rows = append(rows, []string{codeSpan(p.Name), escape(p.Type), spans(p.Default), description(p)})
	}
	keep := []bool{true, typed, defaulted, true}
	var out strings.Builder
	for _, row := range rows {
		for i, cell := range row {
			if keep[i] { // a bar would end the cell, even within code
				out.WriteString("| " + strings.ReplaceAll(cell, "|", `\|`) + " ")
			}
		}
		out.WriteString("|\n")
	}
	return out.String()
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
