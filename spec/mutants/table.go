package main

import (
	"fmt"
	"strings"
)

// A mutant is one mistake, as an edit of a declaration of the code.
//
// In a table, it is a block of lines followed by an empty line. The fields come first. The lines of the code follow as
// a hunk of a diff: they begin with a space if they stay, with - if the mutant lacks them, and with + if only the
// mutant has them.
//
//	mutant 17
//	file internal/engine/shell/shell.go
//	in runner.Run
//	what the condition is negated
//	-	if exit != 0 {
//	+	if !(exit != 0) {
type mutant struct {
	table string // the name of the table, which the block does not contain
	id    string
	// file is the path of the file in the repository. If the file does not contain the declaration, other files are
	// searched.
	file string
	// declaration is the name of a function, Type.method, or the name of a constant or variable of the package.
	declaration string
	what        string // describes the mistake
	gone        string // the reason why the code can no longer have this mistake, otherwise ""
	original    string // lines of the declaration
	replacement string // the lines that replace them
	hunk        []string
}

// parseTable parses a table. Lines that begin with # are comments. An error begins with the number of a line.
func parseTable(text string) ([]mutant, error) {
	var mutants []mutant
	var current *mutant
	for i, line := range strings.Split(text, "\n") {
		key, content, _ := strings.Cut(line, " ")
		if key == "mutant" {
			mutants = append(mutants, mutant{id: content})
			current = &mutants[len(mutants)-1]
			continue
		}
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if current == nil {
			return nil, fmt.Errorf("%d: this line does not belong to a mutant", i+1)
		}
		if line[0] == ' ' || line[0] == '-' || line[0] == '+' {
			current.addLine(line)
			continue
		}
		field, isField := map[string]*string{
			"file": &current.file, "in": &current.declaration, "what": &current.what, "gone": &current.gone,
		}[key]
		if !isField {
			return nil, fmt.Errorf("%d: a line begins with mutant, file, in, what, gone, or a character of a diff", i+1)
		}
		*field = content
	}
	return mutants, nil
}

// addLine adds a line of a diff.
func (m *mutant) addLine(line string) {
	m.hunk = append(m.hunk, line)
	if line[0] != '+' {
		m.original += line[1:] + "\n"
	}
	if line[0] != '-' {
		m.replacement += line[1:] + "\n"
	}
}

// String returns the block of the mutant in a table.
func (m *mutant) String() string {
	text := fmt.Sprintf("mutant %s\nfile %s\nin %s\nwhat %s\n", m.id, m.file, m.declaration, m.what)
	if m.gone != "" {
		text += "gone " + m.gone + "\n"
	}
	return text + strings.Join(m.hunk, "\n") + "\n"
}
