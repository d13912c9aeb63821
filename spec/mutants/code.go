package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// code contains the source files of the product by their paths in the repository.
type code struct {
	root  string
	files map[string]*source
}

// A source is a file of the product.
type source struct {
	path string // in the repository
	text string
	set  *token.FileSet
	ast  *ast.File
}

// readCode parses the files of the product: all Go files except tests and the files below spec, examples and build.
func readCode(root string) (*code, error) {
	c := &code{root: root, files: map[string]*source{}}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			skip := strings.HasPrefix(entry.Name(), ".") && name != "." || entry.Name() == "testdata"
			if skip || slices.Contains([]string{"spec", "examples", "build", "vendor"}, name) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path) //nolint:gosec // of the repository
		if err != nil {
			return err
		}
		s := &source{path: name, text: string(text), set: token.NewFileSet()}
		s.ast, err = parser.ParseFile(s.set, name, text, parser.SkipObjectResolution)
		c.files[name] = s
		return err
	})
	return c, err
}

// A declared is a declaration in a file: a function with a body, or a constant or variable of the package.
type declared struct {
	name string
	node ast.Node
	// results are the results of a function, and nil for other declarations.
	results *ast.FieldList
	body    ast.Node
}

// declarations returns the declarations of a file that can contain mutants.
func (s *source) declarations() []declared {
	var all []declared
	for _, declaration := range s.ast.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				name = typeName(d.Recv.List[0].Type) + "." + name
			}
			if d.Body != nil {
				all = append(all, declared{name: name, node: d, results: d.Type.Results, body: d.Body})
			}
		case *ast.GenDecl:
			for _, specification := range d.Specs {
				if v, isValue := specification.(*ast.ValueSpec); isValue {
					all = append(all, declared{name: v.Names[0].Name, node: v, body: v})
				}
			}
		}
	}
	return all
}

// typeName returns the name of a receiver's type, without pointers and type parameters.
func typeName(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.IndexListExpr:
		return typeName(e.X)
	case *ast.Ident:
		return e.Name
	default:
		return ""
	}
}

// offset returns the offset of a position in the text of the file.
func (s *source) offset(position token.Pos) int { return s.set.Position(position).Offset }

// A mutated is a file that contains the mistake of a mutant.
type mutated struct {
	path string // in the repository
	text string
}

// apply returns the file that a mutant changes, with its change. The lines are searched in the declaration that the
// mutant names in its file, then in declarations of that name in all other files. It returns an error unless exactly
// one place matches.
func (c *code) apply(m mutant) (mutated, error) {
	// Whether a list ends with a comma depends on its line breaks.
	m.original, m.replacement = strings.TrimSpace(m.original), strings.TrimSpace(m.replacement)
	if strings.HasSuffix(m.original, ",") && strings.HasSuffix(m.replacement, ",") {
		m.original, m.replacement = strings.TrimSuffix(m.original, ","), strings.TrimSuffix(m.replacement, ",")
	}
	original := lex(m.original)
	if len(original) == 0 {
		return mutated{}, fmt.Errorf("mutant %s: no line of code is given", m.id)
	}
	candidates := []*source{c.files[m.file]}
	places, names := c.places(candidates, m, original)
	if len(places) == 0 {
		candidates = nil
		for _, s := range c.files {
			candidates = append(candidates, s)
		}
		places, names = c.places(candidates, m, original)
	}
	if len(places) == 1 {
		return places[0], nil
	}
	return mutated{}, fmt.Errorf("mutant %s, %s, %s: %d places have the lines, in %d declarations of that name",
		m.id, m.file, m.declaration, len(places), names)
}

// places returns the files with the change of a mutant, one for each place that contains its tokens, and the number of
// declarations that have its name.
func (c *code) places(candidates []*source, m mutant, original []lexeme) (places []mutated, names int) {
	for _, s := range candidates {
		if s == nil {
			continue
		}
		for _, d := range s.declarations() {
			if d.name != m.declaration {
				continue
			}
			names++
			begin, end := s.offset(d.node.Pos()), s.offset(d.node.End())
			for _, at := range occurrences(lex(s.text[begin:end]), original) {
				text := s.text[:begin+at.begin] + m.replacement + s.text[begin+at.end:]
				places = append(places, mutated{path: s.path, text: text})
			}
		}
	}
	return places, names
}

// A lexeme is a token of Go with the offsets of its text.
type lexeme struct {
	text       string
	begin, end int
}

// lex returns the tokens of a part of a file, without comments, line breaks, and commas at the end of lists, which
// depend on line breaks.
func lex(text string) []lexeme {
	set := token.NewFileSet()
	file := set.AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, []byte(text), func(token.Position, string) {}, 0)
	var all []lexeme
	for {
		position, kind, literal := s.Scan()
		if kind == token.EOF {
			return all
		}
		if kind == token.SEMICOLON && literal == "\n" {
			continue
		}
		if literal == "" || kind.IsOperator() {
			literal = kind.String()
		}
		closes := kind == token.RPAREN || kind == token.RBRACE || kind == token.RBRACK
		if closes && len(all) > 0 && all[len(all)-1].text == "," {
			all = all[:len(all)-1]
		}
		begin := file.Offset(position)
		all = append(all, lexeme{text: literal, begin: begin, end: begin + len(literal)})
	}
}

// occurrences returns the places of tokens among others. An occurrence has no text.
func occurrences(all, wanted []lexeme) []lexeme {
	var places []lexeme
	for i := 0; i+len(wanted) <= len(all); i++ {
		part := all[i : i+len(wanted)]
		if slices.EqualFunc(part, wanted, func(a, b lexeme) bool { return a.text == b.text }) {
			places = append(places, lexeme{begin: part[0].begin, end: part[len(part)-1].end})
		}
	}
	return places
}

// edit returns the mutant that replaces a part of a declaration. The mutant contains as many lines around the part as
// are needed to find it. It returns an error if even the whole declaration is not unique.
func (s *source) edit(d declared, begin, end int, replacement string) (mutant, error) {
	first, last := s.offset(d.node.Pos()), s.offset(d.node.End())
	lineStart := func(offset int) int { return max(first, strings.LastIndexByte(s.text[:offset], '\n')+1) }
	lineEnd := func(offset int) int {
		if length := strings.IndexByte(s.text[offset:last], '\n'); length >= 0 {
			return offset + length
		}
		return last
	}
	from, to := lineStart(begin), lineEnd(end)
	for {
		m := mutant{file: s.path, declaration: d.name}
		m.addLines(" ", s.text[from:lineStart(begin)])
		m.addLines("-", s.text[lineStart(begin):lineEnd(end)])
		m.addLines("+", s.text[lineStart(begin):begin]+replacement+s.text[end:lineEnd(end)])
		m.addLines(" ", s.text[lineEnd(end):to])
		places := occurrences(lex(s.text[first:last]), lex(m.original))
		if len(places) == 1 {
			return m, nil
		}
		switch {
		case from > first:
			from = lineStart(from - 1)
		case to < last:
			to = lineEnd(to + 1)
		default:
			return mutant{}, errors.New("the lines of the declaration are not unique")
		}
	}
}

// addLines adds lines of code to the diff, except empty lines and lines with only a comment.
func (m *mutant) addLines(mark, text string) {
	for line := range strings.SplitSeq(text, "\n") {
		if trimmed := strings.TrimSpace(line); trimmed != "" && !strings.HasPrefix(trimmed, "//") {
			m.addLine(mark + line)
		}
	}
}
