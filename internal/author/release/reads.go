package release

import (
	"slices"
	"strings"

	"service-adapter/internal/value"
)

// A Read is one call of p in a template of a job, with the literal name of a property and without a default. Rendering
// the template fails at the call if the property has no value. The Conditions of a Read must all be true for the call
// to be executed; none means that it is always executed. In `p "x" + y`, the computed name counts as the literal "x".
type Read struct {
	// Property is the dotted name.
	Property string
	// Template is a key of the job's Templates.
	Template string
	// Line is the number of the line in the template, from 1.
	Line int
	// Conditions must all be true for the call to be executed.
	Conditions []Condition
}

// A Condition is the condition of a branch, or of a modifier behind a statement, if it consists only of the value of
// one property, such as `if p("tls.enabled")`, or of its negation. The type of the property is not known: as in Ruby,
// every value except false and null counts as true. Code that depends on any other condition has no Condition, and
// Reads leaves out its calls.
type Condition struct {
	// Property is the dotted name.
	Property string
	// Negated means that the condition is true if the property is false or null.
	Negated bool
}

// Reads returns the calls of p, without a default, in all templates of the job and its monit file, sorted by template
// and line. Each call is certainly executed if the Conditions of its Read are true. A property may be read several
// times. The result is nil if there are no such calls. These calls are left out:
//   - calls that may be skipped for other reasons: in blocks, such as that of if_p, in methods, in branches whose
//     condition is not a Condition, and behind `&&`, `||` and `?`
//   - calls with computed names
//   - all calls of a template with constructs of Ruby that Reads does not know, or with blocks that do not match
func (j *Job) Reads() []Read {
	var all []Read
	for _, template := range value.Keys(j.Templates) {
		tokens, ok := lexTemplate(j.Templates[template])
		if !ok {
			continue
		}
		r := &reader{tokens: tokens, template: template}
		if r.run() {
			slices.SortStableFunc(r.reads, func(a, b Read) int { return a.Line - b.Line })
			all = append(all, r.reads...)
		}
	}
	return all
}

// A block is an open bracket of a template, or an open construct of Ruby that ends with `end`. It records whether its
// code may be skipped for an unknown reason (uncertain), and otherwise the Condition under which its code is
// executed, if any. It also records the state of the statement in it that is being read: whether this belongs to the
// line of the block's keyword (head), whether an operator may skip its rest (hazard), and how many calls precede it
// (statement). The zero block is the outermost one, which is the whole template.
type block struct {
	// open is the keyword or the bracket. The outermost block has "".
	open string
	// uncertain means that the block may be skipped for a reason that is not a Condition.
	uncertain bool
	// condition is that of the present branch of an `if` or `unless`. It is nil for other blocks.
	condition *Condition
	// head means that the reader is still in the line of the keyword, which belongs to the code around the block.
	head bool
	// hazard means that the rest of the statement may be skipped, because of an operator such as `&&`.
	hazard bool
	// statement is the number of calls before the present statement.
	statement int
}

// A reader finds the calls of p in the tokens of one template, whose name becomes the Template of each Read. Its method
// run needs only tokens and template. It keeps the stack of open blocks, from the outermost to the innermost, and
// collects the calls in reads.
type reader struct {
	tokens   []token
	template string
	offset   int
	blocks   []block
	reads    []Read
}

// top returns the innermost open block, which the caller may modify. At least the outermost block must exist, as it
// does after run has begun.
func (r *reader) top() *block { return &r.blocks[len(r.blocks)-1] }

// token returns the token at a distance from the current one: 0 is the current token, 1 the next and -1 the previous
// one. Outside of the template, it returns a token of the kind newline.
func (r *reader) token(distance int) token {
	if at := r.offset + distance; at >= 0 && at < len(r.tokens) {
		return r.tokens[at]
	}
	return token{kind: newline}
}

// run reads all tokens of the template and sets r.reads to the calls of p that are certainly executed under their
// Conditions, in the order of the template; see call. It returns false if the blocks of the template do not match, for
// example because one is not closed; r.reads must not be used then.
func (r *reader) run() bool {
	r.blocks = []block{{}}
	for ; r.offset < len(r.tokens); r.offset++ {
		current := r.token(0)
		ok := true
		switch current.kind {
		case newline:
			r.endStatement()
		case symbol:
			ok = r.symbol(current.text)
		case word:
			ok = r.word(current.text)
		}
		if !ok {
			return false
		}
	}
	return len(r.blocks) == 1
}

// endStatement ends the current statement in the innermost block, and the head of that block, such as the condition of
// an `if`: the code that follows is not skipped by an operator such as `&&` before it, and belongs to the block. It
// does nothing if the innermost block is a parenthesis or a list, in which a newline does not end a statement.
func (r *reader) endStatement() {
	if top := r.top(); top.open != "(" && top.open != "[" {
		top.head, top.hazard, top.statement = false, false, len(r.reads)
	}
}

// push opens the block added inside of the innermost one. Its field statement is set to the current number of calls.
func (r *reader) push(added block) {
	added.statement = len(r.reads)
	r.blocks = append(r.blocks, added)
}

// symbol handles the current token, which must be of the kind symbol and have this text; run advances to the next
// token. An opening bracket opens a block. The block of a brace is uncertain if it is a code block and not a mapping.
// A closing bracket closes the innermost block. An operator that may skip the rest of the statement, such as `&&`,
// marks this in the innermost block. Other symbols have no effect. symbol returns false, and closes no block, if a
// closing bracket does not match the innermost block.
func (r *reader) symbol(text string) bool {
	switch text {
	case "(", "[":
		r.push(block{open: text})
	case "{":
		last := r.token(-1) // after a value there is a block, and otherwise a mapping
		isBlock := last.kind == word && !keywords[last.text] ||
			last.kind == symbol && (strings.Contains(")]|v", last.text) || last.text == "->")
		r.push(block{open: text, uncertain: isBlock})
	case ")", "]", "}":
		if r.top().open != map[string]string{")": "(", "]": "[", "}": "{"}[text] {
			return false
		}
		r.blocks = r.blocks[:len(r.blocks)-1]
	case "&&", "||", "?", "&.":
		r.top().hazard = true
	}
	return true
}

// word handles the current token, which must be of the kind word and have this text; run advances to the next token.
// Names of methods behind a dot or ::, and words that are not in this list, have no effect:
//   - A keyword such as `if`, `do` or `def` opens a block, `else` and the like begin another branch, and `end` closes
//     a block.
//   - An `if`, `unless` or other keyword behind a statement changes the calls of this statement in r.reads; see
//     conditional.
//   - `then`, and the `do` of a loop, end the head of a block; `and` and `or` mark the rest of a statement, which
//     they may skip.
//   - A keyword such as `return` makes blocks uncertain; see leave.
//   - `p` adds a call to r.reads; see call.
//
// word returns false if `end` or the keyword of a branch, such as `else` or `rescue`, does not belong to a block.
func (r *reader) word(text string) bool {
	last := r.token(-1)
	if last.kind == symbol && (last.text == "." || last.text == "&." || last.text == "::") {
		return true // the name of a method
	}
	switch text {
	case "if", "unless", "while", "until", "rescue":
		return r.conditional(text)
	case "for":
		r.push(block{open: "while", uncertain: true, head: true})
	case "case":
		r.push(block{open: text, uncertain: true, head: true})
	case "begin", "def", "class", "module":
		r.push(block{open: text, uncertain: true})
	case "do":
		if top := r.top(); top.open == "while" && top.head {
			r.endStatement()
		} else {
			r.push(block{open: text, uncertain: true})
		}
	case "then":
		r.endStatement()
	case "else", "elsif", "when", "in", "ensure":
		return r.branch(text)
	case "end":
		return r.end()
	case "and", "or":
		r.top().hazard = true
	case "return", "next", "break", "exit", "redo":
		r.leave()
	case "p":
		r.call()
	}
	return true
}

// conditional handles the current token, one of the keywords if, unless, while, until and rescue. If it begins a
// statement or a value, it opens a block, or another branch of the innermost block for `rescue`. Otherwise it modifies
// the statement before it; see modify. conditional returns false if a `rescue` that begins a statement does not belong
// to a block.
func (r *reader) conditional(keyword string) bool {
	var condition *Condition
	if keyword == "if" || keyword == "unless" {
		condition = r.simpleCondition(keyword == "unless")
	}
	switch {
	case !r.startsStatement():
		r.modify(condition)
	case keyword == "rescue":
		return r.branch(keyword)
	case keyword == "if" || keyword == "unless":
		r.push(block{open: keyword, condition: condition, uncertain: condition == nil, head: true})
	default:
		r.push(block{open: "while", uncertain: true, head: true})
	}
	return true
}

// startsStatement reports whether the current token, a keyword such as `if`, begins a statement or a value. If it
// returns false, the keyword modifies the statement before it, as in `p("x") if y`.
func (r *reader) startsStatement() bool {
	last := r.token(-1)
	switch last.kind {
	case newline:
		return true
	case symbol:
		return !strings.Contains(")]}v", last.text)
	case word:
		return keywords[last.text] && last.text != "return" && last.text != "raise" // `return if x` is a modifier
	default:
		return false
	}
}

// simpleCondition returns the condition behind the current keyword if it consists of the value of one property, such
// as `p("tls.enabled")` or `!p("tls.enabled")`, and nil for any other condition. It only looks ahead: the current
// token does not change. negated means that the keyword itself negates the condition, as `unless` does; together with
// `!` or `not`, the result is not negated.
func (r *reader) simpleCondition(negated bool) *Condition {
	at := 1
	if t := r.token(at); t.kind == symbol && t.text == "!" || t.kind == word && t.text == "not" {
		negated = !negated
		at++
	}
	name, length := r.property(at)
	if end := r.token(at + length); name == "" || end.kind != newline && end.text != "then" {
		return nil
	}
	return &Condition{Property: name, Negated: negated}
}

// property examines the call of p that begins at a distance from the current token, where 0 is that token. It returns
// the literal name of the property and the number of tokens of the call: 2 for `p "x"` and 4 for `p("x")`. It returns
// "" and 0 if no such call begins there, if the name is computed, or if the call has a default. A call without
// parentheses is not recognised as computed if an operator follows a literal, as in `p "x" + y`; its name is "x".
func (r *reader) property(at int) (name string, length int) {
	if t := r.token(at); t.kind != word || t.text != "p" {
		return "", 0
	}
	switch argument := r.token(at + 1); {
	case argument.kind == literal && r.token(at+2).text != ",":
		return argument.text, 2
	case argument.kind == symbol && argument.text == "(" && r.token(at+2).kind == literal && r.token(at+3).text == ")":
		return r.token(at + 2).text, 4
	default:
		return "", 0
	}
}

// call adds the call of p at the current token to r.reads, with the conditions of all blocks around it. A block whose
// head contains the call, such as an `if` with the call in its condition, is not around the call. call adds nothing if
// the name is computed or the call has a default (see property), if the token defines a method p, or if the call may be
// skipped for a reason that is not a Condition.
func (r *reader) call() {
	name, _ := r.property(0)
	if name == "" || r.token(-1).text == "def" {
		return
	}
	read := Read{Property: name, Template: r.template, Line: r.token(0).line}
	for _, open := range r.blocks {
		if open.hazard {
			return
		}
		if open.head {
			continue
		}
		if open.uncertain {
			return
		}
		if open.condition != nil {
			read.Conditions = append(read.Conditions, *open.condition)
		}
	}
	r.reads = append(r.reads, read)
}

// modify applies a modifier that follows a statement, such as `if p("tls.enabled")`, to the calls of this statement
// in r.reads, by adding its condition to their conditions. condition is nil if the modifier is not an `if` or
// `unless` with the value of a single property or its negation, so also for `while`, `until` and `rescue`; modify
// then removes these calls.
func (r *reader) modify(condition *Condition) {
	top := r.top()
	if condition == nil {
		r.reads = r.reads[:top.statement]
		return
	}
	for i := top.statement; i < len(r.reads); i++ {
		r.reads[i].Conditions = append(slices.Clone(r.reads[i].Conditions), *condition)
	}
}

// branch begins another branch of the innermost block at a keyword such as "else", "elsif" or "rescue", and ends the
// current statement. An `else` negates the condition of the block, if it has one; any other branch, and an `else`
// without a condition, makes the block uncertain. branch returns false, without an effect, if the innermost block is a
// bracket or the whole template. It returns true without an effect for the "in" of a loop, which begins no branch.
func (r *reader) branch(keyword string) bool {
	top := r.top()
	if keyword == "in" && top.head { // of a loop
		return true
	}
	if top.open == "" || strings.Contains("([{", top.open) {
		return false
	}
	r.endStatement()
	if keyword == "else" && top.condition != nil {
		top.condition = &Condition{Property: top.condition.Property, Negated: !top.condition.Negated}
		return true
	}
	top.condition, top.uncertain = nil, true
	return true
}

// end closes the innermost block at the keyword `end`. It returns false, and closes nothing, if the innermost block is
// a bracket or the whole template.
func (r *reader) end() bool {
	if top := r.top(); top.open == "" || strings.Contains("([{", top.open) {
		return false
	}
	r.blocks = r.blocks[:len(r.blocks)-1]
	return true
}

// leave handles a keyword such as `return` or `next`, by which the code leaves a block, a method or the template. The
// code behind it may be skipped, so that leave marks all open blocks as uncertain, from the innermost one out to the
// nearest loop, method or code block, or to the whole template if there is none.
func (r *reader) leave() {
	for i := len(r.blocks) - 1; i >= 0; i-- {
		r.blocks[i].uncertain, r.blocks[i].condition = true, nil
		if slices.Contains([]string{"do", "def", "{", "while"}, r.blocks[i].open) {
			return
		}
	}
}
