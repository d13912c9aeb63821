package backends_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"service-adapter/spec/kit/process"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/internal/odb"
	"service-adapter/spec/kit/servers"
)

type object = map[string]any

// The kinds of stores.
const (
	local = "local"
	pg    = "pg"
	s3    = "s3"
	gcs   = "gcs"
	azure = "azurerm"
)

// The service and plan of the pak.
const (
	entriesService = "0b6a9c1e-6f0b-4c57-9a52-0d3c8f1b7e01"
	entriesPlan    = "0b6a9c1e-6f0b-4c57-9a52-0d3c8f1b7e11"
)

// world is the state backend and what bindings made outside, whichever machine an adapter runs on.
type world struct {
	dir      string
	entries  string // where the provider "directory" keeps its resources
	kind     string
	server   *servers.Server // nil for local
	place    string          // the directory, database or bucket of the states
	key      string          // of the encryption in base64, "" without
	env      []string        // what adapters need to reach the server
	secrets  []string        // of the backend and the encryption
	machines []*machine
}

// newWorld makes a world with an empty store. Those of one kind use the same store one after the other, so that what
// OpenTofu prepared for it is of use to all of them.
func newWorld(ctx context.Context, kind string) *world {
	GinkgoHelper()
	suite.worlds++
	w := &world{kind: kind, dir: filepath.Join(suite.dir, fmt.Sprintf("w%d", suite.worlds)), place: "states"}
	w.entries = filepath.Join(w.dir, "entries")
	Expect(os.MkdirAll(w.entries, 0o700)).To(Succeed())
	switch kind {
	case local:
		w.place = filepath.Join(suite.dir, "states")
	default:
		w.server = suite.servers[kind].Get(GinkgoT())
		w.makePlace(ctx)
	}
	if w.server != nil && w.server.Password != "" {
		w.secrets = append(w.secrets, w.server.Password)
	}
	if kind == azure {
		w.env = w.server.AzureCloud(GinkgoT())
	}
	DeferCleanup(w.remove)
	return w
}

// makePlace makes the database or bucket of the states where it is not there.
func (w *world) makePlace(ctx context.Context) {
	GinkgoHelper()
	if suite.made[w.kind] {
		return
	}
	switch w.kind {
	case pg:
		Expect(w.server.CreateDatabase(ctx, w.place)).To(Succeed())
	case azure:
		Expect(w.server.CreateContainer(ctx, w.place)).To(Succeed())
	default:
		Expect(w.server.CreateBucket(w.place)).To(Succeed())
	}
	suite.made[w.kind] = true
}

// encrypt makes the machines of the world encrypt their states.
func (w *world) encrypt() {
	key := make([]byte, 32)
	_, err := rand.Read(key)
	Expect(err).NotTo(HaveOccurred())
	w.key = base64.StdEncoding.EncodeToString(key)
	w.secrets = append(w.secrets, w.key)
}

// state is the part of the adapter's configuration.
func (w *world) state() object {
	state := object{"type": w.kind}
	switch w.kind {
	case local:
		state["config"] = object{"dir": w.place}
	case pg:
		state["config"] = object{"conn_str": w.server.DSN(w.place)}
	case s3:
		state["config"] = object{
			"bucket": w.place, "key": "state", "region": "us-east-1", "access_key": w.server.User,
			"secret_key": w.server.Password,
			"endpoints":  object{"s3": w.server.URL()}, "use_path_style": true, "skip_credentials_validation": true,
			"skip_requesting_account_id": true, "skip_region_validation": true, "skip_metadata_api_check": true,
			"max_retries": 1,
		}
	case gcs:
		state["config"] = object{
			"bucket": w.place, "prefix": "adapter", "access_token": "any",
			"storage_custom_endpoint": w.server.URL() + "/storage/v1/",
		}
	case azure:
		state["config"] = object{
			"storage_account_name": w.server.User, "container_name": w.place, "key": "state",
			"access_key":    w.server.Password,
			"metadata_host": servers.AzureMetadata,
		}
	}
	if w.key != "" {
		state["encryption"] = object{"key": w.key}
	}
	return state
}

// What OpenTofu makes of the default workspace when it is used for a list.
const (
	gcsDefault   = "adapter/default.tfstate"
	azureDefault = "state"
)

// stored is what is in the store, as the server sees it: rows, objects and files.
func (w *world) stored() []string {
	GinkgoHelper()
	switch w.kind {
	case pg:
		rows, err := w.server.Query(context.Background(), w.place,
			"SELECT name FROM pg_tables t, LATERAL (SELECT name FROM terraform_remote_state.states) s WHERE "+
				"t.tablename = 'states' ORDER BY name")
		if err != nil && strings.Contains(err.Error(), "does not exist") { // nobody used it yet
			return nil
		}
		Expect(err).NotTo(HaveOccurred())
		return rows
	case s3, gcs:
		keys, err := w.server.Objects(w.place)
		Expect(err).NotTo(HaveOccurred())
		return slices.DeleteFunc(keys, func(key string) bool { return key == gcsDefault })
	case azure:
		blobs, err := w.server.Blobs(context.Background(), w.place)
		Expect(err).NotTo(HaveOccurred())
		return slices.DeleteFunc(blobs, func(name string) bool { return name == azureDefault })
	default:
		found, err := filepath.Glob(filepath.Join(w.place, "workspaces", "*"))
		Expect(err).NotTo(HaveOccurred())
		return found
	}
}

// copyStates copies the stored states of pg into a new table, and returns its name. All worlds of pg use one database,
// so the table belongs to this world alone, and it is removed when the spec ends.
func (w *world) copyStates(ctx context.Context) (table string) {
	GinkgoHelper()
	table = "copy_of_" + filepath.Base(w.dir)
	_, err := w.server.Query(ctx, w.place, "CREATE TABLE "+table+" AS SELECT * FROM terraform_remote_state.states")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(w.server.Query, w.place, "DROP TABLE "+table)
	return table
}

// text is the stored state of a binding.
func (w *world) text(id string) string {
	GinkgoHelper()
	switch w.kind {
	case pg:
		rows, err := w.server.Query(context.Background(), w.place,
			"SELECT data FROM terraform_remote_state.states WHERE name = 'b-"+id+"'")
		Expect(err).NotTo(HaveOccurred())
		return strings.Join(rows, "\n")
	case s3:
		return read(w.object("env:", "b-"+id, "state"))
	case gcs:
		return read(w.object("adapter", "b-"+id+".tfstate"))
	case azure:
		text, err := w.server.Blob(context.Background(), w.place, "stateenv:b-"+id)
		Expect(err).NotTo(HaveOccurred())
		return text
	default:
		return read(filepath.Join(w.place, "workspaces", "b-"+id, "terraform.tfstate"))
	}
}

func (w *world) object(elements ...string) string {
	return filepath.Join(append([]string{w.server.Dir, "buckets", w.place}, elements...)...)
}

// locked tells whether there is a lock of a binding in s3.
func (w *world) locked(id string) bool {
	_, err := os.Stat(w.object("env:", "b-"+id, "state.tflock"))
	return err == nil
}

// forgeLock changes since when the lock of a binding in s3 is held.
func (w *world) forgeLock(id string, created time.Time) {
	GinkgoHelper()
	w.forgeLockOf("b-"+id, created)
}

// forgeLockOf is forgeLock for a workspace.
func (w *world) forgeLockOf(workspace string, created time.Time) {
	GinkgoHelper()
	path := w.object("env:", workspace, "state.tflock")
	var info object
	Expect(json.Unmarshal([]byte(read(path)), &info)).To(Succeed())
	info["Created"] = created
	text, err := json.Marshal(info)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(path, text, 0o600)).To(Succeed())
}

// stop stops the server of the store; it runs again when the spec ends, at the latest.
func (w *world) stop() {
	GinkgoHelper()
	Expect(w.server.Stop()).To(Succeed())
	DeferCleanup(func(ctx context.Context) {
		Expect(w.server.Stop()).To(Succeed())
		w.start(ctx)
	})
}

func (w *world) start(ctx context.Context) {
	GinkgoHelper()
	Expect(w.server.Start(context.WithoutCancel(ctx))).To(Succeed())
	if w.kind == pg {
		Eventually(func() error { // it listens before it answers
			_, err := w.server.Query(ctx, w.place, "SELECT 1")
			return err
		}).Should(Succeed())
	}
}

// resources are the entries that exist outside.
func (w *world) resources() []string {
	GinkgoHelper()
	var names []string
	for _, name := range list(w.entries) {
		if !strings.HasPrefix(name, ".") {
			names = append(names, name)
		}
	}
	return names
}

// works tells whether a credential is that of an account which exists, with its grant.
func (w *world) works(id string, secret any) {
	GinkgoHelper()
	var account object
	Expect(json.Unmarshal([]byte(read(filepath.Join(w.entries, id+"-account"))), &account)).To(Succeed())
	Expect(account["secret"]).To(Equal(secret))
	Expect(filepath.Join(w.entries, id+"-grant")).To(BeARegularFile())
}

// expectNothingLeft asserts that no resource, state, lock, scratch directory, temporary file or process is left.
func (w *world) expectNothingLeft() {
	GinkgoHelper()
	Expect(w.resources()).To(BeEmpty(), "resources outside")
	Expect(w.stored()).To(BeEmpty(), "the store")
	for _, m := range w.machines {
		Eventually(m.processes).Should(BeEmpty(), "processes")
		m.expectTidy()
	}
}

// remove removes the world, and what a failed spec left in the store.
func (w *world) remove(ctx context.Context) {
	GinkgoHelper()
	for _, m := range w.machines {
		process.End(m.dir)
	}
	switch w.kind {
	case pg:
		if len(w.stored()) > 0 {
			_, err := w.server.Query(ctx, w.place, "DELETE FROM terraform_remote_state.states")
			Expect(err).NotTo(HaveOccurred())
		}
	case s3:
		Expect(os.RemoveAll(w.object("env:"))).To(Succeed())
	case gcs:
		Expect(os.RemoveAll(w.object("adapter"))).To(Succeed())
	case azure:
		for _, name := range w.stored() {
			Expect(w.server.RemoveBlob(ctx, w.place, name)).To(Succeed())
		}
	default:
		Expect(os.RemoveAll(w.place)).To(Succeed())
	}
	Expect(os.RemoveAll(w.dir)).To(Succeed())
}

// instance returns a service instance as the broker knows it before it is deployed.
func instance(id string) *odb.Instance {
	plan := object{
		"properties": object{}, "lifecycle_errands": object{},
		"instance_groups": []any{object{
			"name": "server", "vm_type": "small", "instances": 1, "networks": []string{"default"},
			"azs": []string{"z1"},
		}},
	}
	return &odb.Instance{
		ID: id, ServiceID: entriesService, PlanID: entriesPlan, Plan: plan,
		Deployment: serviceadapter.ServiceDeployment{
			DeploymentName: "service-instance_" + id,
			Releases: serviceadapter.ServiceReleases{{
				Name: "entries", Version: "1.2.3",
				Jobs: []string{"server"},
			}},
			Stemcells: []serviceadapter.Stemcell{{OS: "ubuntu-jammy", Version: "1.1"}},
		},
		VMs: map[string][]string{"server": {"10.0.8.5"}},
	}
}

// list is the names in a directory, sorted; none when it does not exist.
func list(dir string) []string {
	GinkgoHelper()
	entries, err := os.ReadDir(dir)
	if !os.IsNotExist(err) {
		Expect(err).NotTo(HaveOccurred())
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func read(path string) string {
	GinkgoHelper()
	text, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}
