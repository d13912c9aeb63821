package tofu_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/tofu"
	"service-adapter/spec/kit/servers"
)

// store is a state backend that is empty when a spec begins.
type store struct {
	backend tofu.Backend
	server  *servers.Server // nil for local
	secrets []string
	left    func() []string // what is in it, as the server sees it: rows, objects, files
	object  func(key string) string
}

// The servers of the suite; the first spec that needs one starts it.
var shared = struct {
	servers map[string]*servers.Shared
	stores  int
}{servers: map[string]*servers.Shared{"pg": {Start: servers.PostgreSQL}, "s3": {Start: servers.S3}}}

var _ = AfterSuite(func() {
	for _, server := range shared.servers {
		server.Close()
	}
})

// running returns the server of a kind of store.
func running(kind string) *servers.Server {
	GinkgoHelper()
	shared.stores++
	return shared.servers[kind].Get(GinkgoT())
}

// newStore returns an empty state backend: local, pg or s3.
func newStore(ctx context.Context, kind string) store {
	GinkgoHelper()
	switch kind {
	case "pg":
		server := running("pg")
		database := fmt.Sprintf("states%d", shared.stores)
		Expect(server.CreateDatabase(ctx, database)).To(Succeed())
		return store{
			backend: tofu.Backend{Type: "pg", Config: map[string]any{"conn_str": server.DSN(database)}},
			server:  server, secrets: []string{server.Password},
			left: func() []string {
				GinkgoHelper()
				rows, err := server.Query(context.Background(), database, "SELECT name FROM terraform_remote_state.states ORDER BY name")
				Expect(err).NotTo(HaveOccurred())
				return rows
			},
		}
	case "s3":
		server := running("s3")
		bucket := fmt.Sprintf("states%d", shared.stores)
		Expect(server.CreateBucket(bucket)).To(Succeed())
		return store{
			backend: tofu.Backend{Type: "s3", Config: map[string]any{
				"bucket": bucket, "key": "state", "region": "us-east-1", "access_key": server.User, "secret_key": server.Password,
				"endpoints": map[string]any{"s3": server.URL()}, "use_path_style": true, "skip_credentials_validation": true,
				"skip_requesting_account_id": true, "skip_region_validation": true, "skip_metadata_api_check": true, "max_retries": 1,
			}},
			server: server, secrets: []string{server.User, server.Password},
			left: func() []string {
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
			backend: tofu.Local(dir),
			left: func() []string {
				GinkgoHelper()
				found, err := filepath.Glob(filepath.Join(dir, "workspaces", "*"))
				Expect(err).NotTo(HaveOccurred())
				return found
			},
		}
	}
}

// stop stops the server of the store; it runs again when the spec ends, at the latest.
func (s store) stop() {
	GinkgoHelper()
	Expect(s.server.Stop()).To(Succeed())
	DeferCleanup(func(ctx context.Context) {
		Expect(s.server.Stop()).To(Succeed())
		Expect(s.server.Start(ctx)).To(Succeed())
	})
}

// lockObject is the key of the lock of a workspace in s3.
func lockObject(name string) string { return "env:/" + name + "/state.tflock" }

// setCreated changes since when a lock in s3 is held, and that another host holds it.
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
