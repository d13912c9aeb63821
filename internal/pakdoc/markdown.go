package pakdoc

import (
	"fmt"
	"regexp"
	"strings"

	"service-adapter/brokerpak"
)

// Markdown returns the reference of a pak for its users, as Markdown that GitHub and others render. Texts of the pak never
// become markup. The same pak gives the same bytes.
func Markdown(pak *brokerpak.Pak) string {
	m := &markdown{}
	page := newPage(pak)
	m.paragraph("# " + escape(page.Name) + " " + escape(page.Version))
	for _, entry := range page.Metadata {
		m.item("%s: %s", escape(entry.Name), escape(entry.Value))
	}
	m.end()
	for _, s := range page.Services {
		m.service(s)
	}
	if len(page.Environment) > 0 {
		m.paragraph("## Environment")
		m.paragraph("Variables of the adapter's environment that reach OpenTofu.")
		m.parameters(page.Environment, "Variable")
	}
	return strings.TrimRight(m.String(), "\n") + "\n"
}

// markdown is a text in the making.
type markdown struct{ strings.Builder }

func (m *markdown) paragraph(words string) {
	if words != "" {
		m.WriteString(words + "\n\n")
	}
}

func (m *markdown) item(format string, args ...any) {
	m.WriteString("- " + fmt.Sprintf(format, args...) + "\n")
}

// end ends a list.
func (m *markdown) end() { m.WriteString("\n") }

func (m *markdown) service(s service) {
	m.paragraph(fmt.Sprintf("## %s (`%s`)", escape(s.Title), s.Name))
	m.paragraph(escape(s.Description))
	if len(s.Tags) > 0 {
		m.item("Tags: %s", codes(s.Tags))
	}
	if s.Provider != "" {
		m.item("Provider: %s", escape(s.Provider))
	}
	for _, l := range s.Links {
		m.item("%s: <%s>", l.Title, angled(l.URL))
	}
	m.item("Service id: `%s`", s.ID)
	m.end()
	m.plans(s.Plans)
	m.section("Parameters", "", s.Create, "An instance takes no parameters.")
	m.section("Existing resources", "These parameters of `cf create-service` take over what exists already.", s.Imports, "")
	m.section("Binding parameters", "", s.Bind, "")
	m.section("Credentials", "", s.Credentials, "A binding has no credentials.")
	m.section("Other fields of a binding", "", s.Fields, "")
	m.examples(s)
	m.operators(s)
}

func (m *markdown) section(title, intro string, all []parameter, none string) {
	if len(all) == 0 && none == "" {
		return
	}
	m.paragraph("### " + title)
	if len(all) == 0 {
		m.paragraph(none)
		return
	}
	m.paragraph(intro)
	m.parameters(all, "Name")
}

func (m *markdown) plans(all []plan) {
	m.paragraph("### Plans")
	if len(all) == 0 {
		m.paragraph("The operator defines the plans.")
	}
	for _, p := range all {
		m.paragraph(fmt.Sprintf("#### %s (%s)", escape(p.Title), codeSpan(p.Name)))
		m.paragraph(escape(p.Description))
		if p.Free {
			m.item("Free of charge")
		}
		for _, bullet := range p.Bullets {
			m.item("%s", escape(bullet))
		}
		for _, property := range p.Properties {
			m.item("sets %s to %s", codeSpan(property.Name), codeSpan(property.Value))
		}
		m.item("Plan id: `%s`", p.ID)
		m.end()
	}
}

func (m *markdown) parameters(all []parameter, title string) {
	header := []string{title, "Type", "Default", "Description"}
	typed, defaulted := false, false
	for _, p := range all {
		typed, defaulted = typed || p.Type != "", defaulted || p.Default != nil
	}
	keep := []bool{true, typed, defaulted, true}
	m.row(keep, header)
	m.row(keep, []string{"---", "---", "---", "---"})
	for _, p := range all {
		m.row(keep, []string{codeSpan(p.Name), escape(p.Type), spans(p.Default), description(p)})
	}
	m.end()
}

func (m *markdown) row(keep []bool, cells []string) {
	for i, cell := range cells {
		if keep[i] { // a bar would end the cell, even within code
			m.WriteString("| " + strings.ReplaceAll(cell, "|", `\|`) + " ")
		}
	}
	m.WriteString("|\n")
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
		entry := "• " + codeSpan(allowed.Name)
		if allowed.Value != "" {
			entry += " " + escape(allowed.Value)
		}
		parts = append(parts, entry)
	}
	return strings.Join(parts, "<br>")
}

func (m *markdown) examples(s service) {
	m.paragraph("### Examples")
	for _, e := range s.Examples {
		if e.Name != "" {
			m.paragraph("#### " + escape(e.Name))
		}
		m.paragraph(escape(e.Description))
		m.fence(e.Commands)
	}
	m.paragraph("### Other commands")
	m.fence(s.Commands)
}

func (m *markdown) operators(s service) {
	if len(s.PlanProperties) == 0 && len(s.Groups) == 0 {
		return
	}
	m.paragraph("### For operators")
	if len(s.PlanProperties) > 0 {
		m.paragraph("Properties of plans:")
		m.parameters(s.PlanProperties, "Property")
	}
	if len(s.Groups) > 0 {
		m.paragraph("Instance groups of plans:")
	}
	for _, g := range s.Groups {
		notes := ""
		for _, note := range g.Notes {
			notes += " " + spans(note)
		}
		m.item("%s with the jobs %s.%s", codeSpan(g.Name), codes(g.Jobs), notes)
	}
	if len(s.Groups) > 0 {
		m.end()
	}
}

// fence makes a block of code, whatever is in it.
func (m *markdown) fence(block string) {
	marks := "```"
	for strings.Contains(block, marks) {
		marks += "`"
	}
	m.paragraph(marks + "sh\n" + block + "\n" + marks)
}

func codes(all []string) string {
	spans := make([]string, len(all))
	for i, one := range all {
		spans[i] = codeSpan(one)
	}
	return strings.Join(spans, ", ")
}

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
