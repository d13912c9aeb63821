package redact

import (
	"encoding/base64"
	"html"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// shape is a secret in a form in which it is found however a program writes it: as it is, escaped once or more often for JSON, Go, HCL, SQL,
// a shell, a URL or HTML, with its white space changed, or within a text in base64.
type shape struct {
	text   string
	anchor string // its longest row of letters and digits, which all ways to write it have
	parts  []part
	base64 bool
}

// part is a character of a secret, or a row of characters that are doubled, folded or escaped with one another.
type part struct {
	char  rune // what alike returns
	count int
	row   bool
}

// alike are characters that programs put in the place of each other: white space with what URLs have for it, and quotes with what escapes
// them.
func alike(char rune) rune {
	switch {
	case unicode.IsSpace(char), char == '+':
		return ' '
	case strings.ContainsRune(`'"\`, char):
		return '"'
	default:
		return char
	}
}

// maxEdge is how many characters of a row count at the edge of a secret.
const maxEdge = 16

// isWord tells whether a character is always written as it is.
func isWord(char rune) bool {
	return char < utf8.RuneSelf && (unicode.IsLetter(char) || unicode.IsDigit(char))
}

func newShape(text string) shape {
	s := shape{text: text}
	for _, char := range text {
		char = alike(char)
		row := strings.ContainsRune(` "$%`, char)
		if last := len(s.parts) - 1; row && last >= 0 && s.parts[last].char == char {
			s.parts[last].count = min(s.parts[last].count+1, maxEdge)
			continue
		}
		s.parts = append(s.parts, part{char: char, count: 1, row: row})
	}
	for word := range strings.FieldsFuncSeq(text, func(char rune) bool { return !isWord(char) }) {
		if len(word) > len(s.anchor) {
			s.anchor = word
		}
	}
	return s
}

// shortestBase64 is the length in bytes from which base64 is looked for.
const shortestBase64 = 8

// inBase64 are the three ways in which base64 shows a secret, which may begin at any byte of what is encoded, without the characters that
// depend on what is before and after it.
func inBase64(secret string) []shape {
	var all []shape
	for before := range 3 {
		encoded := base64.StdEncoding.EncodeToString([]byte(strings.Repeat(" ", before) + secret))
		whole := (before + len(secret)) / 3 * 4
		if first := min(before, 1) * 4; whole-first >= shortestBase64 {
			encoded = encoded[first:whole]
			for _, text := range []string{encoded, strings.NewReplacer("+", "-", "/", "_").Replace(encoded)} {
				all = append(all, shape{text: text, anchor: text, base64: true})
			}
		}
	}
	return all
}

// maxSteps is how many characters are compared to find a secret. It is only reached by texts and secrets that repeat themselves over and
// over; then all of the text is masked.
const maxSteps = 4 << 20

// mask masks the secret wherever a text shows it.
func (s *shape) mask(text string) string {
	if s.anchor != "" && !strings.Contains(text, s.anchor) {
		return text
	}
	if s.base64 {
		return s.maskBase64(text)
	}
	var out strings.Builder
	end, steps := 0, -len(text) // the first comparison at each place is free
	for at := 0; at < len(text); {
		next := strings.IndexFunc(text[at:], s.mayBegin)
		if next < 0 {
			break
		}
		at += next
		length := shown(text[at:], s.parts, &steps)
		if steps > maxSteps {
			return out.String() + Mask
		}
		if length > 0 {
			out.WriteString(text[end:at] + Mask)
			at += length
			end = at
		} else {
			at++
		}
	}
	// What looks escaped by chance may be the secret as it is.
	return strings.ReplaceAll(out.String()+text[end:], s.text, Mask)
}

// mayBegin tells whether the secret may be shown from a character on. What is no letter or digit is never written as one.
func (s *shape) mayBegin(char rune) bool {
	if first := s.parts[0].char; isWord(first) {
		return char == first
	}
	return !isWord(char)
}

// maskBase64 masks all of a text in base64 that holds the secret.
func (s *shape) maskBase64(text string) string {
	other := func(char rune) bool { return !isWord(char) && !strings.ContainsRune("+/-_=", char) }
	var out strings.Builder
	for {
		before, after, found := strings.Cut(text, s.text)
		if !found {
			return out.String() + text
		}
		out.WriteString(before[:strings.LastIndexFunc(before, other)+1] + Mask)
		text = strings.TrimLeftFunc(after, func(char rune) bool { return !other(char) })
	}
}

// shown returns the length of what at the beginning of a text shows the parts of a secret, 0 when nothing does. All ways to read the text
// are followed at once, since what looks escaped need not be.
func shown(text string, parts []part, steps *int) int {
	ends := []int{0}
	for i, one := range parts {
		var next []int
		for _, end := range ends {
			before := len(next)
			next = one.read(next, text, end, i == 0, i == len(parts)-1)
			if *steps += 1 + len(next) - before; *steps > maxSteps {
				return 0
			}
		}
		slices.Sort(next)
		if ends = slices.Compact(next); len(ends) == 0 {
			return 0
		}
	}
	return ends[len(ends)-1]
}

// read appends where a part that begins in a text may end. A row at the edge of a secret has no more characters than there, so that the
// quotes around it stay.
func (p part) read(ends []int, text string, at int, first, last bool) []int {
	if !p.row {
		for _, length := range written(text[at:], p.char) {
			ends = append(ends, at+length)
		}
		return ends
	}
	before := len(ends)
	for count := 1; !first && !last || count <= p.count; count++ {
		lengths := written(text[at:], p.char)
		if len(lengths) == 0 {
			break
		}
		if first || last {
			ends = ends[:before]
		}
		if last {
			lengths = lengths[:1]
		}
		for _, length := range lengths {
			ends = append(ends, at+length)
		}
		at += lengths[0]
	}
	return ends
}

// written are the lengths of the ways in which the beginning of a text may show a character, none when it does not.
func written(text string, char rune) []int {
	literal, length := utf8.DecodeRuneInString(text)
	if isWord(char) || length == 0 {
		if literal == char && length > 0 {
			return []int{length}
		}
		return nil
	}
	var all []int
	switch {
	case char == '"' && strings.HasPrefix(text, `\\`):
		all = append(all, 2)
	case char == '%' && literal == '%':
		for at := 1; strings.HasPrefix(text[at:], "25"); at += 2 {
			all = slices.Insert(all, 0, at+2)
		}
	}
	if decoded, size := decode(text); size > 0 && alike(decoded) == char {
		all = append(all, size)
	}
	if alike(literal) == char {
		all = append(all, length)
	}
	return all
}

// What stands for a character in hexadecimal digits: its octets, each encoded by itself, in a URL, which may be encoded more than once, or
// after backslashes; and the two halves of one in JSON.
var (
	urlOctet     = regexp.MustCompile(`^%(?:25)*([0-9A-Fa-f]{2})`)
	escapedOctet = regexp.MustCompile(`^\\+x([0-9A-Fa-f]{2})`)
	surrogates   = regexp.MustCompile(`^\\+u([dD][89ABab][0-9A-Fa-f]{2})\\+u([dD][C-Fc-f][0-9A-Fa-f]{2})`)
)

// decode reads an escaped character at the beginning of a text. The length is 0 when there is none.
func decode(text string) (rune, int) {
	switch text[0] {
	case '\\':
		return unescape(text)
	case '%':
		return octets(text, urlOctet)
	case '&':
		if end := strings.IndexByte(text[:min(len(text), len("&#x10ffff;"))], ';'); end > 0 {
			if char, size := utf8.DecodeRuneInString(html.UnescapeString(text[:end+1])); char != '&' || text[:end+1] == "&amp;" {
				return char, max(end+1, size)
			}
		}
	}
	return 0, 0
}

// unescape reads a character after backslashes.
func unescape(text string) (rune, int) {
	rest := strings.TrimLeft(text, `\`)
	slashes := len(text) - len(rest)
	if strings.HasPrefix(rest, "x") {
		return octets(text, escapedOctet)
	}
	if char, _, tail, err := strconv.UnquoteChar(`\`+rest, 0); err == nil {
		return char, len(text) - len(tail)
	}
	if pair := surrogates.FindStringSubmatch(text); pair != nil {
		return utf16.DecodeRune(rune(hexadecimal(pair[1])), rune(hexadecimal(pair[2]))), len(pair[0])
	}
	char, size := utf8.DecodeRuneInString(rest)
	if size == 0 || isWord(char) {
		return '\\', 1
	}
	return char, slashes + size
}

// octets reads the bytes of a character, each encoded in the same form.
func octets(text string, form *regexp.Regexp) (rune, int) {
	var bytes []byte
	for at := 0; len(bytes) < utf8.UTFMax; {
		found := form.FindStringSubmatch(text[at:])
		if found == nil {
			break
		}
		bytes, at = append(bytes, byte(hexadecimal(found[1]))), at+len(found[0])
		if utf8.FullRune(bytes) {
			char, _ := utf8.DecodeRune(bytes)
			return char, at
		}
	}
	return 0, 0
}

// hexadecimal is the number of a few digits.
func hexadecimal(digits string) uint16 {
	code, _ := strconv.ParseUint(digits, 16, 16) // a pattern found them
	return uint16(code)                          //nolint:gosec // at most 16 bits
}
