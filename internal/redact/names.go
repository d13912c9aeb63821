package redact

import (
	"context"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"service-adapter/internal/value"
)

// Patterns of keys. certaintyOf uses the first one that matches. secretWords decides which inputs the manifest
// generator treats as secrets. It must never change, because otherwise deployed instances would have pending changes.
// maskedWords is used for masking only and may be extended.
var (
	idWords    = regexp.MustCompile(`(?i)(^|[_-])(id|ids|guid|uuid|arn)$`) // ids may look like generated secrets
	plainWords = regexp.MustCompile(`(?i)^(skip|use|enable|require|allow|has|is)_|` +
		`(^|[_-])(name|names|user|username|email|host|hosts|hostname|port|path|paths|file|files|url|urls|uri|` +
		`endpoint|version|type|length|count|size|ttl|policy|region|bucket|enabled|required)$`)
	// Some alternatives name backend settings: conn_str (pg), http_auth and access_token (consul), sas_token (azurerm),
	// credentials (gcs).
	secretWords = regexp.MustCompile(`(?i)passw|pwd|passphrase|secret|token|credential|conn_?str|` +
		`connection_?string|http_?auth|sas_|` +
		`(access|account|api|auth|client|customer|encryption|license|master|private|shared|signing|storage)[_-]?key`)
	maskedWords = regexp.MustCompile(secretWords.String() + `|pass$|passcode|auth$|(^|[_-])psk|psk$|pw$|` +
		`bearer|cookie|keyfile|dsn$|community|` +
		`(tls|ssl|ssh|ca|cert|server|cluster)[_-]?key`)
)

// A certainty states how certain the keys around a value make it that the value is a secret. Its four levels are, in
// ascending order: unknown, the zero value, for a value that is a secret only if it looks generated; plain, for an id,
// which is not a secret even if it looks generated; named, for a value whose key or surrounding document denotes a
// secret; and declared, for a value that a definition or the broker declares secret. Values of named and above are
// secrets whatever they look like.
type certainty int

const (
	unknown  certainty = iota // the keys do not decide: the value is a secret if it looks generated
	plain                     // the value is an id and not a secret, even if it looks generated
	named                     // its key, or the key of a document that contains it, denotes a secret
	declared                  // a definition or the broker declares it secret
)

// certaintyOf returns the certainty of the value at a key. parent is the certainty of the document that contains the
// key, and words is secretWords or maskedWords, the pattern that keys of secrets match. parent alone decides if it is
// declared or if the key is "". Otherwise a key of an id, such as "vpc_id", makes the value plain, and a key of another
// harmless value, such as "username" or "port", makes it unknown, even in a document that is named. A key that matches
// words, such as "admin_password", makes it named. Any other key leaves the certainty of parent, except that plain
// becomes unknown.
func certaintyOf(key string, parent certainty, words *regexp.Regexp) certainty {
	switch {
	case parent == declared || key == "":
		return parent
	case idWords.MatchString(key):
		return plain
	case plainWords.MatchString(key):
		return unknown
	case words.MatchString(key):
		return named
	case parent == plain:
		return unknown
	default:
		return parent
	}
}

// walk returns a copy of a document in which every key, text and number is replaced by the result of visit. Keys are
// visited with the level plain, and the result becomes a text; if two keys of a map become equal, one of the values
// is lost. Booleans, null, blank texts and "((references))" are copied without a visit. level is the certainty of
// item as a whole, and words, secretWords or maskedWords, decides about the keys in it. visit receives the value and
// its certainty. walk does not change item.
//
// A text that is itself a JSON object or array is decoded, walked and encoded again. Its content is walked at the
// level of the text or, if that is declared, at the level named, so that its keys decide about their values. If the
// level of the text is named or declared, the text is also visited as a whole, and the result of that visit is
// ignored.
func walk(item any, level certainty, words *regexp.Regexp, visit func(leaf any, level certainty) any) any {
	switch v := item.(type) {
	case map[string]any:
		copied := make(map[string]any, len(v))
		for key, element := range v {
			copied[value.Text(visit(key, plain))] = walk(element, certaintyOf(key, level, words), words, visit)
		}
		return copied
	case []any:
		copied := make([]any, len(v))
		for i, element := range v {
			copied[i] = walk(element, level, words, visit)
		}
		return copied
	case nil, bool:
		return v
	case string:
		text := strings.TrimSpace(v)
		if text == "" || strings.HasPrefix(text, "((") && strings.HasSuffix(text, "))") {
			return v
		}
		if document, err := value.DecodeJSON([]byte(text)); (text[0] == '{' || text[0] == '[') && err == nil {
			if level >= named {
				visit(v, level) // the encoded document is a secret as a whole, besides its parts
			}
			// A credential in several parts also has parts that are not secrets, such as its user and its host.
			return string(value.MustJSON(walk(document, min(level, named), words, visit)))
		}
	}
	return visit(item, level)
}

// Named reports whether the key of a value, or a key within the value, denotes a secret. Keys of ids and of harmless
// values, such as "token_id" or "secret_name", do not denote one, and neither does the key "". Named does not examine
// whether the value looks generated. It uses the list of words that decides which inputs of manifests are secrets,
// which never changes and is shorter than the list for masking.
//
// Named returns false, whatever the key, for blank texts, "((references))", booleans and null. It also returns false
// for a list or map that contains only such values, or values whose own keys denote an id or a harmless value, such
// as {"user": "admin"} at the key "credentials". It returns true, however, for the JSON text of such a list or map at
// a key that denotes a secret.
func Named(key string, item any) bool {
	secret := false
	walk(item, certaintyOf(key, unknown, secretWords), secretWords, func(_ any, level certainty) any {
		secret = secret || level >= named
		return nil
	})
	return secret
}

// Document returns a masked copy of a decoded JSON or YAML document. The text Mask replaces every text and number whose
// key denotes a secret. It also replaces those in a list or map whose key denotes a secret, except at keys in it that
// denote an id or a harmless value such as a user or a host. All other texts and numbers and all keys are masked as by
// the method Mask; they keep their type if they contain no secret. If two keys of a map become equal, one of the values
// is lost. A text that is itself a JSON object or array is masked as a document and encoded again. Booleans, null,
// empty texts and references stay, so that programs can still read the document.
//
// If secret is true, every text and number of the document is a secret, except empty texts and references. Another
// exception are values within a text that is itself JSON: if their key denotes an id or a harmless value, they are
// masked as by the method Mask.
//
// If the context ends first, Document returns nil and an error that wraps the context's. The receiver may be nil.
func (s *Secrets) Document(ctx context.Context, item any, secret bool) (any, error) {
	level := unknown
	if secret {
		level = declared
	}
	masked := walk(item, level, maskedWords, func(leaf any, level certainty) any {
		text := value.Text(leaf)
		clean, _ := s.Mask(ctx, text) // the error is that of the context, which is checked below
		switch {
		case level >= named:
			return Mask
		case clean == text:
			return leaf
		default:
			return clean
		}
	})
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("masking secrets: %w", err)
	}
	return masked, nil
}

// address matches a URL with a password, even if the password contains characters that a valid URL would escape.
var address = regexp.MustCompile(`://[^:/?#]*:(.+)@`)

// secretsIn returns the secrets in a value, unmasked and without surrounding white space: the texts and numbers at a
// level of named or above, passwords in URLs, also decoded, values that a text itself labels as secret, except the user
// in a URL without a password, and words at the level unknown that look generated. It examines keys in the same way as
// texts at the level plain. level is the certainty of the whole value; see certaintyOf for the values in it. A text
// that is itself JSON counts as a document, and at a level of named or above also as a secret as a whole.
//
// The result may contain duplicates and empty texts. It is nil if the value contains no secret.
func secretsIn(item any, level certainty) []string {
	var all []string
	walk(item, level, maskedWords, func(leaf any, level certainty) any {
		text := strings.TrimSpace(value.Text(leaf))
		if level >= named {
			all = append(all, text)
		}
		for _, match := range address.FindAllStringSubmatch(text, -1) {
			decoded, _ := url.PathUnescape(match[1]) // "" if it is not encoded correctly
			all = append(all, match[1], decoded)
		}
		unescape := strings.NewReplacer(`\'`, `'`, `\\`, `\`)
		for _, secret := range labelled(text, nil, func() bool { return false }) {
			if isUser := strings.HasSuffix(text[:secret.from], "/"); !isUser {
				all = append(all, unescape.Replace(strings.Trim(text[secret.from:secret.to], `'"`)))
			}
		}
		if level == unknown {
			all = append(all, generatedIn(text)...)
		}
		return leaf
	})
	return all
}
