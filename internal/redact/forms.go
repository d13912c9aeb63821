package redact

import (
	"encoding/base64"
	"encoding/json"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"service-adapter/internal/value"
)

// Lengths in bytes.
const (
	shortest       = 6       // shorter secrets are not masked, because masking them would make texts unreadable
	shortestLine   = 12      // shorter lines of a secret with several lines are not masked on their own
	shortestBase64 = 8       // a secret is recognised in base64 by at least this many characters
	longestEscaped = 4 << 10 // longer secrets are recognised verbatim, in JSON and in base64 only
	checkEvery     = 4 << 10 // the amount of text that is searched between two checks of the time
)

// A span is a part of a text, from the byte offset from up to, but not including, the byte offset to. The zero value is
// empty.
type span struct{ from, to int }

// A pattern is a text as which a program may write a secret. If base64 is set, text is the part of the secret's base64
// that does not depend on adjacent bytes. The characters around it may encode more of the secret, so the whole base64
// run is masked. Otherwise exactly text is masked. A pattern in an index has at least 6 bytes, the constant shortest.
type pattern struct {
	text   string
	base64 bool
}

// An index contains the patterns to search for. It maps the first 6 bytes of patterns, the constant shortest, to all
// patterns that begin with them, the longest first. A nil index contains no patterns and can be searched.
type index map[string][]pattern

// newIndex returns an index of the secrets, verbatim and as programs escape, quote or encode them; surrounding white
// space of the secrets is dropped. It leaves out secrets of less than 6 bytes, the constant shortest, and those that
// are equal to or contained in one of the words, because these must stay readable. newIndex calls expired before it
// adds a secret. If expired reports true, as it must in every later call as well, the remaining secrets are left out,
// so that the index is incomplete. The index is never nil.
func newIndex(secrets, words []string, expired func() bool) index {
	patterns, seen := index{}, map[string]bool{}
	for _, secret := range secrets {
		isWord := func(word string) bool { return strings.Contains(word, secret) }
		secret = strings.TrimSpace(secret)
		if seen[secret] || len(secret) < shortest || expired() || slices.ContainsFunc(words, isWord) {
			continue
		}
		seen[secret] = true
		for _, form := range append(forms(secret), inBase64(secret)...) {
			patterns[form.text[:shortest]] = append(patterns[form.text[:shortest]], form)
		}
	}
	for _, candidates := range patterns {
		slices.SortFunc(candidates, func(a, b pattern) int { return len(b.text) - len(a.text) })
	}
	return patterns
}

// find returns the spans of a text that match a pattern; for a pattern in base64 that is the whole run of base64
// characters around the match. Of several patterns that match at the same byte, it uses the longest. The spans are
// sorted by their first byte, except that one in base64 can begin earlier, and they may overlap. The result is nil
// without a match. find calls expired every 4 KiB, and returns the spans found so far as soon as it reports true. x may
// be nil.
func (x index) find(text string, expired func() bool) (spans []span) {
	for at := 0; at+shortest <= len(text) && len(x) > 0; at++ {
		if at%checkEvery == 0 && expired() {
			break
		}
		candidates := x[text[at:at+shortest]]
		match := slices.IndexFunc(candidates, func(p pattern) bool { return strings.HasPrefix(text[at:], p.text) })
		if match < 0 {
			continue
		}
		masked := span{at, at + len(candidates[match].text)}
		if candidates[match].base64 {
			notBase64 := func(char rune) bool { return !isBase64(char) }
			after := strings.TrimLeftFunc(text[at:], isBase64)
			masked = span{strings.LastIndexFunc(text[:at], notBase64) + 1, len(text) - len(after)}
			at = masked.to - 1
		}
		spans = append(spans, masked)
	}
	return spans
}

// isBase64 reports whether a character occurs in standard or URL-safe base64, including the padding "=".
func isBase64(char rune) bool {
	return char < utf8.RuneSelf &&
		(unicode.IsLetter(char) || unicode.IsDigit(char) || strings.ContainsRune("+/-_=", char))
}

// bashSigns matches the characters that bash's printf %q escapes with a backslash: # and ~ at the start of a text, the
// others anywhere.
var bashSigns = regexp.MustCompile("^[#~]|[!\"$&'()*,;<>?\\[\\\\\\]^`{|} ]")

// forms returns the patterns in which programs write a secret, except in base64: verbatim, escaped for URLs, HTML, SQL,
// shells and HCL, with white space reduced to single blanks, and each of these quoted up to three times as in JSON or
// Go. A secret of more than 4 KiB, the constant longestEscaped, has only the verbatim and the quoted forms. For a
// secret of several lines forms also returns the forms of each line of at least 12 bytes, the constant shortestLine,
// except for lines that begin with "-----". Forms shorter than 6 bytes, the constant shortest, are left out, so the
// result is nil for a shorter secret without such forms. The order is not specified, and forms may occur twice.
func forms(secret string) (all []pattern) {
	texts := []string{secret}
	if len(secret) <= longestEscaped {
		query, inHTML := url.QueryEscape(secret), html.EscapeString(secret)
		texts = append(texts, query, url.QueryEscape(query), url.PathEscape(secret),
			inHTML, strings.NewReplacer("\t", "&#x9;", "\n", "&#xA;", "\r", "&#xD;").Replace(inHTML),
			strings.ReplaceAll(secret, "'", "''"), strings.ReplaceAll(secret, "'", `'\''`),
			strings.ReplaceAll(secret, "'", `'"'"'`),
			strings.NewReplacer(":~", `:\~`, "=~", `=\~`).Replace(bashSigns.ReplaceAllString(secret, `\$0`)),
			strings.Join(strings.Fields(secret), " "),
			strings.NewReplacer("${", "$${", "%{", "%%{").Replace(secret))
	}
	for range 3 {
		for _, text := range texts {
			texts = append(texts, quoted(text)...)
		}
		slices.Sort(texts)
		texts = slices.Compact(texts)
	}
	for _, text := range texts {
		if len(text) >= shortest {
			all = append(all, pattern{text: text})
		}
	}
	for line := range strings.Lines(secret) {
		line = strings.TrimSpace(line)
		if len(line) < len(secret) && len(line) >= shortestLine && !strings.HasPrefix(line, "-----") {
			all = append(all, forms(line)...)
		}
	}
	return all
}

// quoted returns the ways in which JSON, with and without HTML escapes, and Go, with and without non-ASCII characters,
// quote a text, without the surrounding quotation marks. The result may contain duplicates and the text itself.
func quoted(text string) []string {
	withHTML, _ := json.Marshal(text) // encoding a string cannot fail
	all := []string{
		string(withHTML), string(value.MustJSON(text)), strconv.Quote(text), strconv.QuoteToASCII(text),
	}
	for i, form := range all {
		all[i] = form[1 : len(form)-1]
	}
	return all
}

// inBase64 returns the patterns of a secret in base64, in the standard and the URL-safe alphabet. Base64 encodes groups
// of three bytes, so a secret has three encodings, depending on its offset in the encoded text. The characters that
// also depend on the bytes before or after the secret are left out, and so are encodings of which less than 8
// characters, the constant shortestBase64, remain. Patterns may occur twice; the result is nil if none remains. secret
// must have at least 2 bytes, because inBase64 panics otherwise.
func inBase64(secret string) (all []pattern) {
	for before := range 3 {
		for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
			encoded := encoding.EncodeToString([]byte(strings.Repeat(" ", before) + secret))
			encoded = encoded[min(before, 1)*4 : (before+len(secret))/3*4] //nolint:mnd // 3 bytes become 4 characters
			if len(encoded) >= shortestBase64 {
				all = append(all, pattern{encoded, true})
			}
		}
	}
	return all
}
