package redact

import (
	"regexp"
	"strings"
	"sync"
)

// secretKeys are the names before passwords in texts. A lone "secret" is not one of them: it comes before a secret's name as well.
const secretKeys = `(?i)([\w.-]*(?:passw(?:or)?d|passwd|pwd|passphrase|token|api_?key|access_?key|private_?key|[a-z0-9]_secret|client_?secret))`

// secretForms are how programs write secrets that no definition declares. The last group of each is masked.
var secretForms = sync.OnceValue(func() []*regexp.Regexp { //nolint:gochecknoglobals // a constant table, made when a text is masked
	return []*regexp.Regexp{
		// postgres://user:…@host
		regexp.MustCompile(`(://[^\s:/?#@"']*:)([^\s"'/?#]+)@`),
		// password=… in a connection string, a URL or a command line
		regexp.MustCompile(secretKeys + `=('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s"'&;,)\]}\\]+)`),
		// "password": "…" in JSON, YAML or HCL, also within a text that is quoted itself
		regexp.MustCompile(secretKeys + `"?\s*(?:=>|[:=])\s*"((?:[^"\\]|\\.)*)"`),
		regexp.MustCompile(secretKeys + `(?:\\+")?\s*(?:=>|[:=])\s*\\+"(.*?)\\+"`),
		regexp.MustCompile(secretKeys + `'?\s*(?:=>|[:=])\s*'((?:[^'\\]|\\.|'')*)'`),
		// password: … as a line of YAML
		regexp.MustCompile(`(?m)^[ \t]*(?:- )?` + secretKeys + `:[ \t]+(\S+)[ \t]*$`),
		// CREATE ROLE … PASSWORD '…', CREATE USER … IDENTIFIED BY '…'
		regexp.MustCompile(`(?i)(\bPASSWORD|\bIDENTIFIED BY)\s+E?('(?:[^'\\]|''|\\.)*')`),
		regexp.MustCompile(`(?i)(\bAuthorization\\*"?:\s*\\*"?(?:Basic|Bearer|Token))\s+([^\s"'\\]+)`),
		// a token that is readable as one: of OAuth, of GitHub and GitLab
		regexp.MustCompile(`()\b(eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)`),
		regexp.MustCompile(`()\b(gh[pousr]_\w{30,}|github_pat_\w{30,}|glpat-[\w-]{20,})`),
		regexp.MustCompile(`(?s)(-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----)(.*?)(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|$)`),
	}
})

// maskForms masks what is a secret by how it is written.
func maskForms(text string) string {
	for _, form := range secretForms() {
		text = maskForm(form, text)
	}
	return text
}

// maskForm masks the last group of every match.
func maskForm(form *regexp.Regexp, text string) string {
	var out strings.Builder
	end := 0
	for _, match := range form.FindAllStringSubmatchIndex(text, -1) {
		from, to := match[len(match)-2], match[len(match)-1]
		if notSecret.MatchString(strings.Trim(text[from:to], `'"\`)) {
			continue
		}
		out.WriteString(text[end:from] + Mask)
		end = to
	}
	return out.String() + text[end:]
}
