package build

import (
	"context"
	"io"
	"net/http"
	"net/url"
)

// NewClient creates the HTTP client for downloads.
var NewClient = newClient

// Get requests a URL once and writes the body of the response to target.
func Get(ctx context.Context, client *http.Client, address string, target io.Writer) (temporary bool, err error) {
	parsed, err := url.Parse(address)
	if err != nil {
		return false, err
	}
	b := &builder{Options: Options{Client: client, MaxBinary: maxBinary}}
	return b.get(ctx, location{url: parsed}, target)
}

// FlatYAML returns the text that a built pak contains in place of a YAML text.
func FlatYAML(text []byte) ([]byte, error) {
	root, err := parseFlat(text)
	if err != nil {
		return nil, err
	}
	return encode(root)
}

// UnpackFile unpacks an archive into a directory and returns its files.
func UnpackFile(file, dir string, limit int64) ([]string, error) {
	into, err := newTree(dir, limit)
	if err != nil {
		return nil, err
	}
	defer into.close()
	err = unpack(context.Background(), "file", file, false, into)
	return into.names(), err
}
