package pakbuild

import (
	"crypto"
	_ "crypto/sha256" // used by way of crypto.Hash
	_ "crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"service-adapter/brokerpak"
)

// The published places of binaries without a url_template.
const (
	tofuURL     = "https://github.com/opentofu/opentofu/releases/download/v${version}/tofu_${version}_${os}_${arch}.zip"
	providerURL = "https://releases.hashicorp.com/${name}/${version}/${name}_${version}_${os}_${arch}.zip"
)

const (
	// placeholder is a parameter of a url_template.
	placeholder = `\$\{[^}]*\}`
	// forced is how go-getter, which other brokers use, is told which protocol to speak.
	forced = `^[a-z0-9]+::`
)

// checksums are the kinds of checksums.
var checksums = map[string]crypto.Hash{"sha256": crypto.SHA256, "sha512": crypto.SHA512} //nolint:gochecknoglobals // a constant table

// location is where something is fetched from: a URL or a local file, and what is known of it.
type location struct {
	url      *url.URL // http or https; nil: a local file
	path     string   // the local file
	name     string   // the file's name
	checksum string   // sha256:… or sha512:…, "" when none was given
	plain    bool     // archive=false: not to be unpacked even if it is an archive
}

// String is the location for messages: without credentials and query, which may be secret.
func (l location) String() string {
	if l.url == nil {
		return l.path
	}
	shown := url.URL{Scheme: l.url.Scheme, Host: l.url.Host, Path: l.url.Path}
	return shown.String()
}

// expand fills in the parameters of a url_template.
func expand(template string, binary brokerpak.Binary, platform brokerpak.Platform) (string, error) {
	known := strings.NewReplacer("${name}", binary.Name, "${version}", binary.FileVersion(), "${os}", platform.OS, "${arch}", platform.Arch)
	text := known.Replace(template)
	if unknown := regexp.MustCompile(placeholder).FindString(text); unknown != "" {
		return "", findingf("url-template", "unknown parameter %s in %q; known: ${name}, ${version}, ${os}, ${arch}", unknown, template)
	}
	return text, nil
}

// locate reads a URL or a path. A relative path is looked up in each of the directories.
func locate(text string, dirs ...string) (location, error) {
	if protocol := regexp.MustCompile(forced).FindString(text); protocol != "" {
		return location{}, findingf("url-template", "%s is not supported; use an http or https URL or a local file", protocol)
	}
	scheme, rest, isURL := strings.Cut(text, "://")
	switch {
	case !isURL:
		return locateFile(text, dirs)
	case scheme == "file":
		return locateFile(rest, dirs)
	case scheme != "http" && scheme != "https":
		return location{}, findingf("url-template", "%s:// is not supported; use an http or https URL or a local file", scheme)
	}
	parsed, err := url.Parse(text)
	if err != nil {
		return location{}, findingf("url-template", "not a URL: %w", errors.Unwrap(err)) // without the text: it may hold credentials
	}
	found := location{url: parsed, name: path.Base(parsed.Path)}
	parsed.RawQuery, err = found.parameters(parsed.RawQuery)
	return found, err
}

func locateFile(text string, dirs []string) (location, error) {
	name, query, _ := strings.Cut(text, "?")
	found := location{name: filepath.Base(name)}
	if _, err := found.parameters(query); err != nil {
		return location{}, err
	}
	candidates := []string{name}
	if !filepath.IsAbs(name) {
		candidates = nil
		for _, dir := range dirs {
			candidates = append(candidates, filepath.Join(dir, name))
		}
	}
	for _, candidate := range candidates {
		info, err := os.Stat(candidate)
		switch {
		case err == nil && info.Mode().IsRegular():
			found.path = candidate
			return found, nil
		case err == nil:
			return location{}, findingf("url-template", "%s is not a plain file", candidate)
		case !errors.Is(err, os.ErrNotExist):
			return location{}, fmt.Errorf("looking for a local file: %w", err)
		}
	}
	return location{}, findingf("url-template", "there is no file %s", strings.Join(candidates, " nor "))
}

// parameters takes the parameters checksum, archive and filename out of a query, as other brokers do, and returns the rest,
// which belongs to the server.
func (l *location) parameters(query string) (string, error) {
	var rest []string
	for _, part := range strings.Split(query, "&") {
		key, value, _ := strings.Cut(part, "=")
		value, err := url.QueryUnescape(value)
		if err != nil {
			return "", findingf("url-template", "the parameter %s of the URL is not well-formed", key)
		}
		switch key {
		case "checksum":
			if l.checksum, err = parseChecksum(value); err != nil {
				return "", err
			}
		case "archive":
			l.plain = value == "false" || value == "0"
		case "filename":
			if value == "" || value == "." || value == ".." || strings.ContainsAny(value, `/\`) {
				return "", findingf("url-template", "the parameter filename of the URL must be a plain file name")
			}
			l.name = value
		default:
			rest = append(rest, part)
		}
	}
	return strings.Join(rest, "&"), nil
}

// parseChecksum returns "sha256:HEX" or "sha512:HEX". The kind may be left out.
func parseChecksum(text string) (string, error) {
	kind, sum, ok := strings.Cut(text, ":")
	if !ok {
		kind, sum = map[int]string{64: "sha256", 128: "sha512"}[len(text)], text
	}
	sum = strings.ToLower(sum)
	raw, err := hex.DecodeString(sum)
	if known := checksums[kind]; known == 0 || err != nil || len(raw) != known.Size() {
		return "", findingf("checksum", "checksum %q must be sha256: or sha512: and as many hexadecimal digits", text)
	}
	return kind + ":" + sum, nil
}

// verify compares a file with the checksum that was given.
func (l location) verify(file string) error {
	if l.checksum == "" {
		return nil
	}
	opened, err := os.Open(file) //nolint:gosec // what was downloaded, or the author names
	if err != nil {
		return err
	}
	defer func() { _ = opened.Close() }() // opened for reading: closing cannot lose anything
	kind, _, _ := strings.Cut(l.checksum, ":")
	digest := checksums[kind].New()
	if _, err := io.Copy(digest, opened); err != nil {
		return fmt.Errorf("reading %s: %w", file, err)
	}
	if found := kind + ":" + hex.EncodeToString(digest.Sum(nil)); found != l.checksum {
		return findingf("checksum", "%s has the checksum %s, not %s", l, found, l.checksum)
	}
	return nil
}
