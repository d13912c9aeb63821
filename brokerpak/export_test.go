package brokerpak

import (
	"bytes"
	"io/fs"
)

// OpenFiles opens a pak that is no directory, for fuzzers.
func OpenFiles(files fs.FS) (*Pak, error) {
	pak, diags, err := load(&Pak{Path: "pak", files: files})
	if err != nil {
		return nil, err
	}
	return pak, diags.Err()
}

// OpenZip opens a pak from the bytes of a zip, for fuzzers.
func OpenZip(data []byte) (*Pak, error) {
	archive, err := readIndex(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, err
	}
	pak, diags, err := load(&Pak{Path: "pak.brokerpak", files: archive, archive: archive})
	if err != nil {
		return nil, err
	}
	return pak, diags.Err()
}
