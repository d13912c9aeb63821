package main

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"gopkg.in/yaml.v3"

	"service-adapter/spec/kit/servers"
)

// TestDirector runs the scripts of testdata/director with a stand-in for a Director and its UAA, whose files are in
// $WORK; see servers.NewDirector. The suite of internal/director tests the client with more kinds of responses.
//
// $WORK/director.yml contains the address and the credentials of the Director for --director. bosh.yml and
// bosh-basic.yml contain them as in the broker's configuration, for a Director with and without UAA. In addition to the
// commands exits, pak and backdate of TestScripts, the scripts have these commands:
//
//	interrupt STATE       marks the last change in a local state as not finished
//	deploy FILE           writes the manifest in the last standard output, that of generate-manifest, to a file
//	credhub DIR DAYS      makes the certificates of a rotation in a directory, which are valid for this number of
//	                      days: the authority old.pem, the certificate leaf.pem that it signed, and both.pem with the
//	                      authority and its transitional version
//	tls DIR               starts a server that presents leaf.pem of a directory of the command credhub, and sets the
//	                      environment variable SERVER to its address
func TestDirector(t *testing.T) {
	root := repository(t)
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "director"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			server := servers.NewDirector(env.WorkDir)
			env.Defer(server.Close)
			client := object{"client_id": "broker", "client_secret": "planted-s3cret"}
			user := object{"username": "admin", "password": "planted-s3cret"}
			// The job of the broker writes null for properties that are not set.
			noClient := object{"client_id": nil, "client_secret": nil}
			noUser := object{"username": nil, "password": nil}
			brokerConfig := func(user, client object) object {
				authentication := object{"basic": user, "uaa": object{"client_credentials": client}}
				return object{"bosh": object{
					"url": server.URL, "root_ca_cert": server.CA(), "authentication": authentication,
				}}
			}
			files := map[string]object{
				"director.yml": {
					"url": server.URL, "ca_cert": server.CA(),
					"client_id": "broker", "client_secret": "planted-s3cret",
				},
				"bosh.yml":       brokerConfig(noUser, client),
				"bosh-basic.yml": brokerConfig(user, noClient),
			}
			var failed []error
			for name, document := range files {
				var text bytes.Buffer
				encoder := yaml.NewEncoder(&text)
				encodeErr := encoder.Encode(document)
				failed = append(failed, encodeErr, os.WriteFile(filepath.Join(env.WorkDir, name), text.Bytes(), 0o600))
			}
			return errors.Join(failed...)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":     exits,
			"pak":       func(ts *testscript.TestScript, neg bool, args []string) { makePak(ts, root, neg, args) },
			"backdate":  backdate,
			"interrupt": interrupt,
			"deploy":    deploy,
			"credhub":   makeCertificates,
			"tls":       startTLS,
		},
	})
}

// An object is a JSON object or a YAML mapping.
type object = map[string]any

// deploy implements the command deploy of TestDirector. It reads the output of generate-manifest, which is JSON, from
// the last standard output.
func deploy(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: deploy FILE")
	}
	var product struct{ Manifest string }
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &product))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(product.Manifest), 0o600))
}

// makeCertificates implements the command credhub of TestDirector.
func makeCertificates(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: credhub DIR DAYS")
	}
	days, err := strconv.Atoi(args[1])
	ts.Check(err)
	dir, reporter := ts.MkAbs(args[0]), scriptReporter{ts}
	const day = 24 * time.Hour
	credhub := servers.NewCredHub(reporter, time.Duration(days)*day+time.Hour, "db.internal")
	files := map[string]string{
		"old.pem": credhub.Authority(), "leaf.pem": credhub.Leaf().Certificate, "leaf.key": credhub.Leaf().Key,
	}
	credhub.AddTransitional(reporter)
	files["both.pem"] = credhub.Leaf().CA
	ts.Check(os.MkdirAll(dir, 0o700))
	for name, text := range files {
		ts.Check(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
}

// startTLS implements the command tls of TestDirector.
func startTLS(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: tls DIR")
	}
	dir := ts.MkAbs(args[0])
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "leaf.pem"), filepath.Join(dir, "leaf.key"))
	ts.Check(err)
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	ts.Defer(server.Close)
	ts.Setenv("SERVER", server.Listener.Addr().String())
}

// A scriptReporter reports the failures of helpers as those of a script.
type scriptReporter struct{ *testscript.TestScript }

// Helper, Cleanup and Skipf complete the interface of helpers, which a script does not need.
func (scriptReporter) Helper() {}

func (r scriptReporter) Cleanup(cleanup func()) { r.Defer(cleanup) }

func (r scriptReporter) Skipf(format string, arguments ...any) { r.Fatalf(format, arguments...) }
