package hclfile

import (
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// format lays out a configuration without comments and heredocs as "tofu fmt" does: indentation, blanks between tokens, and the equals
// signs of neighbouring lines in one column. hclwrite has a function for that, but what it imports costs every command of the adapter
// a tenth of its time before it begins. FuzzFormat holds both against each other.
func format(text string) string {
	lines := linesOf(text)
	indent(lines)
	for _, line := range lines {
		space(line.lead)
		space(line.assign)
	}
	align(lines)
	var out strings.Builder
	for _, line := range lines {
		for _, word := range slices.Concat(line.lead, line.assign) {
			out.WriteString(strings.Repeat(" ", word.blanks))
			out.Write(word.Bytes)
		}
	}
	return out.String()
}

// word is a token with the number of blanks before it.
type word struct {
	hclsyntax.Token
	blanks int
}

// width is how many columns a token takes.
func (w word) width() int { return w.Range.End.Column - w.Range.Start.Column }

// line is a line with its end. From its equals sign on it is assign, if the expression does not go on in the next line.
type line struct{ lead, assign []word }

func linesOf(text string) []line {
	tokens, _ := hclsyntax.LexConfig([]byte(text), RegeneratedFile, hcl.InitialPos) // the result is parsed later
	var lines []line
	var words []word
	for _, token := range tokens {
		if token.Type != hclsyntax.TokenEOF {
			words = append(words, word{Token: token})
		}
		if token.Type != hclsyntax.TokenNewline && token.Type != hclsyntax.TokenEOF {
			continue
		}
		equals := slices.IndexFunc(words, func(w word) bool { return w.Type == hclsyntax.TokenEqual })
		if equals <= 0 || opened(words[equals:]) != 0 {
			equals = len(words)
		}
		lines = append(lines, line{words[:equals], words[equals:]})
		words = nil
	}
	return lines
}

// opened is how many more brackets the words open than they close.
func opened(words []word) int {
	sum := 0
	for _, w := range words {
		sum += bracket(w.Type)
	}
	return sum
}

func bracket(t hclsyntax.TokenType) int {
	switch t {
	case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenTemplateControl, hclsyntax.TokenTemplateInterp:
		return 1
	case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenTemplateSeqEnd:
		return -1
	default:
		return 0
	}
}

// indent sets the blanks before each line. A line that opens brackets, however many, is one step for the lines below it, until as many
// are closed.
func indent(lines []line) {
	var steps []int // the open brackets of each step
	for _, line := range lines {
		if len(line.lead) == 0 || line.lead[0].Type == hclsyntax.TokenNewline {
			continue
		}
		change := opened(line.lead) + opened(line.assign)
		for closed := -change; closed > 0 && len(steps) > 0; {
			last := len(steps) - 1
			closing := min(closed, steps[last])
			closed -= closing
			if steps[last] -= closing; steps[last] == 0 {
				steps = steps[:last]
			}
		}
		line.lead[0].blanks = 2 * len(steps)
		if change > 0 {
			steps = append(steps, change)
		}
	}
}

// space sets the blanks between words.
func space(words []word) {
	var before hclsyntax.TokenType // none
	for i := 0; i+1 < len(words); i++ {
		if isSpaced(before, words[i], words[i+1].Type) {
			words[i+1].blanks = 1
		}
		before = words[i].Type
	}
}

// isSpaced tells whether a blank stands between a word, which follows a token of the type before, and what comes after it.
func isSpaced(before hclsyntax.TokenType, w word, after hclsyntax.TokenType) bool {
	is := func(t hclsyntax.TokenType, types ...hclsyntax.TokenType) bool { return slices.Contains(types, t) }
	switch {
	case after == hclsyntax.TokenNewline,
		w.Type == hclsyntax.TokenIdent && is(after, hclsyntax.TokenOParen, hclsyntax.TokenDoubleColon),
		w.Type == hclsyntax.TokenDoubleColon && after == hclsyntax.TokenIdent,
		w.Type == hclsyntax.TokenDot,
		is(after, hclsyntax.TokenDot, hclsyntax.TokenComma, hclsyntax.TokenEllipsis):
		return false
	case w.Type == hclsyntax.TokenComma:
		return true
	case is(w.Type, hclsyntax.TokenQuotedLit, hclsyntax.TokenStringLit, hclsyntax.TokenOQuote),
		is(after, hclsyntax.TokenQuotedLit, hclsyntax.TokenStringLit, hclsyntax.TokenCQuote):
		return false
	case w.Type == hclsyntax.TokenIdent && string(w.Bytes) == "in" && before == hclsyntax.TokenIdent:
		return true
	case after == hclsyntax.TokenOBrack && (is(w.Type, hclsyntax.TokenIdent, hclsyntax.TokenNumberLit) || bracket(w.Type) < 0),
		w.Type == hclsyntax.TokenBang:
		return false
	case w.Type == hclsyntax.TokenMinus:
		return !is(before, beforeNegation()...)
	case w.Type == hclsyntax.TokenOBrace, after == hclsyntax.TokenCBrace:
		return w.Type != hclsyntax.TokenOBrace || after != hclsyntax.TokenCBrace
	case is(w.Type, hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl) && after == hclsyntax.TokenOBrace,
		w.Type == hclsyntax.TokenCBrace && after == hclsyntax.TokenTemplateSeqEnd:
		return true
	case w.Type == hclsyntax.TokenTemplateSeqEnd && is(after, hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl):
		return false
	default:
		return bracket(w.Type) <= 0 && bracket(after) >= 0
	}
}

// beforeNegation are the types of tokens after which a minus is a sign and no operator.
func beforeNegation() []hclsyntax.TokenType {
	return []hclsyntax.TokenType{
		hclsyntax.TokenNil, hclsyntax.TokenOParen, hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenEqual, hclsyntax.TokenColon,
		hclsyntax.TokenComma, hclsyntax.TokenQuestion, hclsyntax.TokenPlus, hclsyntax.TokenStar, hclsyntax.TokenSlash, hclsyntax.TokenPercent,
		hclsyntax.TokenMinus, hclsyntax.TokenEqualOp, hclsyntax.TokenNotEqual, hclsyntax.TokenGreaterThan, hclsyntax.TokenGreaterThanEq,
		hclsyntax.TokenLessThan, hclsyntax.TokenLessThanEq, hclsyntax.TokenAnd, hclsyntax.TokenOr, hclsyntax.TokenBang,
	}
}

// align sets the blanks before the equals signs of neighbouring lines.
func align(lines []line) {
	columns := func(l line) int {
		sum := 0
		for _, w := range l.lead {
			sum += w.blanks + w.width()
		}
		return sum
	}
	for start := 0; start < len(lines); {
		end, widest := start, 0
		for ; end < len(lines) && len(lines[end].assign) > 0; end++ {
			widest = max(widest, columns(lines[end]))
		}
		for _, line := range lines[start:end] {
			line.assign[0].blanks = widest - columns(line) + 1
		}
		start = max(end, start+1)
	}
}
