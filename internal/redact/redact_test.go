package redact_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"html"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"gopkg.in/yaml.v3"

	"service-adapter/internal/redact"
)

func TestRedact(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "internal/redact")
}

var _ = Describe("secrets", func() {
	DescribeTable("are masked in every form in which a message may show them",
		func(secret string) {
			var secrets redact.Secrets
			secrets.Add("  " + secret + "\n")
			inJSON, err := json.Marshal(secret)
			Expect(err).NotTo(HaveOccurred())
			quoted := fmt.Sprintf("%q", secret)
			for _, shown := range []string{
				secret, quoted, string(inJSON), fmt.Sprintf("%q", quoted), fmt.Sprintf("%q", inJSON), url.QueryEscape(secret), url.PathEscape(secret),
			} {
				cleaned := secrets.Clean("before " + shown + " after")
				Expect(strings.ReplaceAll(cleaned, `\`, "")).To(MatchRegexp(`^before "*\[redacted\]"* after$`), shown)
			}
		},
		Entry("plain", "s3cret"),
		Entry("quotes and backslashes", `s3"cr\et'`),
		Entry("HTML", "s3cret<&>"),
		Entry("several lines", "s3cret line\n\tsecond s3cret line"),
		Entry("beyond ASCII", "s3cr\u00e9t \u2028 \u0007 %"),
	)

	It("are masked however a program writes them", func() {
		const signs = `!"#$%&'()*+,-./:;<=>?@[\]^_{|}~ `
		alphabets := []string{
			"!@#$%&*()-_=+[]{}<>:?abcxyzABCXYZ0123456789", // those of random_password
			signs + "aZ09", signs, "'\"\\$%{&; ", "ab\n\t 'é€😀ß", "0aA%2&;5+nu",
		}
		source := rand.New(rand.NewPCG(uint64(GinkgoRandomSeed()), 4))
		for range 1000 {
			alphabet := []rune(alphabets[source.IntN(len(alphabets))])
			var text strings.Builder
			for range 6 + source.IntN(30) {
				text.WriteRune(alphabet[source.IntN(len(alphabet))])
			}
			secret := strings.TrimSpace(text.String())
			if len(secret) < 6 || strings.Trim(secret, "'\"\\") == "" || strings.Contains("before after", secret) {
				continue
			}
			var secrets redact.Secrets
			secrets.Add(secret)
			for how, shown := range ways(secret) {
				cleaned := secrets.Clean("(before) " + shown + " (after)")
				// Quotes, and what escapes them, may stay.
				plain := strings.NewReplacer(`"`, "", "'", "", `\`, "", "$", "", "%", "", " ", "", "\n", "", "|", "", ">", "").Replace(cleaned)
				Expect(plain).To(Equal("(before)[redacted](after)"), "%s of %q: %s", how, secret, shown)
			}
		}
	})

	It("are masked in long texts, and nothing else is", func() {
		text := strings.Repeat("- ", 2_200_000)
		var secrets redact.Secrets
		secrets.Add("(part of a long text)")
		Expect(secrets.Clean(text+"(part of a long text)") == text+redact.Mask).To(BeTrue())
	})

	It("that repeat themselves over and over mask all of a text that does, in an endurable time", func() {
		for _, row := range []string{"'", `\`, "+ ", "%25", "&amp;", `\'&`, `"\u0026`, "$%"} {
			var secrets redact.Secrets
			secret := "a" + strings.Repeat(row, 5000) + "b"
			secrets.Add(secret)
			cleaned := secrets.Clean("a" + strings.Repeat(row, 20000) + secret)
			Expect(strings.Contains(cleaned, secret)).To(BeFalse(), row)
		}
		var secrets redact.Secrets
		secrets.Add(strings.Repeat("&amp;", 5000) + "c")
		Expect(secrets.Clean(strings.Repeat("&amp;", 20000))).To(Equal("[redacted]"))
	})

	It("leave the document whole that they are masked in", func() {
		for _, secret := range []string{`"secret"`, `\secret\`, `secret\"`, `'se"c"ret'`, `&secret&`, `$secret%`, "secret\n\tsecret"} {
			var secrets redact.Secrets
			secrets.Add(secret)
			text, err := json.Marshal([]string{secret, "x" + secret + "x", `"`, `\`})
			Expect(err).NotTo(HaveOccurred())
			Expect(secrets.Clean(string(text))).To(MatchJSON(`["[redacted]", "x[redacted]x", "\"", "\\"]`), "%s", text)
		}
	})

	It("are masked in what is encoded in base64 with them", func() {
		var secrets redact.Secrets
		secrets.Add("se?ret~~>word")
		for _, before := range []string{"", "u", "us", "user:"} {
			for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding} {
				shown := encoding.EncodeToString([]byte(before + "se?ret~~>word" + before))
				Expect(secrets.Clean("data: " + shown + ", next")).To(Equal("data: [redacted], next"))
			}
		}
	})

	It("are masked in part where they have several parts", func() {
		var secrets redact.Secrets
		secrets.Add("-----BEGIN KEY-----\nMIIEvQIBADANBgkq\nshort\n", `{"user": "admin", "password": ["s3cret-password"], "n": 1}`)
		Expect(secrets.Clean("line MIIEvQIBADANBgkq")).To(Equal("line [redacted]"))
		Expect(secrets.Clean("a short s3cret-password")).To(Equal("a short [redacted]"))
		Expect(secrets.Clean("admin")).To(Equal("admin"), "too short")
	})

	It("are masked as a whole where one is part of another", func() {
		var secrets redact.Secrets
		secrets.Add("s3cret")
		secrets.Add(map[string]any{"list": []any{"the s3cret password", 17, nil}, "other": true})
		Expect(secrets.Clean("x the s3cret password s3cret")).To(Equal("x [redacted] [redacted]"))
	})

	It("that are too short leave a text readable", func() {
		var secrets redact.Secrets
		secrets.Add("", "a", "12345", "     \n\n\n\n\n")
		Expect(secrets.Clean("a 12345")).To(Equal("a 12345"))
	})

	It("are never words that are to be kept", func() {
		var secrets redact.Secrets
		secrets.Add("postgres", "s3cret")
		secrets.Keep("postgresql")
		Expect(secrets.Clean("postgresql postgres s3cret")).To(Equal("postgresql postgres [redacted]"))
	})

	It("of a set above are masked as well, also when they come later", func() {
		var above redact.Secrets
		below := redact.Under(&above)
		below.Add("of-below")
		Expect(below.Clean("of-below, of-above")).To(Equal("[redacted], of-above"))
		above.Add("of-above")
		Expect(below.Clean("of-below, of-above")).To(Equal("[redacted], [redacted]"))
		Expect(above.Clean("of-below, of-above")).To(Equal("of-below, [redacted]"))
	})
})

// ways are the ways in which programs write a text.
func ways(text string) map[string]string {
	GinkgoHelper()
	encode := func(html bool) string {
		var out strings.Builder
		encoder := json.NewEncoder(&out)
		encoder.SetEscapeHTML(html)
		Expect(encoder.Encode(text)).To(Succeed())
		return strings.TrimSpace(out.String())
	}
	var xmlText, escaped strings.Builder
	Expect(xml.EscapeText(&xmlText, []byte(text))).To(Succeed())
	for _, char := range text {
		if char < 128 && strings.ContainsRune("!\"#$%&'()*+,-./:;<=>?@[\\]^_{|}~ ", char) {
			escaped.WriteRune('\\')
		}
		escaped.WriteRune(char)
	}
	inYAML, err := yaml.Marshal([]string{text})
	Expect(err).NotTo(HaveOccurred())
	return map[string]string{
		"text": text, "Go": fmt.Sprintf("%q", text), "Go in ASCII": fmt.Sprintf("%+q", text), "Go twice": fmt.Sprintf("%q", fmt.Sprintf("%q", text)),
		"JSON": encode(true), "JSON without HTML": encode(false), "JSON in Go": fmt.Sprintf("%q", encode(true)),
		"JSON in Go twice": fmt.Sprintf("%q", fmt.Sprintf("%q", encode(true))), "HCL": strings.NewReplacer("${", "$${", "%{", "%%{").Replace(encode(false)),
		"a query": url.QueryEscape(text), "a path": url.PathEscape(text), "a query twice": url.QueryEscape(url.QueryEscape(text)),
		"HTML": html.EscapeString(text), "XML": xmlText.String(), "YAML": strings.TrimPrefix(strings.TrimPrefix(string(inYAML), "- "), "|-"), "SQL": "'" + strings.ReplaceAll(text, "'", "''") + "'",
		"a shell": "'" + strings.ReplaceAll(text, "'", `'\''`) + "'", "dash -x": "'" + strings.ReplaceAll(text, "'", `'"'"'`) + "'",
		"bash": escaped.String(), "folded": strings.Join(strings.Fields(text), " "),
	}
}

var _ = Describe("of values", func() {
	// masked tells which of the texts are masked where these values are known.
	masked := func(values map[string]any, texts ...string) []string {
		var secrets redact.Secrets
		secrets.AddValues(values)
		var all []string
		for _, text := range texts {
			if secrets.Clean("text "+text+" text") != "text "+text+" text" {
				all = append(all, text)
			}
		}
		return all
	}

	It("those are secrets whose names say so", func() {
		Expect(masked(map[string]any{
			"secret_key": "a-word", "sse_customer_key": "b-word", "token": "c-word", "bucket": "d-plain", "kms_key_id": "e-plain",
			"skip_credentials_validation": "f-plain", "shared_credentials_files": []any{"g-plain"}, "dbPassword": "h-word",
			"assume_role": map[string]any{"role_arn": "i-plain", "external_secret": "j-word", "credentials": map[string]any{"user": "k-plain", "pin": int64(123456)}},
			"password":    "((/odb/reference))", "document": `{"api_key": "l-word", "name": "m-plain"}`,
		}, "a-word", "b-word", "c-word", "d-plain", "e-plain", "f-plain", "g-plain", "h-word", "i-plain", "j-word", "k-plain", "123456",
			"((/odb/reference))", "l-word", "m-plain",
		)).To(Equal([]string{"a-word", "b-word", "c-word", "h-word", "j-word", "123456", "l-word"}))
	})

	DescribeTable("of a connection string the password is one",
		func(text, password string) {
			Expect(masked(map[string]any{"address": text}, text, password, "db.example.com", "admin-user")).To(Equal([]string{text, password}))
		},
		Entry(nil, "postgres://admin-user:pass%20word@db.example.com/db", "pass word"),
		Entry(nil, "postgres://admin-user:pass%20word@db.example.com/db", "pass%20word"),
		Entry(nil, `host=db.example.com password='it\'s so' user=admin-user`, "it's so"),
		Entry(nil, "jdbc:postgresql://db.example.com/db?user=admin-user&password=a-word", "a-word"),
		Entry(nil, "https://db.example.com/hooks?user=admin-user&token=a-word", "a-word"),
		Entry(nil, "https://db.example.com/hooks/T00/8gW2kLmQ0zXp4RtYv7Nc1Bds", "8gW2kLmQ0zXp4RtYv7Nc1Bds"),
	)

	It("an id is none, even if it looks generated", func() {
		const generated = "0oA1b2C3d4E5f6G7h8I9"
		for _, name := range []string{"client_id", "subnet_ids", "role_arn", "id"} {
			Expect(masked(map[string]any{name: generated}, generated)).To(BeEmpty(), name)
		}
		for _, name := range []string{"name", "host", "idea", "value"} {
			Expect(masked(map[string]any{name: generated}, generated)).NotTo(BeEmpty(), name)
		}
	})

	It("those are secrets that look generated", func() {
		letters := "abcdefghijklmnopqrstuvwxyz"
		capitals, digits, signs := strings.ToUpper(letters), "0123456789", "!#$%&*()-_=+[]{}<>:?"
		source := rand.New(rand.NewPCG(1, 2))
		for _, alphabet := range []struct {
			chars           string
			length, percent int
		}{
			{letters + capitals + digits, 16, 93},
			{letters + capitals + digits, 20, 97},
			{letters + capitals + digits, 32, 99},
			{letters + capitals + digits + signs, 16, 91},
			{letters + capitals + digits + signs, 24, 98},
			{digits + "abcdef", 32, 99},
			{digits + "abcdef", 64, 99},
			{letters + digits, 20, 94},
			{letters + digits, 32, 99},
			{capitals + digits, 20, 94},
			{letters + capitals, 32, 80},
			{letters + capitals + digits + "-_", 43, 98},
		} {
			const tries = 500
			found := 0
			for range tries {
				var text strings.Builder
				for range alphabet.length {
					text.WriteByte(alphabet.chars[source.IntN(len(alphabet.chars))])
				}
				found += len(masked(map[string]any{"x": text.String()}, text.String()))
			}
			Expect(found).To(BeNumerically(">=", tries*alphabet.percent/100), "%d of %s", alphabet.length, alphabet.chars)
		}
	})
})

// corpus reads the lines of a file of testdata that are no comments.
func corpus(name string) []string {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	Expect(err).NotTo(HaveOccurred())
	var all []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSuffix(line, "\n"); line != "" && !strings.HasPrefix(line, "# ") {
			all = append(all, line)
		}
	}
	Expect(len(all)).To(BeNumerically(">=", 200))
	return all
}

var _ = Describe("real lines", func() {
	It("stay readable, whichever of their words users and operators have sent", func() {
		// The words between spaces, and what is in quotes.
		word := regexp.MustCompile(`"[^"]*"|'[^']*'|` + "`[^`]*`" + `|\S+`)
		for _, line := range corpus("readable.txt") {
			var secrets redact.Secrets
			for _, sent := range word.FindAllString(line, -1) {
				secrets.AddValues(map[string]any{"value": sent})
				secrets.AddValues(map[string]any{"value": strings.Trim(sent, "\"'`.,;:()[]{}*%")})
			}
			Expect(secrets.Clean(line)).To(Equal(line))
		}
	})

	It("do not show their secrets, and all the rest of them", func() {
		mark := regexp.MustCompile(`«(.*?)»`)
		for _, line := range corpus("secret.txt") {
			known, line, _ := strings.Cut(line, "|")
			var secrets redact.Secrets
			secret := mark.FindStringSubmatch(line)[1]
			switch known {
			case "declared":
				secrets.Add(secret)
			case "generated":
				secrets.AddValues(map[string]any{"value": secret})
			case "written":
			default:
				secrets.AddValues(map[string]any{known: secret})
			}
			shown := mark.ReplaceAllString(line, "$1")
			Expect(secrets.Clean(shown)).To(Equal(mark.ReplaceAllString(line, redact.Mask)), known)
			var log bytes.Buffer
			slog.New(slog.NewTextHandler(&log, nil)).Error("failed", "error", shown)
			Expect(secrets.Clean(log.String())).NotTo(ContainSubstring(strings.TrimSpace(strings.Trim(secret, `'" `))), "in a log line")
		}
	})
})
