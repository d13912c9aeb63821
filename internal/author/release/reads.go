package release

import (
	"slices"
	"strings"

	"service-adapter/internal/value"
)

// A Read is a place in a template that fails if a property has no value: a call of p with the literal name of the
// property and without a default.
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

// A Condition is a branch of a template that depends on a boolean property alone, such as `if p("tls.enabled")`.
type Condition struct {
	// Property is the dotted name.
	Property string
	// Negated means that the condition is true if the property is false or null.
	Negated bool
}

// Reads returns the calls of p in all templates of the job that are certainly executed if their conditions are true,
// sorted by template and line. Calls that may be skipped for other reasons are left out: those in blocks, such as that
// of if_p, in methods, in branches with other conditions, and behind `&&`, `||` and `?`. So are calls with computed
// names and all calls of a template with constructs of Ruby that Reads does not know. The result is nil if there are
// none.
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

// A block is an open bracket, or a construct of Ruby that ends with `end`.
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

// A reader finds the calls of p in the tokens of a template.
type reader struct {
	tokens   []token
	template string
	offset   int
	blocks   []block
	reads    []Read
}

// top returns the innermost open block.
func (r *reader) top() *block { return &r.blocks[len(r.blocks)-1] }

// token returns the token at a distance from the present one, or a newline outside of the template.
func (r *reader) token(distance int) token {
	if at := r.offset + distance; at >= 0 && at < len(r.tokens) {
		return r.tokens[at]
	}
	return token{kind: newline}
}

// run reads all tokens and sets reads. It returns false if the blocks of the template do not match, so that the reads
// must not be used.
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

// endStatement ends a statement and the head of a block. Inside of parentheses and lists, a newline has no meaning.
func (r *reader) endStatement() {
	if top := r.top(); top.open != "(" && top.open != "[" {
		top.head, top.hazard, top.statement = false, false, len(r.reads)
	}
}

// push opens a block inside of the innermost one, at the current number of calls.
func (r *reader) push(added block) {
	added.statement = len(r.reads)
	r.blocks = append(r.blocks, added)
}

// symbol handles an operator or a bracket: it opens and closes blocks, and marks the rest of a statement that an
// operator such as `&&` may skip. It returns false if a bracket closes another block than that of its kind.
func (r *reader) symbol(text string) bool {
	switch text {
	case "(", "[":
		r.push(block{open: text})
	case "{":
		last := r.token(-1) // after a value there is a block, and otherwise a mapping
		isBlock := last.kind == word && !keywords[last.text] ||
			last.kind == symbol && strings.Contains(")]|v", last.text)
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

// word handles a keyword or the name of a method: it opens, branches and closes blocks and adds calls of p. Other words
// have no effect. It returns false if `end` or the keyword of a branch, such as `else` or `rescue`, does not belong to
// a block.
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

// conditional handles the keywords if, unless, while, until and rescue. A keyword that begins a statement or a value
// opens a block, or another branch for `rescue`. Any other keyword modifies the statement before it; see modify.
// conditional returns false if `rescue` does not belong to a block.
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

// startsStatement reports whether the present keyword begins a statement or a value, and does not modify the statement
// before it.
func (r *reader) startsStatement() bool {
	last := r.token(-1)
	switch last.kind {
	case newline:
		return true
	case symbol:
		return !strings.Contains(")]}v", last.text)
	case word:
		return keywords[last.text]
	default:
		return false
	}
}

// simpleCondition returns the condition behind the present keyword if it is the value of a property, such as
// `p("tls.enabled")` or `!p("tls.enabled")`, and nil for any other condition. negated means that the keyword itself
// negates it, as `unless` does.
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

// property returns the name of the property in a call of p without a default that begins at a distance from the present
// token, and the number of its tokens. The name is "" if there is no such call with a literal name.
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

// call adds the present call of p to reads if it has a literal name and no default, and if it is certainly executed
// under conditions.
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

// modify applies a condition behind a statement, such as `if p("tls.enabled")`, to the calls of the statement in
// r.reads. If the condition is nil, because it is not simple, it removes these calls.
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

// branch begins another branch of the innermost block. An `else` negates the condition of the block, if it has one; any
// other branch makes the block uncertain. branch returns false if there is no block that can have branches, and true
// for the `in` of a loop, which begins none.
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

// end closes a block. It returns false if the innermost block is a bracket or there is none.
func (r *reader) end() bool {
	if top := r.top(); top.open == "" || strings.Contains("([{", top.open) {
		return false
	}
	r.blocks = r.blocks[:len(r.blocks)-1]
	return true
}

// leave handles a statement that leaves a block, a method or the template. The rest of all blocks up to the innermost
// loop, method or code block may be skipped, and becomes uncertain.
func (r *reader) leave() {
	for i := len(r.blocks) - 1; i >= 0; i-- {
		r.blocks[i].uncertain, r.blocks[i].condition = true, nil
		if slices.Contains([]string{"do", "def", "{", "while"}, r.blocks[i].open) {
			return
		}
	}
}
