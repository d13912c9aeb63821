package redact

import (
	"regexp"
	"strings"
	"unicode"
)

var (
	// labelledForms match secrets that are recognised by their own syntax. The group of each is masked. All begin with
	// a literal, which makes searching fast.
	labelledForms = []*regexp.Regexp{ //nolint:gochecknoglobals // a constant table
		regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----(.*?)(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|$)`),
		regexp.MustCompile(`(eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)`), // JSON Web Tokens
		regexp.MustCompile(`(gh[pousr]_\w{30,})`),
		regexp.MustCompile(`(github_pat_\w{30,})`),
		regexp.MustCompile(`(glpat-[\w-]{20,})`),
	}
	// userinfo matches the password in a URL, or the whole user information if it has no password.
	userinfo = regexp.MustCompile(`^://(?:[^\s:/?#@"']*:)?([^\s"'/?#]+)@`)
	// assigned matches a value from the separator after its name: a=b, a="b", "a": "b", \"a\": \"b\", a => 'b'. Except
	// in the first form, the value is matched without its quotation marks.
	assigned = regexp.MustCompile(
		`^(?:=("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.|'')*'|[^\s"'&;,)\]}\\=>~][^\s"'&;,)\]}\\]*)|` +
			`(?:=>|:=|[:=])\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.|'')*)'|\\+"(.*?)\\+"))`)
	// ofLine matches a value after its name in a line of YAML.
	ofLine = regexp.MustCompile(`^:[ \t]+(\S+)[ \t\r]*(?:\n|$)`)
	// scheme matches the credentials of an HTTP Authorization header after its name.
	scheme = regexp.MustCompile(`^:\s*\\*["']?(?i:Basic|Bearer|Token)\s+([^\s"'\\]+)`)
	// sqlBefore matches the SQL that precedes the text literal of a password, sqlText the literal.
	sqlBefore = regexp.MustCompile(`(?i)\b(PASSWORD|IDENTIFIED BY)\s+E?$`)
	sqlText   = regexp.MustCompile(`^('(?:[^'\\]|''|\\.)*')`)
	// notSecret matches texts that replace a secret: a reference, an expression, a placeholder or a mask.
	notSecret = regexp.MustCompile(`^(\(\(.*|\(sensitive.*|\(known.*|\[redacted\]|\[withheld.*|<[\w -]+>|` +
		`\$\{.*|\$\(.*|\$[A-Z_]+|\*+|%[a-z]|` +
		`(var|local|data|each|self|random_\w+)\..*|null|nil|true|false|)$`)
)

// longestName is the number of bytes before a value in which its name is searched.
const longestName = 80

// labelled appends to spans the parts of a text that the text itself labels as secrets:
//   - the values in password=…, "token": "…" and other assignments to names that denote a secret, except to the bare
//     names secret and secrets
//   - the user information in ://user:…@host, only the password if it has one
//   - the credentials in an Authorization header
//   - text literals after PASSWORD and IDENTIFIED BY in SQL
//   - the content of private keys in PEM, JSON Web Tokens, and tokens of GitHub and GitLab
//
// A value that only replaces a secret, such as a reference, an expression, a placeholder or a mask, is left out.
//
// labelled returns the extended slice, which is not sorted and whose spans may overlap; spans may be nil. The result is
// incomplete if expired, which is called repeatedly, reports true before the end.
func labelled(text string, spans []span, expired func() bool) []span {
	add := func(offset int, matches ...[]int) {
		for _, match := range matches {
			// Only the last group that took part in the match counts.
			for ; len(match) > 2 && match[len(match)-1] < 0; match = match[:len(match)-2] {
			}
			from, to := offset+match[len(match)-2], offset+match[len(match)-1]
			if !notSecret.MatchString(strings.Trim(text[from:to], `'"\`)) {
				spans = append(spans, span{from, to})
			}
		}
	}
	for _, form := range labelledForms {
		add(0, form.FindAllStringSubmatchIndex(text, -1)...)
	}
	isSecret := map[string]bool{}
	for at := 0; !expired(); at++ {
		next := strings.IndexAny(text[at:], ":='")
		if next < 0 {
			break
		}
		at += next
		for _, form := range formsAt(text[max(0, at-longestName):at], text[at:], isSecret) {
			if match := form.FindStringSubmatchIndex(text[at:]); match != nil {
				add(at, match)
				break
			}
		}
	}
	return spans
}

// formsAt returns the patterns that may match a secret at a colon, an equals sign or a single quote in a text, in the
// order in which they must be tried. before is the text up to that character, of which the last longestName, 80,
// bytes suffice, and after the text from that character, which must not be empty. Each pattern matches only at the
// beginning of after; the secret is the text of the last group that takes part in the match. formsAt returns nil if
// no secret can begin there, for example because the name before the character does not denote a secret, or is the
// bare word "secret" or "secrets".
//
// isSecret caches, by the name in lower case, whether a name denotes a secret. It must not be nil. formsAt reads the
// decision about a name from isSecret, and adds it if it is missing.
func formsAt(before, after string, isSecret map[string]bool) []*regexp.Regexp {
	if strings.HasPrefix(after, "://") {
		return []*regexp.Regexp{userinfo}
	}
	if after[0] == '\'' {
		if sqlBefore.MatchString(before[max(0, len(before)-len("IDENTIFIED BY  E")):]) {
			return []*regexp.Regexp{sqlText}
		}
		return nil
	}
	name := strings.TrimRight(before, ` "'\`)
	start := strings.LastIndexFunc(name, func(char rune) bool {
		return !unicode.IsLetter(char) && !unicode.IsDigit(char) && !strings.ContainsRune("_.-", char)
	}) + 1
	key := strings.ToLower(name[start:])
	secret, cached := isSecret[key]
	if !cached {
		// The word "secret" alone also precedes the name of a secret, as in "secret: NAME", so it does not count.
		secret = strings.HasSuffix(key, "authorization") ||
			key != "secret" && key != "secrets" && certaintyOf(key, unknown, maskedWords) == named
		isSecret[key] = secret
	}
	switch line := name[strings.LastIndexByte(name[:start], '\n')+1 : start]; {
	case !secret:
		return nil
	case strings.HasSuffix(key, "authorization"):
		return []*regexp.Regexp{scheme, assigned}
	case strings.Trim(line, " \t-\"'") == "":
		return []*regexp.Regexp{assigned, ofLine}
	default:
		return []*regexp.Regexp{assigned}
	}
}
