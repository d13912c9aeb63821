package build

import "context"

// NewClient creates the HTTP client for downloads.
var NewClient = newClient

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
