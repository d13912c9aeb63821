package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"service-adapter/spec/kit"
	"service-adapter/spec/kit/servers"
)

// TestOperatorsBackends runs the commands of operators with the state backends other than local.
func TestOperatorsBackends(t *testing.T) {
	start := map[string]servers.Starter{"pg": servers.PostgreSQL, "s3": servers.S3}
	for name, begin := range map[string]func(*testing.T, *servers.Server) (map[string]any, error){
		"pg": func(t *testing.T, server *servers.Server) (map[string]any, error) {
			return map[string]any{"conn_str": server.DSN("states")}, server.CreateDatabase(t.Context(), "states")
		},
		"s3": func(_ *testing.T, server *servers.Server) (map[string]any, error) {
			return map[string]any{
				"bucket": "states", "key": "state", "region": "us-east-1",
				"access_key": server.User, "secret_key": server.Password,
				"endpoints": map[string]any{"s3": server.URL()}, "use_path_style": true,
				"skip_credentials_validation": true, "skip_requesting_account_id": true,
				"skip_region_validation": true, "skip_metadata_api_check": true,
			}, server.CreateBucket("states")
		},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "pg" {
				kit.SkipSlow(t)
			}
			server := servers.Run(t, start[name])
			config, err := begin(t, server)
			if err != nil {
				t.Fatal(err)
			}
			playOperator(t, name, config)
			if name == "s3" {
				state := filepath.Join(server.Dir, "buckets", "states", "env:", "b-b1", "state")
				showUnreadable(t, server, config, state)
			}
		})
	}
}

// playOperator lists, shows, exports, encrypts, unlocks and removes three bindings and an instance.
func playOperator(t *testing.T, kind string, config map[string]any) {
	t.Helper()
	site := newOperatorsSite(t)
	configure := func(encryption string) {
		state, err := json.Marshal(map[string]any{"type": kind, "config": config})
		if err != nil {
			t.Fatal(err)
		}
		const variable = "SERVICE_ADAPTER_STATE="
		isState := func(text string) bool { return strings.HasPrefix(text, variable) }
		site.environment = slices.DeleteFunc(site.environment, isState)
		site.environment = append(site.environment, variable+strings.TrimSuffix(string(state), "}")+encryption+"}")
	}
	expectOutput := func(command, input string, wanted ...string) {
		t.Helper()
		output, err := site.run("service-adapter "+command, input)
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, output)
		}
		for _, text := range wanted {
			if !strings.Contains(string(output), text) {
				t.Errorf("%s: no %q in\n%s", command, text, output)
			}
		}
	}
	configure("")
	request := readFile(t, "cmd/service-adapter/testdata/operations/create-binding.json")
	for _, id := range []string{"b1", "b2", "b 3"} {
		expectOutput("create-binding", strings.Replace(request, `"b1"`, `"`+id+`"`, 1), "planted-s3cret")
	}
	expectOutput("generate-manifest", readFile(t, "cmd/service-adapter/testdata/operations/generate-manifest.json"))

	expectOutput("bindings list", "", "b1 ", "b2 ", "b 3 ", "3 bindings")
	expectOutput("instance list --json", "", `"condition": "complete"`)
	expectOutput("bindings show 'b 3' --credentials", "", "planted-s3cret")
	locks := map[string]string{"pg": "none", "s3": "not known: the backend s3 does not list them"}[kind]
	expectOutput("status", "", "bindings           3: 3 complete\n", "instances          1: 1 complete\n",
		"locks              "+locks+"\n")
	expectOutput("bindings unlock b1", "", "is not locked")
	expectOutput("bindings delete b9", "", "it does not exist")
	configure(`, "encryption": {"key": "` + strings.Repeat("A", 43) + `="}`)
	expectOutput("bindings reencrypt --accept-unencrypted", "", "4 encrypted")
	expectOutput("bindings reencrypt", "", "4 current")
	expectOutput("bindings export backup", "", "4 written, 0 unreadable")
	expectOutput("bindings import backup", "", "4 current")
	expectOutput("bindings upgrade --all", "", "3 current")
	expectOutput("bindings delete b1", "", "binding b1: deleted")
	expectOutput("bindings delete --all --forget", "", "2 forgotten")
	expectOutput("instance destroy i1", "", "instance i1: destroyed")
	expectOutput("bindings export none", "", "0 written, 0 unreadable")
	expectOutput("bindings reencrypt", "", "nothing to do") // no workspace exists, not even an empty one
}

// showUnreadable damages the state of a binding on S3 in several ways, and expects that `bindings show` reports it as
// unreadable with exit code 1, as `bindings list` does. path is the file in which the server stores the state. If the
// backend does not respond, the exit code is 3.
func showUnreadable(t *testing.T, server *servers.Server, config map[string]any, path string) {
	t.Helper()
	site := newOperatorsSite(t)
	state, err := json.Marshal(map[string]any{"type": "s3", "config": config})
	if err != nil {
		t.Fatal(err)
	}
	site.environment = append(site.environment, "SERVICE_ADAPTER_STATE="+string(state))
	request := readFile(t, "cmd/service-adapter/testdata/operations/create-binding.json")
	if output, err := site.run("service-adapter create-binding", request); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	for _, text := range []string{"", "{", `{"version": 99}`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, command := range []string{"list", "show b1", "show b1 --json"} {
			output, err := site.run("service-adapter bindings "+command, "")
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(output), "unreadable") {
				t.Errorf("%q: bindings %s: %v\n%s", text, command, err, output)
			}
		}
	}
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	output, err := site.run("service-adapter bindings show b1", "")
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 3 || !strings.Contains(string(output), "cannot be used") {
		t.Errorf("bindings show without a backend: %v\n%s", err, output)
	}
}
