package brokerpak_test

import (
	"archive/zip"
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"service-adapter/brokerpak"
)

// golden adds the named file of every case in testdata to the seeds, and returns the files of the base pak.
func golden(f *testing.F, name string) fstest.MapFS {
	f.Helper()
	cases, err := filepath.Glob("testdata/*/*/" + name)
	if err != nil || len(cases) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, file := range cases {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	files := fstest.MapFS{}
	for _, base := range []string{"manifest.yml", "service.yml", "bosh/mail.yml", "terraform/main.tf"} {
		text, err := os.ReadFile(filepath.Join(basePak, base))
		if err != nil {
			f.Fatal(err)
		}
		files[base] = &fstest.MapFile{Data: text}
	}
	return files
}

// replaced returns a copy of the files with another text for one of them.
func replaced(files fstest.MapFS, name, text string) fstest.MapFS {
	changed := fstest.MapFS{name: {Data: []byte(text)}}
	for other, file := range files {
		if other != name {
			changed[other] = file
		}
	}
	return changed
}

// FuzzManifest checks that an accepted manifest has the required values, and that parsing does not panic.
func FuzzManifest(f *testing.F) {
	files := golden(f, "manifest.yml")
	f.Fuzz(func(t *testing.T, text string) {
		pak, err := brokerpak.OpenFiles(replaced(files, "manifest.yml", text))
		if err != nil {
			return
		}
		if pak.Manifest.PackVersion != 1 || pak.Manifest.Name == "" || len(pak.Manifest.Binaries) == 0 {
			t.Errorf("accepted %+v", pak.Manifest)
		}
		_, _ = pak.Manifest.DefaultVersion()
	})
}

// FuzzDefinition checks that an accepted definition has the required values, and that the methods of its model do not
// panic.
func FuzzDefinition(f *testing.F) {
	files := golden(f, "service.yml")
	f.Fuzz(func(t *testing.T, text string) {
		pak, err := brokerpak.OpenFiles(replaced(files, "service.yml", text))
		if err != nil {
			return
		}
		service := pak.Services[0]
		if service.Name == "" || service.ID == "" {
			t.Errorf("accepted %+v", service)
		}
		service.Bind.KeysRead("request.plan_properties")
		if bosh := service.Provision.Bosh; bosh != nil {
			bosh.InstanceGroups()
			bosh.Manifest.CheckYAML()
		}
	})
}

// zipSeed returns a zip of the base pak's YAML files with further entries. An entry that is not a file of the base
// pak contains its own name.
func zipSeed(f *testing.F, method uint16, entries ...string) []byte {
	f.Helper()
	var data bytes.Buffer
	writer := zip.NewWriter(&data)
	for _, name := range append([]string{"manifest.yml", "service.yml"}, entries...) {
		text, err := os.ReadFile(filepath.Join(basePak, name))
		if err != nil {
			text = []byte(name)
		}
		file, err := writer.CreateHeader(&zip.FileHeader{Name: name, Method: method})
		if err == nil {
			_, err = file.Write(text)
		}
		if err != nil {
			f.Fatal(err)
		}
	}
	if err := writer.Close(); err != nil {
		f.Fatal(err)
	}
	return data.Bytes()
}

// FuzzOpenZip checks that opening and unpacking arbitrary bytes does not panic.
func FuzzOpenZip(f *testing.F) {
	f.Add([]byte{})
	f.Add(zipSeed(f, zip.Store))
	f.Add(zipSeed(f, zip.Deflate, "bin/linux/amd64/1.12.6/tofu", "bin/linux/amd64/LICENSE"))
	f.Add(zipSeed(f, zip.Store, "manifest.yml", "../evil", "bin/linux/amd64/a", "bin/linux/amd64/a/b"))
	f.Fuzz(func(t *testing.T, data []byte) {
		pak, err := brokerpak.OpenZip(data)
		if err != nil {
			return
		}
		_, _ = pak.Executables(t.Context(), linux, t.TempDir())
	})
}

// FuzzConstraint checks that parsing does not panic, and that comparing two versions in both directions gives
// consistent results.
func FuzzConstraint(f *testing.F) {
	for _, seed := range [][2]string{
		{">= 4.1, < 6", "5"}, {"0+dev.4", "0+dev.4-abc"}, {"", ""}, {"!= a-b+c", "1..2"}, {"=", "latest"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, constraint, version string) {
		conditions, err := brokerpak.ParseConstraint(constraint)
		if err == nil {
			_, _ = conditions.Match(version)
		}
		forward, err := brokerpak.CompareVersions(constraint, version)
		backward, errBackward := brokerpak.CompareVersions(version, constraint)
		if (err == nil) != (errBackward == nil) || forward != -backward {
			t.Errorf("%q and %q: %d, %v and %d, %v", constraint, version, forward, err, backward, errBackward)
		}
	})
}
