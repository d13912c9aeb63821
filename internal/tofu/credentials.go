package tofu

import (
	"net/url"
	"regexp"
	"strings"
	"sync"
)

var (
	// secretSetting is how settings of the backends are named that hold credentials: password and secret_key, but also conn_str of
	// pg, http_auth and access_token of consul, sas_token and access_key of azurerm, credentials of gcs.
	secretSetting = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(
			`(?i)passw|passphrase|secret|token|conn_str|connection_string|access_key|accesskey|encryption_key|customer_key|private_key|client_key|credential|http_auth|sas_`)
	})
	// plainSetting is how settings are named that match by chance: paths, addresses and switches.
	plainSetting = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)^skip_|^use_|_(file|files|path|paths|url|urls|uri|id)$`)
	})
	// addressPassword is the password in a URL, which need not be a valid one.
	addressPassword = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`://[^:/?#]*:(.+)@`) })
	// keywordPassword is a password in PostgreSQL's other form of a connection string: host=… password='…'.
	keywordPassword = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)\bpassword\s*=\s*('(?:[^'\\]|\\.)*'|\S+)`) })
)

// Secrets are the texts in the configuration that are credentials, and the passwords within connection strings and URLs. The local
// backend has none: it is a directory.
func (b Backend) Secrets() []string {
	if b.Type == localType {
		return nil
	}
	return credentials(nil, b.Config, false)
}

// credentials collects the credentials of a value; in a secret setting that is every text.
func credentials(found []string, v any, secret bool) []string {
	switch v := v.(type) {
	case string:
		if secret {
			found = append(found, v)
		}
		return append(found, passwords(v)...)
	case []any:
		for _, element := range v {
			found = credentials(found, element, secret)
		}
	case map[string]any:
		for name, element := range v {
			found = credentials(found, element, secret || secretSetting().MatchString(name) && !plainSetting().MatchString(name))
		}
	}
	return found
}

// passwords are the passwords in a URL or in a connection string of keywords.
func passwords(text string) []string {
	var found []string
	for _, match := range keywordPassword().FindAllStringSubmatch(text, -1) {
		found = append(found, strings.NewReplacer(`\'`, `'`, `\\`, `\`).Replace(strings.Trim(match[1], "'")))
	}
	for _, match := range addressPassword().FindAllStringSubmatch(text, -1) {
		found = append(found, match[1])
		if plain, err := url.PathUnescape(match[1]); err == nil && plain != match[1] {
			found = append(found, plain)
		}
	}
	if address, err := url.Parse(text); err == nil {
		found = append(found, address.Query()["password"]...)
	}
	return found
}
