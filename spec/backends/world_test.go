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

// object is a JSON object.
type object = map[string]any

// The kinds of state backends.
const (
	local = "local"
	pg    = "pg"
	s3    = "s3"
	gcs   = "gcs"
	azure = "azurerm"
)

// The ids of the service and plan of the pak.
const (
	entriesService = "0b6a9c1e-6f0b-4c57-9a52-0d3c8f1b7e01"
	entriesPlan    = "0b6a9c1e-6f0b-4c57-9a52-0d3c8f1b7e11"
)

// A world contains the state backend and the resources of bindings, which all machines share.
type world struct {
	dir      string
	entries  string // directory in which the provider "directory" stores its resources
	kind     string
	server   *servers.Server // nil for local
	location string          // the directory, database or bucket of the states
	key      string          // base64 of the encryption key, "" without encryption
	env      []string        // environment variables that adapters need to reach the server
	secrets  []string        // of the backend and the encryption
	machines []*machine
}

// newWorld returns a world with an empty state backend. Worlds of one kind use the same backend one after the other, so
// that all of them can use the directories prepared for it.
func newWorld(ctx context.Context, kind string) *world {
	GinkgoHelper()
	suite.worlds++
	w := &world{kind: kind, dir: filepath.Join(suite.dir, fmt.Sprintf("w%d", suite.worlds)), location: "states"}
	w.entries = filepath.Join(w.dir, "entries")
	Expect(os.MkdirAll(w.entries, 0o700)).To(Succeed())
	switch kind {
	case local:
		w.location = filepath.Join(suite.dir, "states")
	default:
		w.server = suite.servers[kind].Get(GinkgoT())
		w.createLocation(ctx)
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

// createLocation creates the database or bucket of the states unless it exists.
func (w *world) createLocation(ctx context.Context) {
	GinkgoHelper()
	if suite.created[w.kind] {
		return
	}
	switch w.kind {
	case pg:
		Expect(w.server.CreateDatabase(ctx, w.location)).To(Succeed())
	case azure:
		Expect(w.server.CreateContainer(ctx, w.location)).To(Succeed())
	default:
		Expect(w.server.CreateBucket(w.location)).To(Succeed())
	}
	suite.created[w.kind] = true
}

// encrypt enables the encryption of states on all machines of the world.
func (w *world) encrypt() {
	key := make([]byte, 32)
	_, err := rand.Read(key)
	Expect(err).NotTo(HaveOccurred())
	w.key = base64.StdEncoding.EncodeToString(key)
	w.secrets = append(w.secrets, w.key)
}

// state returns the key state of the adapter's configuration.
func (w *world) state() object {
	state := object{"type": w.kind}
	switch w.kind {
	case local:
		state["config"] = object{"dir": w.location}
	case pg:
		state["config"] = object{"conn_str": w.server.DSN(w.location)}
	case s3:
		state["config"] = object{
			"bucket": w.location, "key": "state", "region": "us-east-1", "access_key": w.server.User,
			"secret_key": w.server.Password,
			"endpoints":  object{"s3": w.server.URL()}, "use_path_style": true, "skip_credentials_validation": true,
			"skip_requesting_account_id": true, "skip_region_validation": true, "skip_metadata_api_check": true,
			"max_retries": 1,
		}
	case gcs:
		state["config"] = object{
			"bucket": w.location, "prefix": "adapter", "access_token": "any",
			"storage_custom_endpoint": w.server.URL() + "/storage/v1/",
		}
	case azure:
		state["config"] = object{
			"storage_account_name": w.server.User, "container_name": w.location, "key": "state",
			"access_key":    w.server.Password,
			"metadata_host": servers.AzureMetadata,
		}
	}
	if w.key != "" {
		state["encryption"] = object{"key": w.key}
	}
	return state
}

// The objects that OpenTofu creates for the default workspace when it lists workspaces.
const (
	gcsDefault   = "adapter/default.tfstate"
	azureDefault = "state"
)

// stored returns the names of the states in the backend, as rows, objects or files. It reads them directly from the
// server.
func (w *world) stored() []string {
	GinkgoHelper()
	switch w.kind {
	case pg:
		rows, err := w.server.Query(context.Background(), w.location,
			"SELECT name FROM pg_tables t, LATERAL (SELECT name FROM terraform_remote_state.states) s WHERE "+
				"t.tablename = 'states' ORDER BY name")
		if err != nil && strings.Contains(err.Error(), "does not exist") { // no adapter has used the database yet
			return nil
		}
		Expect(err).NotTo(HaveOccurred())
		return rows
	case s3, gcs:
		keys, err := w.server.Objects(w.location)
		Expect(err).NotTo(HaveOccurred())
		return slices.DeleteFunc(keys, func(key string) bool { return key == gcsDefault })
	case azure:
		blobs, err := w.server.Blobs(context.Background(), w.location)
		Expect(err).NotTo(HaveOccurred())
		return slices.DeleteFunc(blobs, func(name string) bool { return name == azureDefault })
	default:
		found, err := filepath.Glob(filepath.Join(w.location, "workspaces", "*"))
		Expect(err).NotTo(HaveOccurred())
		return found
	}
}

// copyStates copies the stored states of pg into a new table, and returns its name. All worlds of pg use one database,
// so the table belongs to this world alone, and it is removed when the spec ends.
func (w *world) copyStates(ctx context.Context) (table string) {
	GinkgoHelper()
	table = "copy_of_" + filepath.Base(w.dir)
	_, err := w.server.Query(ctx, w.location, "CREATE TABLE "+table+" AS SELECT * FROM terraform_remote_state.states")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(w.server.Query, w.location, "DROP TABLE "+table)
	return table
}

// text returns the stored state of a binding.
func (w *world) text(id string) string {
	GinkgoHelper()
	switch w.kind {
	case pg:
		rows, err := w.server.Query(context.Background(), w.location,
			"SELECT data FROM terraform_remote_state.states WHERE name = 'b-"+id+"'")
		Expect(err).NotTo(HaveOccurred())
		return strings.Join(rows, "\n")
	case s3:
		return read(w.object("env:", "b-"+id, "state"))
	case gcs:
		return read(w.object("adapter", "b-"+id+".tfstate"))
	case azure:
		text, err := w.server.Blob(context.Background(), w.location, "stateenv:b-"+id)
		Expect(err).NotTo(HaveOccurred())
		return text
	default:
		return read(filepath.Join(w.location, "workspaces", "b-"+id, "terraform.tfstate"))
	}
}

// object returns the path of an object in the bucket of the S3 server.
func (w *world) object(elements ...string) string {
	return filepath.Join(append([]string{w.server.Dir, "buckets", w.location}, elements...)...)
}

// locked reports whether s3 contains a lock of a binding.
func (w *world) locked(id string) bool {
	_, err := os.Stat(w.object("env:", "b-"+id, "state.tflock"))
	return err == nil
}

// forgeLock changes the creation time of a binding's lock in s3.
func (w *world) forgeLock(id string, created time.Time) {
	GinkgoHelper()
	w.forgeLockOf("b-"+id, created)
}

// forgeLockOf changes the creation time of a workspace's lock in s3.
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

// stop stops the server of the backend. The server is started again at the end of the spec at the latest.
func (w *world) stop() {
	GinkgoHelper()
	Expect(w.server.Stop()).To(Succeed())
	DeferCleanup(func(ctx context.Context) {
		Expect(w.server.Stop()).To(Succeed())
		w.start(ctx)
	})
}

// start starts the server of the backend and waits until it responds.
func (w *world) start(ctx context.Context) {
	GinkgoHelper()
	Expect(w.server.Start(context.WithoutCancel(ctx))).To(Succeed())
	if w.kind == pg {
		Eventually(func() error { // the server listens before it responds
			_, err := w.server.Query(ctx, w.location, "SELECT 1")
			return err
		}).Should(Succeed())
	}
}

// resources returns the names of the entries that exist.
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

// works asserts that the account of a binding exists with this secret, and that its grant exists.
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
	Expect(w.resources()).To(BeEmpty(), "resources")
	Expect(w.stored()).To(BeEmpty(), "states")
	for _, m := range w.machines {
		Eventually(m.processes).Should(BeEmpty(), "processes")
		m.expectTidy()
	}
}

// remove kills the processes of the world, and removes its files and all states.
func (w *world) remove(ctx context.Context) {
	GinkgoHelper()
	for _, m := range w.machines {
		process.End(m.dir)
	}
	switch w.kind {
	case pg:
		if len(w.stored()) > 0 {
			_, err := w.server.Query(ctx, w.location, "DELETE FROM terraform_remote_state.states")
			Expect(err).NotTo(HaveOccurred())
		}
	case s3:
		Expect(os.RemoveAll(w.object("env:"))).To(Succeed())
	case gcs:
		Expect(os.RemoveAll(w.object("adapter"))).To(Succeed())
	case azure:
		for _, name := range w.stored() {
			Expect(w.server.RemoveBlob(ctx, w.location, name)).To(Succeed())
		}
	default:
		Expect(os.RemoveAll(w.location)).To(Succeed())
	}
	Expect(os.RemoveAll(w.dir)).To(Succeed())
}

// instance returns a service instance that has not been deployed, as the broker describes it.
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
			Stemcells: []serviceadapter.Stemcell{{OS: "ubuntu-noble", Version: "1.1"}},
		},
		VMs: map[string][]string{"server": {"10.0.8.5"}},
	}
}

// list returns the sorted names in a directory, and nil if the directory does not exist.
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

// read returns the content of a file.
func read(path string) string {
	GinkgoHelper()
	text, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}
