package redact_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"html"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

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
				secret, quoted, string(inJSON), fmt.Sprintf("%q", quoted), fmt.Sprintf("%q",
					inJSON), url.QueryEscape(secret), url.PathEscape(secret),
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

	It("are masked in every notation that programs use", func() {
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
			if len(strings.Join(strings.Fields(secret), " ")) < 6 || strings.Trim(secret,
				"'\"\\") == "" || strings.Contains("before after", secret) {
				continue
			}
			var secrets redact.Secrets
			secrets.Add(secret)
			for how, shown := range ways(secret) {
				cleaned := secrets.Clean("(before) " + shown + " (after)")
				// Quotes and the characters that escape them may stay.
				plain := strings.NewReplacer(`"`, "", "'", "", `\`, "", "$", "", "%", "",
					" ", "", "\n", "", "|", "", ">", "").Replace(cleaned)
				Expect(plain).To(Equal("(before)[redacted](after)"), "%s of %q: %s", how, secret, shown)
			}
		}
	})

	It("are masked in the notations of bash", func() {
		const signs = `!"#$%&'()*+,-./:;<=>?@[\]^_{|}~ abAB01`
		source := rand.New(rand.NewPCG(uint64(GinkgoRandomSeed()), 5))
		passwords := []string{"#~:~=~first", "~#a:~b=~"}
		for range 500 {
			password := ""
			for range 8 + source.IntN(30) {
				password += string(signs[source.IntN(len(signs))])
			}
			passwords = append(passwords, "x"+strings.TrimSpace(password)+"y")
		}
		for _, script := range []string{
			`printf '%q\n' "$@"`, `for one in "$@"; do (PS4=; set -x; : "$one") 2>&1; done`,
		} {
			text, err := exec.Command("bash", append([]string{"-c", script, "bash"}, passwords...)...).Output()
			Expect(err).NotTo(HaveOccurred())
			lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
			Expect(lines).To(HaveLen(len(passwords)))
			for i, password := range passwords {
				var secrets redact.Secrets
				secrets.Add(password)
				Expect(secrets.Clean(lines[i])).To(MatchRegexp(`^(: )?'?\[redacted\]'?$`), "%q: %s", password, lines[i])
			}
		}
	})

	It("are masked in long texts, which do not change otherwise", func() {
		text := strings.Repeat("- ", 220_000)
		var secrets redact.Secrets
		secrets.Add("(part of a long text)")
		Expect(secrets.Clean(text+"(part of a long text)") == text+redact.Mask).To(BeTrue())
	})

	It("with repetitions are masked in a text with the same repetitions, without running out of time", func() {
		for _, row := range []string{"'", `\`, "+ ", "%25", "&amp;", `\'&`, `"\u0026`, "$%"} {
			var secrets redact.Secrets
			secret := "a" + strings.Repeat(row, 5000) + "b"
			secrets.Add(secret)
			cleaned := secrets.Clean("a" + strings.Repeat(row, 20000) + secret)
			Expect(strings.Contains(cleaned, secret)).To(BeFalse(), row)
		}
	})

	It("are masked in a JSON document without making it invalid", func() {
		for _, secret := range []string{
			`"secret"`, `\secret\`, `secret\"`, `'se"c"ret'`, `&secret&`, `$secret%`,
			"secret\n\tsecret",
		} {
			var secrets redact.Secrets
			secrets.Add(secret)
			text, err := json.Marshal([]string{secret, "x" + secret + "x", `"`, `\`})
			Expect(err).NotTo(HaveOccurred())
			Expect(secrets.Clean(string(text))).To(MatchJSON(`["[redacted]", "x[redacted]x", "\"", "\\"]`), "%s", text)
		}
	})

	It("are masked in base64 that also encodes other text", func() {
		var secrets redact.Secrets
		secrets.Add("se?ret~~>word")
		for _, before := range []string{"", "u", "us", "user:"} {
			for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding} {
				shown := encoding.EncodeToString([]byte(before + "se?ret~~>word" + before))
				Expect(secrets.Clean("data: " + shown + ", next")).To(Equal("data: [redacted], next"))
			}
		}
	})

	It("are masked by their lines and fields if they have several", func() {
		var secrets redact.Secrets
		secrets.Add("-----BEGIN KEY-----\nMIIEvQIBADANBgkq\nshort\n",
			`{"user": "admin", "password": ["s3cret-password"], "n": 1}`)
		Expect(secrets.Clean("line MIIEvQIBADANBgkq")).To(Equal("line [redacted]"))
		Expect(secrets.Clean("a short s3cret-password")).To(Equal("a short [redacted]"))
		Expect(secrets.Clean("admin")).To(Equal("admin"), "too short")
	})

	It("are masked as a whole if one contains another", func() {
		var secrets redact.Secrets
		secrets.Add("s3cret")
		secrets.Add(map[string]any{"list": []any{"the s3cret password", 17, nil}, "other": true})
		Expect(secrets.Clean("x the s3cret password s3cret")).To(Equal("x [redacted] [redacted]"))
	})

	It("are masked as a whole if they overlap", func() {
		var secrets redact.Secrets
		secrets.Add("first-word", "word-and-another")
		Expect(secrets.Clean("a first-word-and-another b")).To(Equal("a [redacted] b"))
	})

	It("are masked in a long text in a time that hardly depends on their number", func() {
		line := `{"host": "db.example.com", "label_17": 'a value', "url": "https://example.com/a?b=c"} ` +
			`s3cr"et 2\\4` + "\n"
		text := strings.Repeat(line, 2<<20/len(line))
		masking := func(count int) time.Duration {
			var secrets redact.Secrets
			for i := range count {
				secrets.Add(fmt.Sprintf(`s3cr"et %d\\%d`, i, i*i))
			}
			before := processorTime()
			masked, err := secrets.Mask(context.Background(), text)
			Expect(err).NotTo(HaveOccurred())
			Expect(masked == strings.ReplaceAll(text, `s3cr"et 2\\4`, redact.Mask)).To(BeTrue())
			return processorTime() - before
		}
		Expect(masking(300)).To(BeNumerically("<", 20*masking(3)),
			"a search for each secret would take a hundred times as long")
	})

	It("are never shown if masking takes too long", func() {
		var secrets redact.Secrets
		secrets.Add("planted-s3cret")
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		Expect(secrets.Mask(ctx, "a planted-s3cret")).Error().To(MatchError(context.Canceled))
		Expect(secrets.Document(ctx, map[string]any{"a": "planted-s3cret"}, false)).Error().To(
			MatchError(context.Canceled))
		row := strings.Repeat("a", 1<<20)
		secrets.Add(row + "b")
		Expect(secrets.Clean(strings.Repeat(row, 20))).To(Equal(redact.Withheld), "each byte may begin the secret")
	})

	It("are not masked if they are too short", func() {
		var secrets redact.Secrets
		secrets.Add("", "a", "12345", "     \n\n\n\n\n")
		Expect(secrets.Clean("a 12345")).To(Equal("a 12345"))
	})

	It("are not masked if they are a part of a word that is never masked", func() {
		var secrets redact.Secrets
		secrets.Add("postgres", "s3cret")
		secrets.NeverMask("postgresql")
		Expect(secrets.Clean("postgresql postgres s3cret")).To(Equal("postgresql postgres [redacted]"))
	})

	It("of a parent set are masked as well, even if they are added later", func() {
		var above redact.Secrets
		below := redact.NewChild(&above)
		below.Add("of-below")
		Expect(below.Clean("of-below, of-above")).To(Equal("[redacted], of-above"))
		above.Add("of-above")
		Expect(below.Clean("of-below, of-above")).To(Equal("[redacted], [redacted]"))
		Expect(above.Clean("of-below, of-above")).To(Equal("of-below, [redacted]"))
	})
})

// processorTime returns the processor time that this process has used. It does not depend on the load of the machine.
func processorTime() time.Duration {
	GinkgoHelper()
	var usage syscall.Rusage
	Expect(syscall.Getrusage(syscall.RUSAGE_SELF, &usage)).To(Succeed())
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// ways returns the notations in which programs write a text, by name.
func ways(text string) map[string]string {
	GinkgoHelper()
	encode := func(html bool) string {
		var out strings.Builder
		encoder := json.NewEncoder(&out)
		encoder.SetEscapeHTML(html)
		Expect(encoder.Encode(text)).To(Succeed())
		return strings.TrimSpace(out.String())
	}
	var xmlText strings.Builder
	Expect(xml.EscapeText(&xmlText, []byte(text))).To(Succeed())
	return map[string]string{
		"text": text, "Go": fmt.Sprintf("%q", text), "Go in ASCII": fmt.Sprintf("%+q", text),
		"Go twice": fmt.Sprintf("%q", fmt.Sprintf("%q", text)),
		"JSON":     encode(true), "JSON without HTML": encode(false), "JSON in Go": fmt.Sprintf("%q", encode(true)),
		"JSON in Go twice": fmt.Sprintf("%q", fmt.Sprintf("%q", encode(true))),
		"HCL":              strings.NewReplacer("${", "$${", "%{", "%%{").Replace(encode(false)),
		"a query":          url.QueryEscape(text), "a path": url.PathEscape(text),
		"a query twice": url.QueryEscape(url.QueryEscape(text)),
		"HTML":          html.EscapeString(text), "XML": xmlText.String(),
		"SQL":     "'" + strings.ReplaceAll(text, "'", "''") + "'",
		"a shell": "'" + strings.ReplaceAll(text, "'", `'\''`) + "'", "dash -x": "'" + strings.ReplaceAll(text, "'",
			`'"'"'`) + "'",
		"folded": strings.Join(strings.Fields(text), " "),
	}
}

// maskedKeys are keys of secrets. All of them are masked; the last ones also decide which inputs are secrets of
// manifests.
var maskedKeys = []string{
	"requirepass", "masterauth", "admin_pass", "rabbitmq_default_pass", "pass", "auth", "psk",
	"ipsec_psk", "passcode", "rootpw", "db_pw", "tls_key",
	"ssh_key", "sshKey", "bearer", "cookie", "erlang_cookie", "keyfile", "dsn", "community", "snmp_community",
}

var _ = Describe("the keys of secrets", func() {
	It("have their values masked in documents, in texts and in values", func() {
		for _, key := range append([]string{"password", "secret_key", "api_token"}, maskedKeys...) {
			var secrets redact.Secrets
			document, err := secrets.Document(context.Background(), map[string]any{
				"a": []any{map[string]any{key: "planted"}, map[string]any{key: map[string]any{"x": []any{
					int64(123456),
					"planted",
				}}}},
				"b": `{"` + key + `":"planted"}`,
			}, false)
			Expect(err).NotTo(HaveOccurred())
			Expect(fmt.Sprint(document)).To(Equal(
				"map[a:[map["+key+":[redacted]] map["+key+":map[x:[[redacted] [redacted]]]]] "+
					"b:{\""+key+"\":\"[redacted]\"}]"), key)
			for _, text := range []string{
				`%s=planted`, `{"%s": "planted"}`, "a: b\n  %s: planted\n",
				`msg="{\"%s\":\"planted\"}"`, `%s = 'planted'`,
			} {
				Expect(secrets.Clean(fmt.Sprintf(text, key))).To(And(Not(ContainSubstring("planted")),
					ContainSubstring(redact.Mask)), text)
			}
			secrets.AddValues(map[string]any{key: "planted"})
			Expect(secrets.Clean("it is planted")).To(Equal("it is [redacted]"), key)
		}
	})

	It("leave booleans, null and references, so that programs can read the document", func() {
		var secrets redact.Secrets
		document := map[string]any{
			"password": nil, "token": true, "auth": "", "secret": "((/odb/password))", "psk_name": "a",
			"auth_type": "ldap", "community_id": "b", "size": int64(3),
			"bypass": false, "version": "1.2.3", "address": "https://db.example.com:5432/a?b=c",
		}
		Expect(secrets.Document(context.Background(), document, false)).To(Equal(document))
	})

	It("do not matter in a document that is secret as a whole", func() {
		var secrets redact.Secrets
		Expect(secrets.Document(context.Background(), map[string]any{"name": "a", "text": `{"b": ["c", true]}`},
			true)).To(Equal(
			map[string]any{"name": "[redacted]", "text": `{"b":["[redacted]",true]}`}))
	})

	It("alone decide which inputs are secrets of manifests, by a list that never changes", func() {
		for _, key := range []string{"password", "dbPassword", "api_key", "conn_str", "credentials"} {
			Expect(redact.Named(key, "x")).To(BeTrue(), key)
			Expect(redact.Named("settings", map[string]any{"a": []any{map[string]any{key: int64(1)}}})).To(
				BeTrue(), key)
			Expect(redact.Named("settings", `{"`+key+`": "x"}`)).To(BeTrue(), key)
			Expect(redact.Named(key, "((reference))")).To(BeFalse(), key)
		}
		for _, key := range append([]string{"license", "address", "password_length", "secret_name", "token_url"},
			maskedKeys...) {
			Expect(redact.Named(key, "7Hq2xP0vLk9dWm4RtZ")).To(BeFalse(), key)
			Expect(redact.Named(key, "db://admin:letmein@db.example.com")).To(BeFalse(), key)
		}
	})
})

var _ = Describe("AddValues", func() {
	// masked returns those of the texts that are masked after AddValues of the values.
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

	It("adds values whose keys denote a secret", func() {
		Expect(masked(map[string]any{
			"secret_key": "a-word", "sse_customer_key": "b-word", "token": "c-word",
			"bucket": "d-plain", "kms_key_id": "e-plain",
			"skip_credentials_validation": "f-plain", "shared_credentials_files": []any{"g-plain"},
			"dbPassword": "h-word",
			"assume_role": map[string]any{
				"role_arn": "i-plain", "external_secret": "j-word",
				"credentials": map[string]any{"user": "k-plain", "pin": int64(123456)},
			},
			"password": "((/odb/reference))", "document": `{"api_key": "l-word", "name": "m-plain"}`,
		}, "a-word", "b-word", "c-word", "d-plain", "e-plain", "f-plain",
			"g-plain", "h-word", "i-plain", "j-word", "k-plain", "123456",
			"((/odb/reference))", "l-word", "m-plain",
		)).To(Equal([]string{"a-word", "b-word", "c-word", "h-word", "j-word", "123456", "l-word"}))
	})

	DescribeTable("adds the password in a connection string",
		func(text, password string) {
			Expect(masked(map[string]any{"address": text}, text, password, "db.example.com",
				"admin-user")).To(Equal([]string{text, password}))
		},
		Entry(nil, "postgres://admin-user:pass%20word@db.example.com/db", "pass word"),
		Entry(nil, "postgres://admin-user:pass%20word@db.example.com/db", "pass%20word"),
		Entry(nil, `host=db.example.com password='it\'s so' user=admin-user`, "it's so"),
		Entry(nil, "jdbc:postgresql://db.example.com/db?user=admin-user&password=a-word", "a-word"),
		Entry(nil, "https://db.example.com/hooks?user=admin-user&token=a-word", "a-word"),
		Entry(nil, "https://db.example.com/hooks/T00/8gW2kLmQ0zXp4RtYv7Nc1Bds", "8gW2kLmQ0zXp4RtYv7Nc1Bds"),
	)

	It("adds no ids, even if they look generated", func() {
		const generated = "0oA1b2C3d4E5f6G7h8I9"
		for _, name := range []string{"client_id", "subnet_ids", "role_arn", "id"} {
			Expect(masked(map[string]any{name: generated}, generated)).To(BeEmpty(), name)
		}
		for _, name := range []string{"name", "host", "idea", "value"} {
			Expect(masked(map[string]any{name: generated}, generated)).NotTo(BeEmpty(), name)
		}
	})

	It("adds values that look generated", func() {
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
			Expect(found).To(BeNumerically(">=", tries*alphabet.percent/100),
				"%d of %s", alphabet.length, alphabet.chars)
		}
	})
})

// corpus returns the lines of a file in testdata that are not comments.
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

var _ = Describe("real log lines", func() {
	It("stay readable, whichever of their words were sent as parameters", func() {
		// Words between spaces, and quoted texts.
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

	It("are masked only where they contain secrets", func() {
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
			case "written": // the text itself labels it as secret
			default:
				secrets.AddValues(map[string]any{known: secret})
			}
			shown := mark.ReplaceAllString(line, "$1")
			Expect(secrets.Clean(shown)).To(Equal(mark.ReplaceAllString(line, redact.Mask)), known)
			var log bytes.Buffer
			slog.New(slog.NewTextHandler(&log, nil)).Error("failed", "error", shown)
			Expect(secrets.Clean(log.String())).NotTo(ContainSubstring(strings.TrimSpace(strings.Trim(secret, `'" `))),
				"in a log line")
		}
	})
})
