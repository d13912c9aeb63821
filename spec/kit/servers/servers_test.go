package servers_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"service-adapter/spec/kit/servers"
)

func TestPostgreSQLKeepsItsDataAndWantsAPassword(t *testing.T) {
	s := servers.Run(t, servers.PostgreSQL)
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
		t.Error("a stopped server responds")
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := query("SELECT * FROM t"); got != "1|one" {
		t.Errorf("after a restart the row is %q", got)
	}
	other := &servers.Server{Host: s.Host, Port: s.Port, User: s.User, Password: "wrong"}
	if _, err := other.Query(t.Context(), "things", "SELECT 1"); err == nil {
		t.Error("the server accepts a wrong password")
	}
}

func TestMariaDBKeepsItsDataAndNewPasswords(t *testing.T) {
	var s *servers.MariaServer
	certificates := servers.NewCertificates(t, "localhost")
	servers.Run(t, func(ctx context.Context, dir string) (*servers.Server, error) {
		started, err := servers.MariaDB(ctx, dir, certificates)
		if err != nil {
			return nil, err
		}
		s = started
		return started.Server, nil
	})
	query := func(statements, expected string) {
		t.Helper()
		rows, err := s.Query(t.Context(), statements)
		if got := strings.Join(rows, "\n"); err != nil || got != expected {
			t.Errorf("%s: %q, %v", statements, got, err)
		}
	}
	query("CREATE DATABASE things; CREATE TABLE things.t (a INT, b TEXT); INSERT INTO things.t VALUES (1, 'one')", "")
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Query(t.Context(), "SELECT 1"); err == nil {
		t.Error("a stopped server responds")
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	query("SELECT * FROM things.t", "1\tone")
	query("SELECT user, host, ssl_type FROM mysql.user WHERE user = 'admin'", "admin\t%\t")
	query("SELECT @@require_secure_transport", "1")
	const odd = `a"'\#ü `
	if err := s.SetPassword(t.Context(), odd); err != nil || s.Password != odd {
		t.Error(s.Password, err)
	}
}

func TestS3AnswersAndStops(t *testing.T) {
	s := servers.Run(t, servers.S3)
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
		t.Errorf("a request without credentials returned %q, %v", text, err)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := get(); err == nil {
		t.Error("a stopped server responds")
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := get(); err != nil {
		t.Error(err)
	}
}
