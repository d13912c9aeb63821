package build

import (
	"context"
	"crypto"
	"crypto/sha256"
	_ "crypto/sha512" // registers SHA-512 for crypto.Hash
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"service-adapter/brokerpak"
	"service-adapter/internal/author/bill"
	"service-adapter/internal/ctxio"
)

// The limits of a download.
const (
	attempts       = 4
	attemptTime    = 20 * time.Minute
	firstPause     = time.Second // doubled with each attempt
	redirects      = 10
	responseHeader = time.Minute
)

// newClient returns the default client for downloads. It uses the proxy settings of the environment and checkRedirect.
// It limits the time until a response begins, but not that of the whole download.
func newClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true,
			TLSHandshakeTimeout: responseHeader, ResponseHeaderTimeout: responseHeader,
		},
		CheckRedirect: checkRedirect,
	}
}

// checkRedirect returns an error if a server redirects more often than the constant redirects allows, or a *finding if
// it redirects from https to an unencrypted URL.
func checkRedirect(request *http.Request, via []*http.Request) error {
	if len(via) >= redirects {
		return fmt.Errorf("stopped after %d redirects", redirects)
	}
	if via[0].URL.Scheme == "https" && request.URL.Scheme != "https" {
		return findingf("fetch", "the server redirects from https to %s", request.URL.Scheme)
	}
	return nil
}

// pause waits for a duration. If ctx ends first, it returns the error of ctx.
func pause(ctx context.Context, duration time.Duration) error {
	select {
	case <-time.After(duration):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fetch returns the path of the file at a location. A local file is used as it is. A URL is downloaded into the cache
// directory, unless the cache contains a file of this URL with the right checksum. If the location has no checksum, the
// cached file is used without a comparison, however old it is. subject identifies the file in progress messages. A
// cached file with another checksum is downloaded again. fetch writes a progress line. It is a finding if the checksum
// of a local file or a download differs from that of the location. See verify for other errors about a local file, and
// download for those about a URL.
func (b *builder) fetch(ctx context.Context, subject string, from location) (string, error) {
	if from.url == nil {
		b.progressf("%s: %s from %s", subject, fileSize(from.path), from)
		return from.path, from.verify(ctx, from.path)
	}
	sum := sha256.Sum256([]byte(from.url.String()))
	file := filepath.Join(b.CacheDir, hex.EncodeToString(sum[:]))
	if _, err := os.Stat(file); err == nil {
		if err := from.verify(ctx, file); err == nil {
			b.progressf("%s: %s from the cache, downloaded from %s", subject, fileSize(file), from)
			return file, nil
		}
	}
	if err := b.download(ctx, subject, from, file); err != nil {
		return "", err
	}
	b.progressf("%s: %s from %s", subject, fileSize(file), from)
	return file, nil
}

// download downloads a location, which must have a URL, to the path file. The file is created or replaced only when the
// download is complete and has the right checksum. After a temporary failure, download retries a few times, with
// increasing pauses, and then returns the last error. Each retry has a progress line. download returns any other error,
// and the end of ctx, without a retry; see attempt. subject is that of fetch.
func (b *builder) download(ctx context.Context, subject string, from location, file string) error {
	delay := firstPause
	for attempt := 1; ; attempt++ {
		temporary, err := b.attempt(ctx, from, file)
		if err == nil || !temporary || attempt == attempts || ctx.Err() != nil {
			return err
		}
		b.progressf("%s: %s; trying again in %s", subject, err, delay)
		if err := b.Pause(ctx, delay); err != nil {
			return err
		}
		delay *= 2
	}
}

// attempt downloads a location, which must have a URL, to the path file once. It creates or replaces the file only if
// it returns nil. temporary means that another attempt may succeed. A wrong checksum is a finding; see get for other
// findings. Other errors are those of get, the end of ctx or of attemptTime, and that the file cannot be written to the
// cache directory or moved from there.
func (b *builder) attempt(ctx context.Context, from location, file string) (temporary bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	target, err := os.CreateTemp(b.CacheDir, ".download-")
	if err != nil {
		return false, fmt.Errorf("fetching %s: %w", from, err)
	}
	defer func() { _ = os.Remove(target.Name()) }() // it fails after the rename
	temporary, err = b.get(ctx, from, target)
	if err = errors.Join(err, target.Close()); err != nil {
		return temporary, fmt.Errorf("fetching %s: %w", from, err)
	}
	if err := from.verify(ctx, target.Name()); err != nil {
		return false, err
	}
	return false, os.Rename(target.Name(), file)
}

// get requests a location, which must have a URL, and writes the body of the response to target. Its errors do not
// contain the URL. temporary means that another request may succeed; it has no meaning without an error. A response
// that is larger than Options.MaxBinary is a finding, and so is any status other than 200 that is not temporary. The
// statuses 408, 429 and from 500 on are temporary, and so are a failed connection, unless this machine is offline, and
// an incomplete body. After an error, target may contain a part of the body.
func (b *builder) get(ctx context.Context, from location, target io.Writer) (temporary bool, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from.url.String(), nil)
	if err != nil {
		return false, withoutURL(err)
	}
	request.Header.Set("Accept-Encoding", "identity") // so that the client does not decompress a .gz file
	response, err := b.Client.Do(request)
	if err != nil {
		return !errors.As(err, new(*finding)) && !isOffline(err), withoutURL(err)
	}
	defer func() { _ = response.Body.Close() }() // the body was read or is not needed
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
	return true, withoutURL(err)
}

// isOffline reports whether a request failed because this machine has no network, so that another attempt is in vain:
// the name of the server cannot be resolved, or there is no route to it.
func isOffline(err error) bool {
	return errors.As(err, new(*net.DNSError)) || errors.Is(err, syscall.ENETUNREACH) ||
		errors.Is(err, syscall.EHOSTUNREACH)
}

// withoutURL returns the cause of an error of the HTTP client without the URL, which may contain credentials. Messages
// contain the location already. Any other error, and nil, is returned as it is.
func withoutURL(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}

// fileSize returns the size of a file as text, or "?" if it cannot be read. The error will be reported when the file
// is opened.
func fileSize(file string) string {
	info, err := os.Stat(file)
	if err != nil {
		return "?"
	}
	return size(info.Size())
}

// size returns a number of bytes as text with a unit: B below 1 kB, kB below 1 MB, and MB for all others. A unit has
// 1024 of the next smaller one; kB and MB have one decimal place.
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

// The default values of url_template.
const (
	tofuURL     = "https://github.com/opentofu/opentofu/releases/download/v${version}/tofu_${version}_${os}_${arch}.zip"
	providerURL = "https://releases.hashicorp.com/${name}/${version}/${name}_${version}_${os}_${arch}.zip"
)

const (
	// placeholder matches a parameter of a url_template.
	placeholder = `\$\{[^}]*\}`
	// forcedProtocol matches the prefix that selects a protocol in go-getter, the library that other brokers use.
	forcedProtocol = `^[a-z0-9]+::`
)

// checksums are the supported kinds of checksums.
var checksums = map[string]crypto.Hash{ //nolint:gochecknoglobals // a constant table
	"sha256": crypto.SHA256, "sha512": crypto.SHA512,
}

// A location is a URL or a local file from which a binary or its source is fetched.
type location struct {
	url      *url.URL // an http or https URL; nil for a local file
	path     string   // the path of the local file
	name     string   // the name of the file; for a URL, of the downloaded file
	checksum string   // "sha256:HEX" or "sha512:HEX"; "" if any content is accepted
	plain    bool     // whether the file is not unpacked even if it is an archive
	origin   string   // the location without credentials, for the bill of materials and the lock
	locked   string   // what to do if the checksum is that of the lock and differs; "" if it is not that of the lock
}

// String returns the location for messages. It omits the credentials and the query of a URL, which may be secret.
func (l location) String() string {
	if l.url == nil {
		return l.path
	}
	public := url.URL{Scheme: l.url.Scheme, Host: l.url.Host, Path: l.url.Path}
	return public.String()
}

// expand replaces the parameters of a url_template, ${name}, ${version}, ${os} and ${arch}, by the values of an entry
// and a platform. An unknown parameter is a finding.
func expand(template string, binary brokerpak.Binary, platform brokerpak.Platform) (string, error) {
	parameters := strings.NewReplacer(
		"${name}", binary.Name, "${version}", binary.FileVersion(), "${os}", platform.OS, "${arch}", platform.Arch,
	)
	text := parameters.Replace(template)
	if unknown := regexp.MustCompile(placeholder).FindString(text); unknown != "" {
		return "", findingf("url-template", "unknown parameter %s in %q; known: ${name}, ${version}, ${os}, ${arch}",
			unknown, template)
	}
	return text, nil
}

// parseLocation parses a URL or a path, which may be followed by a query with the parameters of applyParameters. A URL
// of the scheme file is a path. A relative path is the first file that exists below one of dirs. parseLocation returns
// a finding if the URL or a parameter is invalid, if the protocol is not supported, or if the file does not exist or is
// not a regular file, and another error if the file system fails.
func parseLocation(text string, dirs ...string) (location, error) {
	if protocol := regexp.MustCompile(forcedProtocol).FindString(text); protocol != "" {
		return location{}, findingf("url-template", "%s is not supported; use an http or https URL or a local file",
			protocol)
	}
	scheme, rest, isURL := strings.Cut(text, "://")
	origin := bill.PublicReference(text)
	switch {
	case !isURL:
		return locateFile(text, origin, dirs)
	case scheme == "file":
		return locateFile(rest, origin, dirs)
	case scheme != "http" && scheme != "https":
		return location{}, findingf("url-template", "%s:// is not supported; use an http or https URL or a local file",
			scheme)
	}
	parsed, err := url.Parse(text)
	if err != nil {
		// The cause does not contain the text, which may contain credentials.
		return location{}, findingf("url-template", "not a URL: %w", errors.Unwrap(err))
	}
	result := location{url: parsed, name: path.Base(parsed.Path), origin: origin}
	parsed.RawQuery, err = result.applyParameters(parsed.RawQuery)
	return result, err
}

// locateFile returns the location of a local file; see parseLocation. The path may be followed by a query with
// parameters, of which unknown ones are ignored. origin becomes the origin of the location.
func locateFile(text, origin string, dirs []string) (location, error) {
	name, query, _ := strings.Cut(text, "?")
	result := location{name: filepath.Base(name), origin: origin}
	if _, err := result.applyParameters(query); err != nil {
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
			result.path = candidate
			return result, nil
		case err == nil:
			return location{}, findingf("url-template", "%s is not a plain file", candidate)
		case !errors.Is(err, os.ErrNotExist):
			return location{}, fmt.Errorf("looking for a local file: %w", err)
		}
	}
	return location{}, findingf("url-template", "there is no file %s", strings.Join(candidates, " nor "))
}

// applyParameters sets the fields checksum, plain and name of the location to the parameters checksum, archive and
// filename of a query, as other brokers do. A query without a parameter keeps the field. archive sets plain if it is
// "false" or "0", and clears it for any other value. It returns the query without these parameters, for the server. An
// invalid parameter is a finding.
func (l *location) applyParameters(query string) (string, error) {
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

// parseChecksum parses a checksum and returns it as "sha256:HEX" or "sha512:HEX", with the digits in lower case. If the
// text has no kind, its length decides: 64 digits are SHA-256, and 128 digits SHA-512. An invalid checksum, and any
// other kind, is a finding.
func parseChecksum(text string) (string, error) {
	kind, sum, ok := strings.Cut(text, ":")
	if !ok {
		kind, sum = map[int]string{64: "sha256", 128: "sha512"}[len(text)], text
	}
	sum = strings.ToLower(sum)
	raw, err := hex.DecodeString(sum)
	if hash := checksums[kind]; hash == 0 || err != nil || len(raw) != hash.Size() {
		return "", findingf("checksum", "checksum %q must be sha256: or sha512: and as many hexadecimal digits", text)
	}
	return kind + ":" + sum, nil
}

// verify returns a finding if the checksum of a file differs from that of the location. It does not read the file if
// the location has no checksum. It returns another error if the file cannot be read or if ctx ends.
func (l location) verify(ctx context.Context, file string) error {
	if l.checksum == "" {
		return nil
	}
	kind, _, _ := strings.Cut(l.checksum, ":")
	digest, err := checksum(ctx, checksums[kind], file)
	if err != nil {
		return err
	}
	actual := kind + ":" + digest
	switch {
	case actual == l.checksum:
		return nil
	case l.locked != "":
		return findingf(lockRule, "%s has the digest %s, not %s; %s", l, actual, l.checksum, l.locked)
	default:
		return findingf("checksum", "%s has the checksum %s, not %s", l, actual, l.checksum)
	}
}

// checksum returns the hexadecimal digest of a file. It returns an error if the file cannot be read, or if ctx ends.
func checksum(ctx context.Context, hash crypto.Hash, file string) (string, error) {
	opened, err := os.Open(file) //nolint:gosec // it was downloaded, or the author names it
	if err != nil {
		return "", err
	}
	defer func() { _ = opened.Close() }() // opened for reading only, so that closing loses no data
	digest := hash.New()
	if _, err := io.Copy(digest, ctxio.Reader(ctx, opened)); err != nil {
		return "", fmt.Errorf("reading %s: %w", file, err)
	}
	return hex.EncodeToString(digest.Sum(nil)), nil
}
