package release

import (
	"strings"
)

// A tokenKind is the kind of a token of Ruby code. The zero value is newline, the end of a statement. A word is an
// identifier, a keyword, a variable or a number. A string, a regular expression or a command in backticks is a
// literal or, if it contains interpolations, interpolated. A symbol is an operator or a bracket. Values that no rule
// depends on are symbols with the text "v": the Ruby symbol :name, and literals without interpolations that begin
// with a percent sign, such as %w(a b) and %q(text). Such a literal with interpolations is interpolated. A key such
// as `name:` of a mapping or a named argument is a symbol with the text ",".
type tokenKind int

const (
	newline      tokenKind = iota // the end of a line, a semicolon, or the end of an ERB tag
	word                          // an identifier, a keyword, a variable, a constant or a number
	literal                       // a string without interpolation; the text is its value
	interpolated                  // a string with interpolations; the tokens of each one follow, in parentheses
	symbol                        // an operator or a bracket, or a value that no rule depends on, with the text "v"
)

// A token is a token of the Ruby code in an ERB template, with its kind, its text and the number of its line in the
// template, from 1. The text is that of the code, "v" or ","; see tokenKind. For strings it is the content without the
// quotes and interpolations, in which escape sequences are not decoded, and for newlines "". The zero token is a
// newline.
type token struct {
	kind tokenKind
	text string
	line int
}

// A lexer splits the Ruby code of one ERB tag, or of one interpolation, into tokens. Its method run needs only the code
// and the number of its first line, and appends the tokens to the field tokens. A lexer knows the part of Ruby that
// templates use, and sets unclear for any other construct, after which its tokens must not be used.
type lexer struct {
	code   string // the code of one ERB tag, or of one interpolation
	offset int
	line   int
	tokens []token
	// unclear means that the code has a construct that the lexer does not know, so that the tokens must not be used.
	unclear bool
}

// lexTemplate returns the tokens of the Ruby code in all tags of an ERB template, with a newline at the end of each
// tag, and true. Text outside of tags, and comments in the code, result in no tokens, and a tag that is a comment (<%#)
// only in the newline. The first result is nil if the template has no tags. The result is nil and false if a tag has no
// end, or if the code has a construct that the lexer does not know, such as a here-document.
func lexTemplate(template string) ([]token, bool) {
	var tokens []token
	line, rest := 1, template
	for {
		before, after, found := strings.Cut(rest, "<%")
		if !found {
			return tokens, true
		}
		line += strings.Count(before, "\n")
		if strings.HasPrefix(after, "%") { // an escaped tag
			rest = after[1:]
			continue
		}
		code, next, found := strings.Cut(after, "%>")
		if !found {
			return nil, false
		}
		if !strings.HasPrefix(code, "#") {
			trimmed := strings.TrimSuffix(code, "-")
			if strings.HasPrefix(trimmed, "=") || strings.HasPrefix(trimmed, "-") {
				trimmed = trimmed[1:]
			}
			l := &lexer{code: trimmed, line: line}
			l.run()
			if l.unclear {
				return nil, false
			}
			tokens = append(tokens, l.tokens...)
		}
		line += strings.Count(code, "\n")
		tokens = append(tokens, token{newline, "", line})
		rest = next
	}
}

// emit appends a token with this kind and text, at the current line, to the tokens of the lexer.
func (l *lexer) emit(kind tokenKind, text string) {
	l.tokens = append(l.tokens, token{kind, text, l.line})
}

// rest returns the code that the lexer has not read yet, or "" at the end.
func (l *lexer) rest() string { return l.code[l.offset:] }

// previous returns the last token that was appended, or a token of the kind newline if there is none.
func (l *lexer) previous() token {
	if len(l.tokens) == 0 {
		return token{kind: newline}
	}
	return l.tokens[len(l.tokens)-1]
}

// run reads all code and appends its tokens to l.tokens. It stops at the first construct that the lexer does not know,
// and sets l.unclear.
func (l *lexer) run() {
	for l.offset < len(l.code) && !l.unclear {
		l.next()
	}
}

// operators are the operators of more than one character that have a meaning for readers of the tokens, or whose first
// character has another one.
var operators = []string{ //nolint:gochecknoglobals // a constant table
	"&&", "||", "&.", "::", "->", "===", "==", "!=", "=~", "!~", "=>", "<=>", "<=", ">=", "<<", ">>", "...", "..", "**",
}

// next reads the next element of the code, appends its tokens, if any, to l.tokens, and moves l.offset and l.line
// behind it. A word, a symbol, an operator, a bracket or a string is one token; the tokens of the interpolations of a
// string follow it. A semicolon, or a line break that ends a statement, is a newline token (see endLine). Comments,
// other line breaks and other white space have no tokens. next sets l.unclear at a construct that the lexer does not
// know; the tokens must then not be used. It panics if no code is left.
func (l *lexer) next() {
	c := l.code[l.offset]
	switch {
	case c == '\n' || c == ';':
		l.endLine(c)
	case strings.IndexByte(" \t\r\\#", c) >= 0:
		l.skip(c)
	case c == '\'' || c == '"' || c == '`':
		l.offset++
		l.quoted(0, c, c != '\'')
	case c == '%' && l.valueStarts() && l.percent():
	case c == '/' && l.valueStarts():
		l.offset++
		l.quoted(0, '/', true)
	case isWord(c) || c == '@' || c == '$':
		l.word()
	case c == ':' && l.offset+1 < len(l.code) && isWord(l.code[l.offset+1]):
		l.offset++ // a symbol
		l.word()
		l.tokens[len(l.tokens)-1] = token{symbol, "v", l.line}
	default:
		l.operator()
	}
}

// skip reads, without appending a token, one character of white space, a backslash with the line break that follows
// it, or a comment without the line break behind it. c is the next character of the code, with which this begins. A
// backslash elsewhere is read alone.
func (l *lexer) skip(c byte) {
	end := strings.IndexByte(l.rest(), '\n')
	switch {
	case c == '#' && end < 0:
		l.offset = len(l.code)
	case c == '#':
		l.offset += end
	case c == '\\' && end == 1:
		l.offset, l.line = l.offset+2, l.line+1
	default:
		l.offset++
	}
}

// endLine reads c, a line break or a semicolon, which is the next character of the code, and appends a newline token.
// It appends nothing for a line break that does not end a statement: after an operator, a comma or an open bracket, or
// before a line that begins with a call of a method, such as `.each`. Blank lines in between do not matter.
func (l *lexer) endLine(c byte) {
	l.offset++
	last := l.previous()
	next := strings.TrimLeft(l.rest(), " \t\r\n")
	calls := strings.HasPrefix(next, ".") && !strings.HasPrefix(next, "..") || strings.HasPrefix(next, "&.")
	open := last.kind == symbol && !strings.Contains(")]}|v", last.text)
	if c == ';' || !open && !calls {
		l.emit(newline, "")
	}
	if c == '\n' {
		l.line++
	}
}

// valueStarts reports whether the next character, "/" or "%", begins a value such as /text/ or %w(a b), and is not an
// operator between two values. It decides by the previous token and the white space around the character.
func (l *lexer) valueStarts() bool {
	switch last := l.previous(); last.kind {
	case newline:
		return true
	case symbol:
		return !strings.Contains(")]}v", last.text)
	case word:
		spaced := l.offset > 0 && (l.code[l.offset-1] == ' ' || l.code[l.offset-1] == '\t')
		tight := len(l.rest()) > 1 && l.code[l.offset+1] != ' ' && l.code[l.offset+1] != '='
		return keywords[last.text] || spaced && tight // such as `puts %w(a b)`
	default:
		return false
	}
}

// keywords are the keywords after which a value begins.
var keywords = map[string]bool{ //nolint:gochecknoglobals // a constant table
	"if": true, "unless": true, "while": true, "until": true, "case": true, "when": true, "in": true, "and": true,
	"or": true, "not": true, "return": true, "then": true, "else": true, "elsif": true, "do": true, "raise": true,
}

// percent reads a literal such as %w(a b) or %{text} at the next character, "%", and reports whether there is one; if
// not, it reads nothing. It appends a symbol token with the text "v", because the literal need not be a string, or, for
// a literal with interpolations, an interpolated token followed by the tokens of the interpolations. A literal without
// an end sets l.unclear, and the result is true.
func (l *lexer) percent() bool {
	rest := l.rest()[1:]
	kind := byte('Q')
	if rest != "" && strings.IndexByte("wWiIqQrsx", rest[0]) >= 0 {
		kind, rest = rest[0], rest[1:]
	}
	if rest == "" || isWord(rest[0]) || strings.IndexByte(" \n=", rest[0]) >= 0 {
		return false
	}
	open, end := rest[0], rest[0]
	if index := strings.IndexByte("([{<", open); index >= 0 {
		end = ")]}>"[index]
	} else {
		open = 0
	}
	l.offset = len(l.code) - len(rest) + 1
	l.quoted(open, end, strings.IndexByte("WIQrx", kind) >= 0)
	if last := len(l.tokens) - 1; last >= 0 && l.tokens[last].kind == literal {
		l.tokens[last] = token{symbol, "v", l.line} // it need not be a string
	}
	return true
}

// quoted reads a string up to and including its end character and appends it as a literal token or, if it contains
// interpolations, as an interpolated token followed by the tokens of the interpolations. The text of the token lacks
// the interpolations. With an escape sequence, which is not decoded, the text contains a backslash and is therefore not
// the name of a property. For a string without an end, quoted reads all code, appends no token and sets l.unclear.
//
// The lexer must be at the first character after the opening one. open is the character that begins a nested pair, such
// as "(", or 0 if pairs do not count. interpolates means that the string may contain code in #{}.
func (l *lexer) quoted(open, end byte, interpolates bool) {
	var text strings.Builder
	line, depth := l.line, 0
	var inner []token
	for l.offset < len(l.code) {
		c := l.code[l.offset]
		switch {
		case c == '\\' && l.offset+1 < len(l.code):
			text.WriteString(l.code[l.offset : l.offset+2]) // no property has a name with a backslash
			l.offset++
		case c == end && depth == 0:
			l.offset++
			l.tokens = append(l.tokens, token{literal, text.String(), line})
			if inner != nil {
				l.tokens[len(l.tokens)-1].kind = interpolated
				l.tokens = append(l.tokens, inner...)
			}
			return
		case c == end:
			depth--
		case c == open:
			depth++
		case interpolates && strings.HasPrefix(l.rest(), "#{"):
			inner = append(inner, l.interpolation()...)
			continue
		}
		if l.code[l.offset] == '\n' {
			l.line++
		}
		text.WriteByte(c)
		l.offset++
	}
	l.unclear = true // the string has no end in this tag
}

// interpolation reads the code in #{}, from the "#" at which the lexer must be up to and including the "}". It returns
// the tokens of the code, preceded by a symbol token "(" and followed by a symbol token ")". If the code has no end,
// the result is nil, l.unclear is set and all code is read. l.unclear is also set if the code in the braces has a
// construct that the lexer does not know.
func (l *lexer) interpolation() []token {
	start := l.offset + len("#{")
	depth := 0
	for at := start; at < len(l.code); at++ {
		switch l.code[at] {
		case '{':
			depth++
		case '}':
			if depth--; depth >= 0 {
				continue
			}
			inner := &lexer{code: l.code[start:at], line: l.line}
			inner.run()
			l.unclear = l.unclear || inner.unclear
			l.offset, l.line = at+1, inner.line
			tokens := append([]token{{symbol, "(", l.line}}, inner.tokens...)
			return append(tokens, token{symbol, ")", l.line})
		}
	}
	l.unclear, l.offset = true, len(l.code)
	return nil
}

// word reads an identifier, a keyword, a number or a variable at the next character, and appends it as a word token.
// The key of a mapping or a named argument, such as `name:`, is read with its colon and becomes a symbol token ","
// instead, unless it follows a "?". The words __END__, BEGIN and END, which end the code or define blocks for its
// beginning and end, set l.unclear.
func (l *lexer) word() {
	start := l.offset
	for l.offset < len(l.code) && strings.IndexByte("@$", l.code[l.offset]) >= 0 {
		l.offset++
	}
	for l.offset < len(l.code) && isWord(l.code[l.offset]) {
		l.offset++
	}
	if rest := l.rest(); rest != "" && (rest[0] == '?' || rest[0] == '!') && !strings.HasPrefix(rest[1:], "=") {
		l.offset++ // such as `nil?`
	}
	text := l.code[start:l.offset]
	if rest := l.rest(); strings.HasPrefix(rest, ":") && !strings.HasPrefix(rest, "::") && l.previous().text != "?" {
		l.offset++
		l.emit(symbol, ",") // a key begins a new argument
		return
	}
	if text == "__END__" || text == "BEGIN" || text == "END" {
		l.unclear = true
	}
	l.emit(word, text)
}

// operator reads an operator or a bracket at the next character and appends it as a symbol token. Any character that
// begins no longer operator is a token of its own. An operator << sets l.unclear if it may begin a here-document, such
// as <<~TEXT: if "~", "-", a quote or an upper-case letter follows it directly.
func (l *lexer) operator() {
	rest := l.rest()
	for _, operator := range operators {
		if !strings.HasPrefix(rest, operator) {
			continue
		}
		after := rest[len(operator):]
		if operator == "<<" && after != "" {
			hereDocument := strings.IndexByte("~-\"'", after[0]) >= 0 || after[0] >= 'A' && after[0] <= 'Z'
			l.unclear = l.unclear || hereDocument
		}
		l.emit(symbol, operator)
		l.offset += len(operator)
		return
	}
	l.emit(symbol, rest[:1])
	l.offset++
}

// isWord reports whether a byte can be part of an identifier or a number: an ASCII letter, a digit, an underscore, or a
// byte of a character outside of ASCII.
func isWord(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c >= 0x80
}
