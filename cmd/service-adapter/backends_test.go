package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"service-adapter/spec/kit"
	"service-adapter/spec/kit/servers"
)

// TestOperatorsBackends plays the commands of operators against the backends that are no directory.
func TestOperatorsBackends(t *testing.T) {
	start := map[string]servers.Starter{"pg": servers.PostgreSQL, "s3": servers.S3}
	for name, begin := range map[string]func(*testing.T, *servers.Server) (map[string]any, error){
		"pg": func(t *testing.T, server *servers.Server) (map[string]any, error) {
			return map[string]any{"conn_str": server.DSN("states")}, server.CreateDatabase(t.Context(), "states")
		},
		"s3": func(_ *testing.T, server *servers.Server) (map[string]any, error) {
			return map[string]any{
				"bucket": "states", "key": "state", "region": "us-east-1", "access_key": server.User, "secret_key": server.Password,
				"endpoints": map[string]any{"s3": server.URL()}, "use_path_style": true, "skip_credentials_validation": true,
				"skip_requesting_account_id": true, "skip_region_validation": true, "skip_metadata_api_check": true,
			}, server.CreateBucket("states")
		},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "pg" && !kit.All() {
				t.Skip("SPECS=all runs it, too")
			}
			config, err := begin(t, servers.Run(t, start[name]))
			if err != nil {
				t.Fatal(err)
			}
			playOperator(t, name, config)
		})
	}
}

// playOperator has three bindings and an instance listed, shown, exported, encrypted, unlocked and removed.
func playOperator(t *testing.T, kind string, config map[string]any) {
	t.Helper()
	site := newOperatorsSite(t)
	configure := func(encryption string) {
		state, err := json.Marshal(map[string]any{"type": kind, "config": config})
		if err != nil {
			t.Fatal(err)
		}
		site.environment = slices.DeleteFunc(site.environment, func(text string) bool { return strings.HasPrefix(text, "SERVICE_ADAPTER_STATE=") })
		site.environment = append(site.environment, "SERVICE_ADAPTER_STATE="+strings.TrimSuffix(string(state), "}")+encryption+"}")
	}
	said := func(command, input string, wanted ...string) {
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
	for _, id := range []string{"b1", "b2", "b 3"} {
		said("create-binding", strings.Replace(readFile(t, "cmd/service-adapter/testdata/operations/create-binding.json"), `"b1"`, `"`+id+`"`, 1), "planted-s3cret")
	}
	said("generate-manifest", readFile(t, "cmd/service-adapter/testdata/operations/generate-manifest.json"))

	said("bindings list", "", "b1 ", "b2 ", "b 3 ", "3 bindings")
	said("instance list --json", "", `"condition": "complete"`)
	said("bindings show 'b 3' --credentials", "", "planted-s3cret")
	said("bindings unlock b1", "", "is not locked")
	said("bindings delete b9", "", "there is none")
	configure(`, "encryption": {"key": "` + strings.Repeat("A", 43) + `="}`)
	said("bindings reencrypt --accept-unencrypted", "", "4 encrypted")
	said("bindings reencrypt", "", "4 current")
	said("bindings export backup", "", "4 written, 0 unreadable")
	said("bindings import backup", "", "4 current")
	said("bindings upgrade --all", "", "3 current")
	said("bindings delete b1", "", "binding b1: deleted")
	said("bindings delete --all --forget", "", "2 forgotten")
	said("instance destroy i1", "", "instance i1: destroyed")
	said("bindings export none", "", "0 written, 0 unreadable")
	said("bindings reencrypt", "", "nothing to do") // there is not even an empty state
}
