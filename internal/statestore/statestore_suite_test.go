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

	"service-adapter/internal/statestore"
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
	kit.Suite(t, "The store of states")
}

// place is an empty place for states.
type place struct {
	kind  string // local or pg
	where string // the directory or the connection string
}

// store returns a new store of the place.
func (p place) store() (statestore.Store, error) {
	if p.kind == "local" {
		return statestore.Local(p.where), nil
	}
	return statestore.Postgres(map[string]any{"conn_str": p.where})
}

// file is a file of a workspace in a local place.
func (p place) file(workspace, name string) string { return filepath.Join(p.where, workspace, name) }

// shared is the server of the suite and the number of its databases.
var shared = struct {
	server servers.Shared
	places int
}{server: servers.Shared{Start: servers.PostgreSQL}}

var _ = AfterSuite(shared.server.Close)

// server returns PostgreSQL.
func server() *servers.Server {
	GinkgoHelper()
	return shared.server.Get(GinkgoT())
}

// newPlace returns an empty place; that of pg has its table already.
func newPlace(ctx context.Context, kind string) place {
	GinkgoHelper()
	if kind == "local" {
		return place{kind, filepath.Join(GinkgoT().TempDir(), "workspaces")}
	}
	p := newDatabase(ctx)
	p.query(ctx, `CREATE SCHEMA terraform_remote_state`)
	p.query(ctx, `CREATE SEQUENCE public.global_states_id_seq AS bigint`)
	p.query(ctx, `CREATE TABLE terraform_remote_state.states (id bigint NOT NULL DEFAULT nextval('public.global_states_id_seq') PRIMARY KEY,
		name text UNIQUE, data text)`)
	return p
}

// newDatabase returns a place without a table.
func newDatabase(ctx context.Context) place {
	GinkgoHelper()
	shared.places++
	name := fmt.Sprintf("states%d", shared.places)
	Expect(server().CreateDatabase(ctx, name)).To(Succeed())
	return place{"pg", server().DSN(name)}
}

// session opens a session in a database, which ends with the spec.
func (p place) session(ctx context.Context) *sql.Conn {
	GinkgoHelper()
	database, err := sql.Open("postgres", p.where)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(database.Close)
	session, err := database.Conn(ctx)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { _ = session.Close() }) // a spec may have closed it
	return session
}

// query runs a statement.
func (p place) query(ctx context.Context, statement string) {
	GinkgoHelper()
	session := p.session(ctx)
	_, err := session.ExecContext(ctx, statement)
	Expect(err).NotTo(HaveOccurred())
	Expect(session.Close()).To(Succeed())
}

// opened returns the store of a place.
func opened(p place) statestore.Store {
	GinkgoHelper()
	store, err := p.store()
	Expect(err).NotTo(HaveOccurred())
	return store
}

// process is a helper: this program once more.
type process struct {
	*exec.Cmd
	input  io.WriteCloser
	output *bufio.Scanner
}

// start runs a helper, which is killed when the spec ends.
func start(p place, arguments ...string) process {
	GinkgoHelper()
	cmd := exec.Command(os.Args[0], arguments...)
	cmd.Env = []string{helperVariable + "=" + p.kind + " " + p.where}
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

// line is the next line that the helper writes.
func (h process) line() string {
	GinkgoHelper()
	Expect(h.output.Scan()).To(BeTrue(), "the helper ended")
	return h.output.Text()
}

// kill ends the helper as a crash does; it may have ended.
func (h process) kill() {
	_ = h.Process.Kill()
	_ = h.Wait()
}

// state is a state of OpenTofu, with an output, and of about this many bytes.
func state(value string, size int) []byte {
	const lineage = "5f6a3c8e-7d0c-4a53-9a1e-0d3e7c1b2a49"
	text := `{"version":4,"terraform_version":"1.6.0","serial":1,"lineage":"` + lineage + `",` +
		`"outputs":{"value":{"value":"%s%s","type":"string"}},"resources":[],"check_results":null}`
	return fmt.Appendf(nil, text, value, strings.Repeat("-", max(0, size-len(text))))
}
