package servers_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"service-adapter/spec/servers"
)

// reachable is a directory that PostgreSQL's user can reach, too: those of testing.T are for one's own.
func reachable(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "servers-") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // see above
		t.Fatal(err)
	}
	return dir
}

// skipMissing skips the test where a program cannot be installed and fails it elsewhere.
func skipMissing(t *testing.T, err error) {
	t.Helper()
	if errors.Is(err, servers.ErrMissing) && os.Geteuid() != 0 {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestPostgreSQLKeepsItsDataAndWantsAPassword(t *testing.T) {
	s, err := servers.PostgreSQL(t.Context(), filepath.Join(reachable(t), "postgresql"))
	skipMissing(t, err)
	t.Cleanup(func() { _ = s.Kill() })
	query := func(statements string) string {
		t.Helper()
		rows, err := s.Query(context.WithoutCancel(t.Context()), "things", statements)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(rows, "\n")
	}
	if err := s.CreateDatabase(t.Context(), "things"); err != nil {
		t.Fatal(err)
	}
	query("CREATE TABLE t (a int, b text); INSERT INTO t VALUES (1, 'one')")
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Query(t.Context(), "things", "SELECT 1"); err == nil {
		t.Error("a stopped server answers")
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := query("SELECT * FROM t"); got != "1|one" {
		t.Errorf("after a restart the row is %q", got)
	}
	other := &servers.Server{Host: s.Host, Port: s.Port, User: s.User, Password: "wrong"}
	if _, err := other.Query(t.Context(), "things", "SELECT 1"); err == nil {
		t.Error("any password is right")
	}
}

func TestS3AnswersAndStops(t *testing.T) {
	s, err := servers.S3(t.Context(), reachable(t))
	skipMissing(t, err)
	t.Cleanup(func() { _ = s.Kill() })
	if err := s.CreateBucket("states"); err != nil {
		t.Fatal(err)
	}
	get := func() (string, error) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL()+"/states", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return "", err
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		return string(text), err
	}
	text, err := get()
	if err != nil || !strings.Contains(text, "AccessDenied") {
		t.Errorf("a request without credentials gave %q, %v", text, err)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := get(); err == nil {
		t.Error("a stopped server answers")
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := get(); err != nil {
		t.Error(err)
	}
}
