package cli_test

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"service-adapter/internal/cli"
	"service-adapter/internal/director"
)

// TestReadDirectorConfig: the values of the file are read as texts, a file that all users can read is rejected, and no
// error contains a value of the file, such as "planted".
func TestReadDirectorConfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "director.yml")
	read := func(text string, mode os.FileMode) (*director.Config, error) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return cli.ReadDirectorConfig(path)
	}
	text := "url: u\nca_cert: |\n  c\nclient_id: i\nclient_secret: 0123\nusername: ~\npassword: 2026-01-02\n"
	want := director.Config{URL: "u", CACert: "c\n", ClientID: "i", ClientSecret: "0123", Password: "2026-01-02"}
	if got, err := read(text, 0o640); err != nil || !reflect.DeepEqual(*got, want) {
		t.Fatalf("got %+v, %v", got, err)
	}
	public := path + " contains a secret and is accessible to all users (mode 0644): set its mode to 0600"
	if _, err := read(text, 0o644); err == nil || err.Error() != public {
		t.Errorf("a file that all users can read gives %v", err)
	}
	for text, message := range map[string]string{
		"password: *planted":             ": not valid YAML: a text that begins with * must be quoted",
		"planted":                        ":1: the configuration must be a mapping",
		"[url]":                          ":1: the configuration must be a mapping",
		"url: u\nclient-secret: planted": `:2: unknown key "client-secret"; did you mean "client_secret"?`,
		"url: u\nurl: planted":           `:2: key "url" is set twice`,
		"password: [planted]":            ":1: password must be a text",
	} {
		if _, err := read(text, 0o600); err == nil || err.Error() != path+message {
			t.Errorf("%q gives %v", text, err)
		}
	}
}
