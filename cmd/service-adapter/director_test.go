package main

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"gopkg.in/yaml.v3"
)

// TestDirector runs testdata/director with a stand-in for a Director and its UAA, of which internal/director tells more. Its deployments are
// the lines of $WORK/deployments; once it has listed them, those of $WORK/deployments.next, if there is such a file. Their manifests are
// $WORK/manifests/NAME.yml. It has no UAA where there is a file $WORK/basic. director.yml says how to reach it, and bosh.yml and
// bosh-basic.yml say it as the broker's configuration does. Commands more are
//
//	interrupt STATE   makes the state of a workspace one whose last change was not finished
//	deploy FILE       writes the manifest of the last standard output, that of generate-manifest
func TestDirector(t *testing.T) {
	root := repository(t)
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "director"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			server := httptest.NewTLSServer(directorOf(env.WorkDir))
			env.Defer(server.Close)
			certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
			client, none := object{"client_id": "broker", "client_secret": "planted-s3cret"}, object{"client_id": nil, "client_secret": nil}
			user := object{"username": "admin", "password": "planted-s3cret"}
			files := map[string]object{
				"director.yml": {"url": server.URL, "ca_cert": string(certificate), "client_id": "broker", "client_secret": "planted-s3cret"},
				// As the broker's job writes them, with nothing where nothing is set.
				"bosh.yml": {"bosh": object{"url": server.URL, "root_ca_cert": string(certificate), "authentication": object{
					"basic": object{"username": nil, "password": nil}, "uaa": object{"client_credentials": client},
				}}},
				"bosh-basic.yml": {"bosh": object{"url": server.URL, "root_ca_cert": string(certificate), "authentication": object{
					"basic": user, "uaa": object{"client_credentials": none},
				}}},
			}
			var failed []error
			for name, document := range files {
				var text bytes.Buffer
				encoder := yaml.NewEncoder(&text)
				failed = append(failed, encoder.Encode(document), os.WriteFile(filepath.Join(env.WorkDir, name), text.Bytes(), 0o600))
			}
			return errors.Join(failed...)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":     exits,
			"pak":       func(ts *testscript.TestScript, neg bool, args []string) { makePak(ts, root, neg, args) },
			"interrupt": interrupt,
			"deploy":    deploy,
		},
	})
}

type object = map[string]any

// directorOf is a Director and its UAA in one.
func directorOf(dir string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /info", func(w http.ResponseWriter, r *http.Request) {
		if _, err := os.Stat(filepath.Join(dir, "basic")); err == nil {
			writeDocument(w, object{"user_authentication": object{"type": "basic", "options": object{}}})
			return
		}
		writeDocument(w, map[string]any{"user_authentication": map[string]any{
			"type": "uaa", "options": map[string]any{"url": "https://" + r.Host},
		}})
	})
	mux.HandleFunc("POST /oauth/token", func(w http.ResponseWriter, r *http.Request) {
		if client, secret, _ := r.BasicAuth(); client != "broker" || secret != "planted-s3cret" {
			w.WriteHeader(http.StatusUnauthorized)
			writeDocument(w, map[string]any{"error_description": "Bad credentials for " + secret})
			return
		}
		writeDocument(w, map[string]any{"access_token": "planted-token", "expires_in": 600})
	})
	mux.HandleFunc("GET /deployments", func(w http.ResponseWriter, r *http.Request) {
		if !authorized(w, r) {
			return
		}
		file := filepath.Join(dir, "deployments")
		text, err := os.ReadFile(file)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		list := []any{}
		for _, name := range strings.Fields(string(text)) {
			list = append(list, map[string]any{"name": name, "teams": []any{}})
		}
		_ = os.Rename(file+".next", file) // there may be none
		writeDocument(w, list)
	})
	mux.HandleFunc("GET /deployments/{name}", func(w http.ResponseWriter, r *http.Request) {
		if !authorized(w, r) {
			return
		}
		text, err := os.ReadFile(filepath.Join(dir, "manifests", r.PathValue("name")+".yml"))
		if err != nil {
			w.WriteHeader(http.StatusNotFound)
			writeDocument(w, object{"code": 70000, "description": "Deployment '" + r.PathValue("name") + "' doesn't exist"})
			return
		}
		answer := object{"manifest": string(text)}
		if len(text) == 0 {
			answer["manifest"] = nil // before the first success
		}
		writeDocument(w, answer)
	})
	return mux
}

func authorized(w http.ResponseWriter, r *http.Request) bool {
	user, password, _ := r.BasicAuth()
	if r.Header.Get("Authorization") != "Bearer planted-token" && (user != "admin" || password != "planted-s3cret") {
		w.WriteHeader(http.StatusUnauthorized)
		return false
	}
	return true
}

func writeDocument(w http.ResponseWriter, document any) {
	_ = json.NewEncoder(w).Encode(document) // a client that went away is not waiting for it
}

// interrupt changes the mark that says for which record everything was made.
func interrupt(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: interrupt STATE")
	}
	file := ts.MkAbs(args[0])
	text, err := os.ReadFile(file)
	ts.Check(err)
	changed := regexp.MustCompile(`"[0-9a-f]{64}"`).ReplaceAll(text, []byte(`"`+strings.Repeat("0", 64)+`"`))
	if string(changed) == string(text) {
		ts.Fatalf("%s has no mark", args[0])
	}
	ts.Check(os.WriteFile(file, changed, 0o600))
}

// deploy writes the manifest that generate-manifest gave.
func deploy(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: deploy FILE")
	}
	var product struct{ Manifest string }
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &product))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(product.Manifest), 0o600))
}
