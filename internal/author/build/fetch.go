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
	"io/fs"
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

// newClient returns the default HTTP client for downloads. It uses the proxy settings of the environment and follows
// redirects as far as checkRedirect allows. It limits the time for the TLS handshake and the time from the end of a
// request to the header of its response to one minute each, but neither the time to connect nor the duration of the
// whole download; attempt limits these.
func newClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true,
			TLSHandshakeTimeout: responseHeader, ResponseHeaderTimeout: responseHeader,
		},
		CheckRedirect: checkRedirect,
	}
}

// checkRedirect is the CheckRedirect function of the HTTP client: request is the next request, and via are the requests
// before it, oldest first, at least one. It returns errRedirects if via has as many requests as the constant redirects
// (10), and a *finding if the first request uses https and the next one does not. A redirect from http to http or https
// is allowed.
func checkRedirect(request *http.Request, via []*http.Request) error {
	if len(via) >= redirects {
		return errRedirects
	}
	if via[0].URL.Scheme == "https" && request.URL.Scheme != "https" {
		return findingf("fetch", "the server redirects from https to %s", request.URL.Scheme)
	}
	return nil
}

// errRedirects reports that a server redirected a request too often.
var errRedirects = fmt.Errorf("stopped after %d redirects", redirects)

// pause waits for a duration and returns nil. If ctx ends first, it returns the error of ctx at once.
func pause(ctx context.Context, duration time.Duration) error {
	select {
	case <-time.After(duration):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fetch returns the path of a local copy of the file at a location, and writes progress lines, which begin with
// subject. A local file is used as it is, so that the result is its own path; without a checksum it is not read. A URL
// is downloaded into the cache directory, unless the cache contains a file of this URL with the right checksum; a
// cached file with another checksum, or that cannot be read, is downloaded again. If the location has no checksum, the
// cached file is used without a comparison, however old it is. A download that fails temporarily, for example with the
// status 500, is attempted up to four times, with pauses.
//
// fetch returns a finding if the checksum of a local file or a download differs from that of the location, if the
// server rejects the request with a permanent status such as 404 or redirects it from https to an unencrypted URL, or
// if the download is larger than Options.MaxBinary. Other errors are that a local file with a checksum cannot be read,
// that the download fails in another way or cannot be written, and that ctx ends. The path must not be used if there is
// an error.
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
// download is complete and has the right checksum. After a temporary failure, download tries again, up to four attempts
// in all, with pauses from one second on that double each time, and then returns the last error. It writes a progress
// line, which begins with subject, before each pause.
//
// Findings, such as a wrong checksum or the status 404, and other permanent errors, such as that the cache directory
// cannot be written, are returned without a retry; see attempt, and get for the failures that are temporary. If ctx
// ends, download returns at once, with the error of the attempt or of the pause.
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

// attempt downloads a location, which must have a URL, once to a temporary file in the cache directory, and renames
// that to the path file. It creates or replaces file only if it returns nil. temporary means that another attempt may
// succeed; it is false if the error is nil.
//
// A wrong checksum is a finding, and so are a response that is larger than Options.MaxBinary, a status that is not
// temporary, and a redirect to an unencrypted URL; see get. Other errors are that the request fails, that ctx ends or
// the attempt takes longer than attemptTime (20 minutes), and that the file cannot be written to the cache directory or
// renamed. get decides which of its errors are temporary; all others are not.
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

// get requests a location, which must have a URL, and writes the body of the response to target. The text of its errors
// does not contain the URL. temporary means that another request may succeed; it is false if the error is nil.
//
// A response that is larger than Options.MaxBinary is a finding, and so are a redirect that checkRedirect rejects as
// unencrypted, and any status other than 200 that is not temporary. Findings are not temporary. The statuses 408, 429
// and from 500 on are temporary. Any other failed request, also because ctx ended, is temporary unless the server
// redirected it too often or this machine is offline (see isOffline). An error while the body is read is temporary as
// well. A request that cannot be created is not, and neither is an error of target that wraps a *fs.PathError, as those
// of an *os.File do. After an error, target may contain a part of the body.
func (b *builder) get(ctx context.Context, from location, target io.Writer) (temporary bool, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from.url.String(), nil)
	if err != nil {
		return false, withoutURL(err)
	}
	request.Header.Set("Accept-Encoding", "identity") // so that the client does not decompress a .gz file
	response, err := b.Client.Do(request)
	if err != nil {
		permanent := errors.As(err, new(*finding)) || errors.Is(err, errRedirects) || isOffline(err)
		return !permanent, withoutURL(err)
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
	return err != nil && !errors.As(err, new(*fs.PathError)), withoutURL(err)
}

// isOffline reports whether the error of a request indicates that this machine has no network, so that another attempt
// is in vain: the name of the server cannot be resolved, or no route leads to it. It returns false for nil.
func isOffline(err error) bool {
	return errors.As(err, new(*net.DNSError)) || errors.Is(err, syscall.ENETUNREACH) ||
		errors.Is(err, syscall.EHOSTUNREACH)
}

// withoutURL returns the cause of the *url.Error, the error of the HTTP client, that err is or wraps, because the text
// of a *url.Error contains the URL and possibly credentials. The texts of the errors that wrap the *url.Error are lost
// as well. The messages of the callers name the location without credentials. An error without a *url.Error, and nil,
// is returned unchanged.
func withoutURL(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}

// fileSize returns the size of the file at a path as text for messages, such as "1.5 MB", or "?" if the file cannot be
// inspected. An error is not reported here, because opening the file will report it.
func fileSize(file string) string {
	info, err := os.Stat(file)
	if err != nil {
		return "?"
	}
	return size(info.Size())
}

// size returns a number of bytes as text with a unit, such as "512 B", "1.5 kB" or "2048.0 MB": B below 1 kB, kB below
// 1 MB, and MB for all others. 1 kB is 1024 B, and 1 MB is 1024 kB. kB and MB have one decimal place.
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

// A location is an http or https URL, or the path of a local file, from where a binary or its source code is fetched.
// It also has the name of the file, the checksum that its content must have, if any, and whether an archive is not
// unpacked. For the lock and the bill of materials, it has a text without credentials. If the checksum is that of the
// lock, it also has the advice for an author whose file differs. parseLocation returns one; the zero value is not
// usable.
type location struct {
	url      *url.URL // an http or https URL; nil for a local file
	path     string   // the path of the local file
	name     string   // the name of the file; for a URL, of the downloaded file
	checksum string   // "sha256:HEX" or "sha512:HEX"; "" if any content is accepted
	plain    bool     // whether the file is not unpacked even if it is an archive
	origin   string   // the location without credentials, for the bill of materials and the lock
	locked   string   // what to do if the checksum is that of the lock and differs; "" if it is not that of the lock
}

// String returns the location for messages: the path of a local file, or the URL without its credentials, query and
// fragment, which may be secret.
func (l location) String() string {
	if l.url == nil {
		return l.path
	}
	public := url.URL{Scheme: l.url.Scheme, Host: l.url.Host, Path: l.url.Path}
	return public.String()
}

// expand replaces the parameters of a url_template by values: ${name} and ${version} by those of an entry of
// terraform_binaries, and ${os} and ${arch} by those of a platform. The version is that of Binary.FileVersion, which
// is 1.6.0 for version 1.6 of OpenTofu or a provider. expand returns "" and a finding if the template contains any
// other parameter of the form ${...}.
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

// parseLocation parses an http or https URL, a URL of the scheme file, or a path. The text may have a query with the
// parameters checksum, archive and filename; see applyParameters. An absolute path is used as it is. A relative path is
// joined with each of dirs in their order, and the first file that exists is the location.
//
// parseLocation returns a *finding if the URL or a parameter is invalid, if the protocol is not supported, as in
// "git::https://...", if the local file does not exist, also because dirs is empty, or if it is not a regular file.
// It returns an error of another type if the file system fails. The location must not be used if there is an error.
// Whether a URL can be fetched is not checked.
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

// locateFile returns the location of an existing local file. text is its path, which may be followed by a query with
// the parameters of applyParameters; unknown parameters are ignored. A relative path is joined with each of dirs in
// their order, and the first that exists counts. origin becomes the origin of the location, which is the text for the
// lock and the bill of materials.
//
// locateFile returns a finding if a parameter is invalid, if no such file exists, or if it is not a regular file, and
// another error if the file cannot be inspected.
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
			return location{}, fmt.Errorf("finding a local file: %w", err)
		}
	}
	return location{}, findingf("url-template", "there is no file %s", strings.Join(candidates, " nor "))
}

// applyParameters sets fields of the location to the parameters of a URL query such as
// "checksum=sha256:HEX&archive=false&filename=tool", as other brokers do: checksum to the parameter checksum, name to
// filename, and plain, which means that an archive is not unpacked, to true if archive is "false" or "0", and to false
// for any other value. A query without a parameter keeps the field.
//
// It returns the query without these parameters, for the server; their order remains. It returns "" and a finding if a
// value is not well-formed, the checksum is invalid, or filename is not a plain file name. The location must not be
// used then.
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

// parseChecksum parses a checksum of the form "sha256:HEX", "sha512:HEX" or HEX alone, and returns it as "sha256:HEX"
// or "sha512:HEX" with the digits in lower case. Without a kind, the number of digits decides: 64 digits are SHA-256,
// and 128 digits SHA-512. It returns "" and a *finding for any other kind, for a wrong number of digits, and for
// characters that are not hexadecimal digits.
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

// verify returns a finding if the checksum of the file at a path, a local copy of the location, differs from the
// checksum of the location. The message says what the author can do, if the lock of the pak requires the checksum. If
// the location has no checksum, verify returns nil and does not read the file. It returns another error if the file
// cannot be read or if ctx ends.
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

// checksum returns the digest of the file at a path as hexadecimal digits in lower case, without the kind of hash. hash
// must be crypto.SHA256 or crypto.SHA512. It returns "" and an error if the file cannot be read, or if ctx ends.
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
