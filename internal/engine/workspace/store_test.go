package workspace_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/backend"
	"service-adapter/spec/kit/servers"
)

// A store is a state backend that is empty when a spec begins.
type store struct {
	backend  backend.Backend
	server   *servers.Server // nil for local
	secrets  []string
	contents func() []string // returns the content as the server reports it: rows, objects or files
	object   func(key string) string
}

// servedStores contains the servers of the suite. The first spec that needs a server starts it.
var servedStores = struct {
	servers map[string]*servers.Shared
	stores  int
}{servers: map[string]*servers.Shared{"pg": {Start: servers.PostgreSQL}, "s3": {Start: servers.S3}}}

var _ = AfterSuite(func() {
	for _, server := range servedStores.servers {
		server.Close()
	}
})

// runningServer returns the server of a kind of store, and starts it if necessary.
func runningServer(kind string) *servers.Server {
	GinkgoHelper()
	servedStores.stores++
	return servedStores.servers[kind].Get(GinkgoT())
}

// newStore returns an empty state backend: local, pg or s3.
func newStore(ctx context.Context, kind string) store {
	GinkgoHelper()
	switch kind {
	case "pg":
		server := runningServer("pg")
		database := fmt.Sprintf("states%d", servedStores.stores)
		Expect(server.CreateDatabase(ctx, database)).To(Succeed())
		return store{
			backend: backend.Backend{Type: "pg", Config: map[string]any{"conn_str": server.DSN(database)}},
			server:  server, secrets: []string{server.Password},
			contents: func() []string {
				GinkgoHelper()
				rows, err := server.Query(context.Background(), database,
					"SELECT name FROM terraform_remote_state.states ORDER BY name")
				Expect(err).NotTo(HaveOccurred())
				return rows
			},
		}
	case "s3":
		server := runningServer("s3")
		bucket := fmt.Sprintf("states%d", servedStores.stores)
		Expect(server.CreateBucket(bucket)).To(Succeed())
		return store{
			backend: backend.Backend{Type: "s3", Config: map[string]any{
				"bucket": bucket, "key": "state", "region": "us-east-1", "access_key": server.User,
				"secret_key": server.Password,
				"endpoints":  map[string]any{"s3": server.URL()}, "use_path_style": true,
				"skip_credentials_validation": true,
				"skip_requesting_account_id":  true, "skip_region_validation": true, "skip_metadata_api_check": true,
				"max_retries": 1,
			}},
			server: server, secrets: []string{server.User, server.Password},
			contents: func() []string {
				GinkgoHelper()
				keys, err := server.Objects(bucket)
				Expect(err).NotTo(HaveOccurred())
				return keys
			},
			object: func(key string) string { return filepath.Join(server.Dir, "buckets", bucket, key) },
		}
	default:
		dir := filepath.Join(GinkgoT().TempDir(), "state")
		return store{
			backend: backend.Local(dir),
			contents: func() []string {
				GinkgoHelper()
				found, err := filepath.Glob(filepath.Join(dir, "workspaces", "*"))
				Expect(err).NotTo(HaveOccurred())
				return found
			},
		}
	}
}

// stop stops the server of the store, which is started again at the end of the spec at the latest.
func (s store) stop() {
	GinkgoHelper()
	Expect(s.server.Stop()).To(Succeed())
	DeferCleanup(func(ctx context.Context) {
		Expect(s.server.Stop()).To(Succeed())
		Expect(s.server.Start(ctx)).To(Succeed())
	})
}

// lockObject returns the key of the lock of a workspace in s3.
func lockObject(name string) string { return "env:/" + name + "/state.tflock" }

// setCreated changes a lock in s3 so that another host took it at the given time.
func (s store) setCreated(name string, created time.Time) {
	GinkgoHelper()
	path := s.object(lockObject(name))
	text, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred())
	var info map[string]any
	Expect(json.Unmarshal(text, &info)).To(Succeed())
	info["Created"], info["Who"] = created, "vcap@elsewhere"
	text, err = json.Marshal(info)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(path, text, 0o600)).To(Succeed())
}
