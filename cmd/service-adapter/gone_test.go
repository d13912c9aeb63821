package main

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestGone runs testdata/gone with a stand-in for a Director and its UAA, of which internal/director tells more. Its deployments are the
// lines of $WORK/deployments; once it has listed them, those of $WORK/deployments.next, if there is such a file. director.yml says how
// to reach it. A command more is
//
//	interrupt STATE   makes the state of a workspace one whose last change was not finished
func TestGone(t *testing.T) {
	root := repository(t)
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "gone"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			server := httptest.NewTLSServer(directorOf(env.WorkDir))
			env.Defer(server.Close)
			certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
			config, err := json.Marshal(map[string]string{
				"url": server.URL, "ca_cert": string(certificate), "client_id": "broker", "client_secret": "planted-s3cret",
			})
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(env.WorkDir, "director.yml"), config, 0o600)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":     exits,
			"pak":       func(ts *testscript.TestScript, neg bool, args []string) { makePak(ts, root, neg, args) },
			"interrupt": interrupt,
		},
	})
}

// directorOf is a Director and its UAA in one.
func directorOf(dir string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /info", func(w http.ResponseWriter, r *http.Request) {
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
		writeDocument(w, map[string]any{"access_token": "planted-token"})
	})
	mux.HandleFunc("GET /deployments", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer planted-token" {
			w.WriteHeader(http.StatusUnauthorized)
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
	return mux
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
