package release_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestRelease(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "BOSH releases")
}

// A file is an entry of an archive.
type file struct{ name, content string }

// archive returns a compressed tar archive of files, in their order.
func archive(files ...file) string {
	var buffer bytes.Buffer
	compressed := gzip.NewWriter(&buffer)
	writer := tar.NewWriter(compressed)
	for _, entry := range files {
		header := &tar.Header{Name: entry.name, Mode: 0o644, Size: int64(len(entry.content)), Typeflag: tar.TypeReg}
		if err := writer.WriteHeader(header); err != nil {
			panic(err) // fuzzers have no test yet when they add their seeds
		}
		if _, err := writer.Write([]byte(entry.content)); err != nil {
			panic(err)
		}
	}
	if err := writer.Close(); err != nil {
		panic(err)
	}
	if err := compressed.Close(); err != nil {
		panic(err)
	}
	return buffer.String()
}
