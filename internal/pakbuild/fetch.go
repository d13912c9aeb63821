package pakbuild

import (
	"context"
	"crypto"
	"crypto/sha256"
	_ "crypto/sha512" // used by way of crypto.Hash, as the other one
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"service-adapter/brokerpak"
)

// What a download may cost.
const (
	attempts       = 4
	attemptTime    = 20 * time.Minute
	firstPause     = time.Second // doubled with each attempt
	redirects      = 10
	responseHeader = time.Minute
)

// newClient returns the client for downloads.
func newClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true,
			TLSHandshakeTimeout: responseHeader, ResponseHeaderTimeout: responseHeader,
		},
		CheckRedirect: checkRedirect,
	}
}

// checkRedirect refuses to go on without encryption where the pak asked for it.
func checkRedirect(request *http.Request, via []*http.Request) error {
	if len(via) >= redirects {
		return fmt.Errorf("stopped after %d redirects", redirects)
	}
	if via[0].URL.Scheme == "https" && request.URL.Scheme != "https" {
		return findingf("fetch", "the server redirects from https to %s", request.URL.Scheme)
	}
	return nil
}

// pause waits, or ends with the context.
func pause(ctx context.Context, duration time.Duration) error {
	select {
	case <-time.After(duration):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fetch returns the file of a location, with the checksum that the location asks for: a local one, or what was downloaded, each URL once.
// What names it in messages.
func (b *builder) fetch(ctx context.Context, what string, from location) (string, error) {
	if from.url == nil {
		b.say("%s: %s from %s", what, fileSize(from.path), from)
		return from.path, from.verify(from.path)
	}
	sum := sha256.Sum256([]byte(from.url.String()))
	file := filepath.Join(b.CacheDir, hex.EncodeToString(sum[:]))
	if _, err := os.Stat(file); err == nil {
		if err := from.verify(file); err == nil {
			b.say("%s: %s from the cache, downloaded from %s", what, fileSize(file), from)
			return file, nil
		}
	}
	if err := b.download(ctx, what, from, file); err != nil {
		return "", err
	}
	b.say("%s: %s from %s", what, fileSize(file), from)
	return file, nil
}

// download tries several times, and puts the file into its place when it is complete and verified.
func (b *builder) download(ctx context.Context, what string, from location, file string) error {
	wait := firstPause
	for attempt := 1; ; attempt++ {
		temporary, err := b.attempt(ctx, from, file)
		if err == nil || !temporary || attempt == attempts || ctx.Err() != nil {
			return err
		}
		b.say("%s: %s; trying again in %s", what, err, wait)
		if err := b.Pause(ctx, wait); err != nil {
			return err
		}
		wait *= 2
	}
}

// attempt tries once. A failure that is temporary may be none later.
func (b *builder) attempt(ctx context.Context, from location, file string) (temporary bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	target, err := os.CreateTemp(b.CacheDir, ".download-")
	if err != nil {
		return false, fmt.Errorf("fetching %s: %w", from, err)
	}
	defer func() { _ = os.Remove(target.Name()) }() // gone already after the rename
	temporary, err = b.get(ctx, from, target)
	if err = errors.Join(err, target.Close()); err != nil {
		return temporary, fmt.Errorf("fetching %s: %w", from, err)
	}
	if err := from.verify(target.Name()); err != nil {
		return false, err
	}
	return false, os.Rename(target.Name(), file)
}

// get writes the body of the answer.
func (b *builder) get(ctx context.Context, from location, target io.Writer) (temporary bool, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from.url.String(), nil)
	if err != nil {
		return false, bare(err)
	}
	request.Header.Set("Accept-Encoding", "identity") // the file as it is, also where it is a .gz
	response, err := b.Client.Do(request)
	if err != nil {
		return !errors.As(err, new(*finding)), bare(err)
	}
	defer func() { _ = response.Body.Close() }() // read to its end, or given up
	switch code := response.StatusCode; {
	case code >= http.StatusInternalServerError, code == http.StatusTooManyRequests, code == http.StatusRequestTimeout:
		return true, fmt.Errorf("the server answers %s", response.Status)
	case code != http.StatusOK:
		return false, findingf("fetch", "the server answers %s", response.Status)
	}
	count, err := io.Copy(target, io.LimitReader(response.Body, b.MaxBinary+1))
	if err == nil && count > b.MaxBinary {
		return false, findingf("fetch", "larger than %s", size(b.MaxBinary))
	}
	return true, bare(err)
}

// bare takes the URL out of an error of the HTTP library: it may hold credentials, and is in the message already.
func bare(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}

// fileSize is the size of a file for people; the file is opened later, where an error matters.
func fileSize(file string) string {
	info, err := os.Stat(file)
	if err != nil {
		return "?"
	}
	return size(info.Size())
}

// size writes a number of bytes for people.
func size(bytes int64) string {
	const kilo, mega = 1 << 10, 1 << 20
	switch {
	case bytes < kilo:
		return fmt.Sprintf("%d B", bytes)
	case bytes < mega:
		return fmt.Sprintf("%.1f kB", float64(bytes)/kilo)
	default:
		return fmt.Sprintf("%.1f MB", float64(bytes)/mega)
	}
}

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
