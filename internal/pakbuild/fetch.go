package pakbuild

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"
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
