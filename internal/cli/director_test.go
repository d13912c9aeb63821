package cli_test

import (
	"os"
	"path/filepath"
	"testing"

	"service-adapter/internal/cli"
	"service-adapter/internal/director"
)

func TestReadDirector(t *testing.T) {
	path := filepath.Join(t.TempDir(), "director.yml")
	read := func(text string, mode os.FileMode) (*director.Config, error) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return cli.ReadDirector(path)
	}
	text := "url: u\nca_cert: |\n  c\nclient_id: i\nclient_secret: 0123\nusername: ~\npassword: 2026-01-02\n"
	want := director.Config{URL: "u", CACert: "c\n", ClientID: "i", ClientSecret: "0123", Password: "2026-01-02"}
	if got, err := read(text, 0o640); err != nil || *got != want {
		t.Fatalf("got %+v, %v", got, err)
	}
	if _, err := read(text, 0o644); err == nil || err.Error() != path+" holds a secret and everybody may use it (mode 0644): make it 0600" {
		t.Errorf("a file that everybody may read gives %v", err)
	}
	for text, refused := range map[string]string{
		"password: *planted":             ": no valid YAML: a text that begins with * must be quoted",
		"planted":                        ":1: the configuration must be a mapping",
		"[url]":                          ":1: the configuration must be a mapping",
		"url: u\nclient-secret: planted": `:2: unknown key "client-secret"; did you mean "client_secret"?`,
		"url: u\nurl: planted":           `:2: key "url" is there twice`,
		"password: [planted]":            ":1: password must be a text",
	} {
		if _, err := read(text, 0o600); err == nil || err.Error() != path+refused {
			t.Errorf("%q gives %v", text, err)
		}
	}
}
