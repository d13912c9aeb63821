package statestore_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/statestore"
	"service-adapter/spec/kit"
	"service-adapter/spec/kit/servers"
)

func TestMain(m *testing.M) {
	if os.Getenv(helperVariable) != "" {
		os.Exit(helper())
	}
	os.Exit(m.Run())
}

func TestStatestore(t *testing.T) {
	kit.Suite(t, "statestore")
}

// backend is a backend of OpenTofu for the states of a spec.
type backend struct {
	kind    string // local or pg
	address string // the workspace_dir or the connection string
}

// store returns a new store of the backend.
func (p backend) store() (statestore.Store, error) {
	if p.kind == "local" {
		return statestore.Local(p.address), nil
	}
	return statestore.Postgres(map[string]any{"conn_str": p.address})
}

// file returns the path of a file of a workspace in a local backend.
func (p backend) file(workspace, name string) string {
	return filepath.Join(p.address, workspace, name)
}

// shared is the PostgreSQL server of the suite and the number of databases that the specs created in it.
var shared = struct {
	server    servers.Shared
	databases int
}{server: servers.Shared{Start: servers.PostgreSQL}}

var _ = AfterSuite(shared.server.Close)

// server returns the running PostgreSQL server of the suite.
func server() *servers.Server {
	GinkgoHelper()
	return shared.server.Get(GinkgoT())
}

// newBackend returns an empty backend of a kind. The table of a backend pg exists.
func newBackend(ctx context.Context, kind string) backend {
	GinkgoHelper()
	if kind == "local" {
		return backend{kind, filepath.Join(GinkgoT().TempDir(), "workspaces")}
	}
	p := newDatabase(ctx)
	p.query(ctx, `CREATE SCHEMA terraform_remote_state`)
	p.query(ctx, `CREATE SEQUENCE public.global_states_id_seq AS bigint`)
	p.query(ctx, `CREATE TABLE terraform_remote_state.states (
		id bigint NOT NULL DEFAULT nextval('public.global_states_id_seq') PRIMARY KEY, name text UNIQUE, data text)`)
	return p
}

// newDatabase returns a backend pg whose table does not exist.
func newDatabase(ctx context.Context) backend {
	GinkgoHelper()
	shared.databases++
	name := fmt.Sprintf("states%d", shared.databases)
	Expect(server().CreateDatabase(ctx, name)).To(Succeed())
	return backend{"pg", server().DSN(name)}
}

// session opens a session in the database of a backend pg. The session ends with the spec.
func (p backend) session(ctx context.Context) *sql.Conn {
	GinkgoHelper()
	database, err := sql.Open("postgres", p.address)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(database.Close)
	session, err := database.Conn(ctx)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { _ = session.Close() }) // a spec may have closed it
	return session
}

// query runs an SQL statement in a session of its own.
func (p backend) query(ctx context.Context, statement string) {
	GinkgoHelper()
	session := p.session(ctx)
	_, err := session.ExecContext(ctx, statement)
	Expect(err).NotTo(HaveOccurred())
	Expect(session.Close()).To(Succeed())
}

// newStore returns a new store of a backend.
func newStore(p backend) statestore.Store {
	GinkgoHelper()
	store, err := p.store()
	Expect(err).NotTo(HaveOccurred())
	return store
}

// process is a running helper: the test binary, executed with helperVariable.
type process struct {
	*exec.Cmd
	input  io.WriteCloser
	output *bufio.Scanner
}

// start starts a helper, which is killed when the spec ends. The first argument is its task. See runTask.
func start(p backend, arguments ...string) process {
	GinkgoHelper()
	cmd := exec.Command(os.Args[0], arguments...)
	cmd.Env = []string{helperVariable + "=" + p.kind + " " + p.address}
	cmd.Stderr = GinkgoWriter
	input, err := cmd.StdinPipe()
	Expect(err).NotTo(HaveOccurred())
	output, err := cmd.StdoutPipe()
	Expect(err).NotTo(HaveOccurred())
	Expect(cmd.Start()).To(Succeed())
	h := process{cmd, input, bufio.NewScanner(output)}
	DeferCleanup(h.kill)
	return h
}

// line returns the next line that the helper writes to stdout.
func (h process) line() string {
	GinkgoHelper()
	Expect(h.output.Scan()).To(BeTrue(), "the helper ended without a further line")
	return h.output.Text()
}

// kill kills the helper, if it has not ended, and waits for it.
func (h process) kill() {
	_ = h.Process.Kill()
	_ = h.Wait()
}

// state returns a state in OpenTofu's format whose output "value" starts with this value. It has at least size bytes.
func state(value string, size int) []byte {
	const lineage = "5f6a3c8e-7d0c-4a53-9a1e-0d3e7c1b2a49"
	text := `{"version":4,"terraform_version":"1.6.0","serial":1,"lineage":"` + lineage + `",` +
		`"outputs":{"value":{"value":"%s%s","type":"string"}},"resources":[],"check_results":null}`
	return fmt.Appendf(nil, text, value, strings.Repeat("-", max(0, size-len(text))))
}
