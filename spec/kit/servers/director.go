package servers

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"service-adapter/spec/kit"
)

// A Director imitates a BOSH Director and its UAA, because a real Director needs an IaaS. It uses TLS. Its responses
// follow the code and the documentation of the Director.
type Director struct{ *httptest.Server }

// NewDirector starts a Director, which the caller must close. These files in dir determine its answers, and may be
// changed while it runs:
//
//	deployments           the names of the deployments, one in each line
//	deployments.next      if it exists, replaces deployments after they have been listed once
//	manifests/NAME.yml    the manifest of a deployment
//	vms.json              the VMs of every deployment
//	links.json            the link providers of every deployment; without it, nobody may create links
//	links.created         is written by the server: the links that were created and not deleted
//	tasks                 the tasks, as lines "ID STATE DEPLOYMENT"
//	tasks.next            if it exists, replaces tasks after they have been listed once
//	tasks.denied          if it exists, requests for tasks are rejected
//	certificates/NAME/*.pem  the certificates of a deployment, as variables /director/NAME/FILE
//	certificates/NAME.failing  if it exists, the config server fails for the certificates of the deployment
//	basic                 if it exists, the Director has no UAA but uses basic authentication
//
// The client "broker" and the user "admin" have the password "planted-s3cret".
func NewDirector(dir string) *Director { return &Director{httptest.NewTLSServer(handler(dir))} }

// CA returns the certificate that verifies the Director, in PEM.
func (d *Director) CA() string { return encode("CERTIFICATE", d.Certificate().Raw) }

// WriteFleet writes the files in dir with which a Director has one deployment with these certificates, by the names of
// their variables, and returns the path of a configuration of the broker for it.
func (d *Director) WriteFleet(t kit.T, dir, deployment string, certificates map[string]string) string {
	t.Helper()
	variables := filepath.Join(dir, "certificates", deployment)
	path := filepath.Join(dir, "broker.yml")
	config, err := json.Marshal(object{
		"bosh": d.BrokerConfig(),
		"service_deployment": object{
			"releases":  []any{object{"name": "any", "version": "1", "jobs": []string{"any"}}},
			"stemcells": []any{object{"stemcell_os": "ubuntu-jammy", "stemcell_version": "1"}},
		},
		"service_catalog": object{"plans": []any{object{"plan_id": "any", "instance_groups": []any{}}}},
	})
	err = errors.Join(err, os.MkdirAll(variables, 0o700), os.WriteFile(path, config, 0o600),
		os.WriteFile(filepath.Join(dir, "deployments"), []byte(deployment+"\n"), 0o600))
	for name, text := range certificates {
		err = errors.Join(err, os.WriteFile(filepath.Join(variables, name+".pem"), []byte(text), 0o600))
	}
	if err != nil {
		t.Fatalf("writing the files of a Director: %s", err)
	}
	return path
}

// BrokerConfig returns the key bosh of the broker's configuration, with the client of the Director.
func (d *Director) BrokerConfig() object {
	return object{
		"url": d.URL, "root_ca_cert": d.CA(), "authentication": object{"uaa": object{
			"client_credentials": object{"client_id": "broker", "client_secret": "planted-s3cret"},
		}},
	}
}

// object is a JSON object.
type object = map[string]any

// handler returns a handler that responds as a Director and its UAA. See NewDirector for the files in dir.
func handler(dir string) http.Handler {
	mux := http.NewServeMux()
	handleLogin(mux, dir)
	handleList(mux, dir)
	handleDeployment(mux, dir)
	handleLinks(mux, dir)
	return mux
}

// handleLogin answers requests that need no credentials, and those for a token.
func handleLogin(mux *http.ServeMux, dir string) {
	mux.HandleFunc("GET /info", func(w http.ResponseWriter, r *http.Request) {
		authentication := object{"type": "uaa", "options": object{"url": "https://" + r.Host}}
		if _, err := os.Stat(filepath.Join(dir, "basic")); err == nil {
			authentication = object{"type": "basic", "options": object{}}
		}
		writeDocument(w, object{"user_authentication": authentication})
	})
	mux.HandleFunc("POST /oauth/token", func(w http.ResponseWriter, r *http.Request) {
		if client, secret, _ := r.BasicAuth(); client != "broker" || secret != "planted-s3cret" {
			w.WriteHeader(http.StatusUnauthorized)
			writeDocument(w, object{"error_description": "Bad credentials for " + secret})
			return
		}
		writeDocument(w, object{"access_token": "planted-token", "expires_in": 600})
	})
}

// handleList answers requests for the deployments and the tasks.
func handleList(mux *http.ServeMux, dir string) {
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
			list = append(list, object{"name": name, "teams": []any{}})
		}
		_ = os.Rename(file+".next", file) // the file may not exist
		writeDocument(w, list)
	})
	mux.HandleFunc("GET /tasks", func(w http.ResponseWriter, r *http.Request) {
		if !authorized(w, r) {
			return
		}
		if _, err := os.Stat(filepath.Join(dir, "tasks.denied")); err == nil {
			w.WriteHeader(http.StatusUnauthorized)
			writeDocument(w, object{"code": 600000, "description": "Require one of the scopes: bosh.admin"})
			return
		}
		writeDocument(w, tasksOf(filepath.Join(dir, "tasks"), strings.Split(r.URL.Query().Get("state"), ",")))
	})
}

// handleDeployment answers requests for the manifest of a deployment, the expiry of its certificates, and its VMs.
func handleDeployment(mux *http.ServeMux, dir string) {
	mux.HandleFunc("GET /deployments/{name}", func(w http.ResponseWriter, r *http.Request) {
		if !authorized(w, r) {
			return
		}
		text, err := os.ReadFile(filepath.Join(dir, "manifests", r.PathValue("name")+".yml"))
		if err != nil {
			w.WriteHeader(http.StatusNotFound)
			description := "Deployment '" + r.PathValue("name") + "' doesn't exist"
			writeDocument(w, object{"code": 70000, "description": description})
			return
		}
		answer := object{"manifest": string(text)}
		if len(text) == 0 {
			answer["manifest"] = nil // the Director responds so until a deployment has succeeded once
		}
		writeDocument(w, answer)
	})
	mux.HandleFunc("GET /deployments/{name}/certificate_expiry", func(w http.ResponseWriter, r *http.Request) {
		if authorized(w, r) {
			reportCertificates(w, filepath.Join(dir, "certificates"), r.PathValue("name"))
		}
	})
	mux.HandleFunc("GET /deployments/{name}/vms", func(w http.ResponseWriter, r *http.Request) {
		if authorized(w, r) {
			http.ServeFile(w, r, filepath.Join(dir, "vms.json"))
		}
	})
}

// handleLinks answers requests for links and their addresses.
func handleLinks(mux *http.ServeMux, dir string) {
	mux.HandleFunc("GET /link_providers", func(w http.ResponseWriter, r *http.Request) {
		if authorized(w, r) {
			http.ServeFile(w, r, filepath.Join(dir, "links.json"))
		}
	})
	created := filepath.Join(dir, "links.created")
	mux.HandleFunc("POST /links", func(w http.ResponseWriter, r *http.Request) {
		var link struct {
			Provider string `json:"link_provider_id"`
		}
		if authorized(w, r) && json.NewDecoder(r.Body).Decode(&link) == nil {
			_ = os.WriteFile(created, []byte(link.Provider), 0o600)
			writeDocument(w, object{"id": "link-" + link.Provider})
		}
	})
	mux.HandleFunc("GET /link_address", func(w http.ResponseWriter, r *http.Request) {
		if _, err := os.Stat(created); err == nil && authorized(w, r) {
			writeDocument(w, object{"address": r.URL.Query().Get("link_id") + ".bosh"})
		}
	})
	mux.HandleFunc("DELETE /links/{id}", func(w http.ResponseWriter, r *http.Request) {
		if authorized(w, r) && os.Remove(created) == nil {
			w.WriteHeader(http.StatusNoContent)
		}
	})
}

// tasksOf returns the tasks in a file that are in one of the states, and replaces the file by file.next if that exists.
// A missing file contains no tasks.
func tasksOf(file string, states []string) []object {
	text, _ := os.ReadFile(file)
	list := []object{}
	for line := range strings.Lines(string(text)) {
		task := strings.Fields(line)
		if slices.Contains(states, task[1]) {
			list = append(list, object{"id": json.Number(task[0]), "state": task[1], "deployment": task[2]})
		}
	}
	_ = os.Rename(file+".next", file) // the file may not exist
	return list
}

// authorized reports whether a request has valid credentials. If not, it answers with the status 401.
func authorized(w http.ResponseWriter, r *http.Request) bool {
	user, password, _ := r.BasicAuth()
	if r.Header.Get("Authorization") != "Bearer planted-token" && (user != "admin" || password != "planted-s3cret") {
		w.WriteHeader(http.StatusUnauthorized)
		return false
	}
	return true
}

// writeDocument responds with a JSON document.
func writeDocument(w http.ResponseWriter, document any) {
	_ = json.NewEncoder(w).Encode(document) // it can only fail if the client has closed the connection
}

// reportCertificates answers with the certificates of a deployment, as DeploymentCertificateProvider of the Director
// does.
func reportCertificates(w http.ResponseWriter, dir, deployment string) {
	if _, err := os.Stat(filepath.Join(dir, deployment+".failing")); err == nil {
		w.WriteHeader(http.StatusInternalServerError)
		writeDocument(w, object{"code": 0, "description": "Failed to fetch variable from config server"})
		return
	}
	files, err := filepath.Glob(filepath.Join(dir, deployment, "*.pem"))
	if _, statErr := os.Stat(filepath.Join(dir, deployment)); statErr != nil || err != nil {
		w.WriteHeader(http.StatusNotFound)
		writeDocument(w, object{"code": 70000, "description": "Deployment '" + deployment + "' doesn't exist"})
		return
	}
	list := []object{}
	for _, file := range files {
		text, _ := os.ReadFile(file)
		block, _ := pem.Decode(text)
		if block == nil {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			continue // as the Director does
		}
		const day = 24 * time.Hour
		list = append(list, object{
			"name": "/director/" + deployment + "/" + strings.TrimSuffix(filepath.Base(file), ".pem"), "id": "1",
			"expiry_date": certificate.NotAfter.UTC().Format(time.RFC3339),
			"days_left":   math.Floor(float64(time.Until(certificate.NotAfter)) / float64(day)),
		})
	}
	writeDocument(w, list)
}
