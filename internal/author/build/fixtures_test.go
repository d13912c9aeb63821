package build_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/expr"
	"service-adapter/internal/author/build"
	"service-adapter/internal/diag"
)

// script is the content of an executable.
const script = "#!/bin/sh\necho tofu\n"

func write(name, text string) string {
	GinkgoHelper()
	Expect(os.MkdirAll(filepath.Dir(name), 0o700)).To(Succeed())
	Expect(os.WriteFile(name, []byte(text), 0o700)).To(Succeed())
	return name
}

func read(name string) string {
	GinkgoHelper()
	text, err := os.ReadFile(name)
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}

// service is a definition without anything special.
const service = `version: 1
name: mail
id: 3f9e4a52-2a55-4d0b-8a3c-5d9a1f0c7e01
description: Mail accounts
display_name: Mail
image_url: https://example.com/icon.png
documentation_url: https://example.com
support_url: https://example.com/support
`

// newPak writes a pak whose manifest has these entries of terraform_binaries, one in each line of "name: …, version:
// …".
func newPak(entries ...string) string {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	text := "packversion: 1\nname: mail\nversion: 1.0.0\nplatforms:\n- {os: linux, arch: amd64}\n" +
		"service_definitions: [mail.yml]\nterraform_binaries:\n"
	for _, entry := range entries {
		text += "- {" + entry + "}\n"
	}
	write(filepath.Join(dir, "manifest.yml"), text)
	write(filepath.Join(dir, "mail.yml"), service)
	return dir
}

// build builds into a new directory, without waiting between attempts. Changes adapt the options.
func buildPak(dir string, changes ...func(*build.Options)) (file, progress string, err error) {
	GinkgoHelper()
	var out strings.Builder
	options := build.Options{
		Dir: dir, Output: filepath.Join(GinkgoT().TempDir(), "built.brokerpak"), Progress: &out,
		Getenv: func(string) (string, bool) { return "", false },
		Pause:  func(context.Context, time.Duration) error { return nil },
	}
	for _, change := range changes {
		change(&options)
	}
	file, err = build.Build(context.Background(), options)
	return file, out.String(), err
}

func mustBuild(dir string, changes ...func(*build.Options)) (file, progress string) {
	GinkgoHelper()
	file, progress, err := buildPak(dir, changes...)
	Expect(err).NotTo(HaveOccurred())
	return file, progress
}

// from overrides where entries come from: "tofu", file, ….
func from(pairs ...string) func(*build.Options) {
	return func(options *build.Options) {
		options.Binaries = map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			options.Binaries[pairs[i]] = pairs[i+1]
		}
	}
}

// contents returns the texts of the files of a zip by "mode name".
func contents(file string) map[string]string {
	GinkgoHelper()
	archive, err := zip.OpenReader(file)
	Expect(err).NotTo(HaveOccurred())
	defer archive.Close()
	files := map[string]string{}
	for _, entry := range archive.File {
		opened, err := entry.Open()
		Expect(err).NotTo(HaveOccurred())
		text, err := io.ReadAll(opened)
		Expect(err).NotTo(HaveOccurred())
		files[fmt.Sprintf("%04o %s", entry.Mode().Perm(), entry.Name)] = string(text)
	}
	return files
}

// entry is a file of an archive.
type entry struct {
	name, text string
	mode       fs.FileMode
}

func zipOf(entries ...entry) string {
	GinkgoHelper()
	var out bytes.Buffer
	writer := zip.NewWriter(&out)
	for _, e := range entries {
		header := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		header.SetMode(e.mode)
		file, err := writer.CreateHeader(header)
		Expect(err).NotTo(HaveOccurred())
		_, err = io.WriteString(file, e.text)
		Expect(err).NotTo(HaveOccurred())
	}
	Expect(writer.Close()).To(Succeed())
	return out.String()
}

func tarOf(entries ...entry) string {
	GinkgoHelper()
	var out bytes.Buffer
	writer := tar.NewWriter(&out)
	for _, e := range entries {
		header := &tar.Header{Name: e.name, Mode: int64(e.mode.Perm()), Size: int64(len(e.text)), Typeflag: tar.TypeReg}
		if e.mode&fs.ModeSymlink != 0 {
			header.Typeflag, header.Linkname, header.Size = tar.TypeSymlink, e.text, 0
		}
		Expect(writer.WriteHeader(header)).To(Succeed())
		if header.Typeflag == tar.TypeReg {
			_, err := io.WriteString(writer, e.text)
			Expect(err).NotTo(HaveOccurred())
		}
	}
	Expect(writer.Close()).To(Succeed())
	return out.String()
}

func gzipped(text string) string {
	GinkgoHelper()
	var out bytes.Buffer
	writer := gzip.NewWriter(&out)
	_, err := io.WriteString(writer, text)
	Expect(err).NotTo(HaveOccurred())
	Expect(writer.Close()).To(Succeed())
	return out.String()
}

// server serves files by their path and counts requests.
type server struct {
	*httptest.Server
	mutex sync.Mutex
	asked []string
}

func serve(answer func(path string, attempt int, response http.ResponseWriter)) *server {
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		s.mutex.Lock()
		attempt := 1
		for _, path := range s.asked {
			if path == request.URL.String() {
				attempt++
			}
		}
		s.asked = append(s.asked, request.URL.String())
		s.mutex.Unlock()
		answer(request.URL.Path, attempt, response)
	}))
	DeferCleanup(s.Close)
	return s
}

func serveFiles(files map[string]string) *server {
	return serve(func(path string, _ int, response http.ResponseWriter) {
		text, ok := files[path]
		if !ok {
			response.WriteHeader(http.StatusNotFound)
		}
		_, _ = io.WriteString(response, text)
	})
}

// model describes the content of a pak as text, without positions, file names, and values that a build adds or
// replaces.
func model(name string) string {
	GinkgoHelper()
	pak, err := brokerpak.Open(name)
	Expect(err).NotTo(HaveOccurred())
	defer pak.Close()
	pak.Manifest.Definitions = nil
	for _, service := range pak.Services {
		service.File = ""
	}
	text, err := yaml.Marshal([]any{plain(reflect.ValueOf(pak.Manifest)), plain(reflect.ValueOf(pak.Services))})
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}

func plain(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return nil
		}
		if template, ok := v.Interface().(*expr.Template); ok {
			return "HIL " + template.Text()
		}
		return plain(v.Elem())
	case reflect.Struct:
		if document, ok := v.Interface().(brokerpak.Document); ok {
			return document.Text
		}
		fields := map[string]any{}
		for i := range v.NumField() {
			field := v.Type().Field(i)
			if field.IsExported() && field.Type != reflect.TypeFor[diag.Pos]() {
				fields[field.Name] = plain(v.Field(i))
			}
		}
		return fields
	case reflect.Map:
		entries := map[string]any{}
		for _, key := range v.MapKeys() {
			entries[key.String()] = plain(v.MapIndex(key))
		}
		return entries
	case reflect.Slice:
		list := make([]any, v.Len())
		for i := range list {
			list[i] = plain(v.Index(i))
		}
		return list
	default:
		return v.Interface()
	}
}
