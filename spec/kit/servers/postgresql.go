package servers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// PostgreSQL creates a cluster in dir, which must not exist or must be empty, and starts it. Every connection needs the
// password of its role. PostgreSQL does not run as root; if the test does, the server runs as the user postgres of
// Debian's package, who must be able to search every directory above dir. The error is an ErrMissing if the package is
// not installed.
func PostgreSQL(ctx context.Context, dir string) (*Server, error) {
	programs, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(programs) == 0 {
		return nil, fmt.Errorf("finding PostgreSQL: %w: run scripts/install postgresql", ErrMissing)
	}
	bin := filepath.Dir(programs[len(programs)-1])
	as, err := account("postgres")
	if err != nil {
		return nil, err
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	s := &Server{
		Host: "127.0.0.1", Port: port, User: "admin", Password: rand.Text(), Dir: dir,
		log: filepath.Join(dir, "log"), stop: syscall.SIGINT, // a fast shutdown
	}
	s.command = func() *exec.Cmd {
		cmd := exec.Command(filepath.Join(bin, "postgres"), "-D", data, "-h", s.Host, "-p", strconv.Itoa(s.Port),
			"-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "max_connections=200")
		cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Credential: as}
		return cmd
	}
	// The server accepts connections while it is starting, but rejects every statement until it is ready.
	s.ready = func(ctx context.Context) error {
		_, err := s.Query(ctx, "postgres", "SELECT 1")
		return err
	}
	if err := s.initialise(ctx, bin, data, as); err != nil {
		return nil, fmt.Errorf("creating a PostgreSQL cluster: %w", err)
	}
	if err := s.Start(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// initialise creates the files of the cluster. It returns an error with the output of initdb if initdb fails.
func (s *Server) initialise(ctx context.Context, bin, data string, as *syscall.Credential) error {
	password := filepath.Join(s.Dir, "password")
	err := errors.Join(os.MkdirAll(s.Dir, 0o700), os.WriteFile(password, []byte(s.Password+"\n"), 0o600))
	if err == nil && as != nil {
		err = errors.Join(os.Chown(s.Dir, int(as.Uid), int(as.Gid)), os.Chown(password, int(as.Uid), int(as.Gid)))
	}
	if err != nil {
		return err
	}
	initdb := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", data, "--no-sync", "--encoding=UTF8",
		"--locale=C",
		"--auth=scram-sha-256", "--username="+s.User, "--pwfile="+password)
	initdb.Dir, initdb.SysProcAttr = s.Dir, &syscall.SysProcAttr{Credential: as}
	if output, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, output)
	}
	return os.Remove(password)
}

// DSN returns the URL of a PostgreSQL database, including the password.
func (s *Server) DSN(database string) string {
	dsn := url.URL{
		Scheme: "postgres", User: url.UserPassword(s.User, s.Password), Host: s.Address(), Path: database,
		RawQuery: "sslmode=disable",
	}
	return dsn.String()
}

// CreateDatabase creates an empty PostgreSQL database. It returns an error if the database exists or the server cannot
// be reached.
func (s *Server) CreateDatabase(ctx context.Context, name string) error {
	_, err := s.Query(ctx, "postgres", `CREATE DATABASE "`+name+`"`)
	return err
}

// Query runs statements with psql and returns the rows as lines, with columns separated by "|". The error contains
// psql's standard error.
func (s *Server) Query(ctx context.Context, database, statements string) ([]string, error) {
	psql := exec.CommandContext(ctx, "psql", "--no-psqlrc", "--quiet", "--tuples-only", "--no-align",
		"--set=ON_ERROR_STOP=1",
		"--host="+s.Host, "--port="+strconv.Itoa(s.Port), "--username="+s.User, "--dbname="+database)
	psql.Env = append(os.Environ(), "PGPASSWORD="+s.Password, "PGSSLMODE=disable")
	psql.Stdin = strings.NewReader(statements)
	return rows(psql, "PostgreSQL")
}

// UseCertificates configures a running PostgreSQL server to accept TLS connections with a certificate, and waits until
// new connections use it. Connections without TLS remain possible. It returns an error if the files cannot be written
// or the server cannot be reached.
func (s *Server) UseCertificates(ctx context.Context, certificates Certificates) error {
	data := filepath.Join(s.Dir, "data")
	info, err := os.Stat(data)
	if err != nil {
		return fmt.Errorf("installing certificates: %w", err)
	}
	for name, text := range map[string]string{"server.crt": certificates.Certificate, "server.key": certificates.Key} {
		name = filepath.Join(data, name)
		err := os.WriteFile(name, []byte(text), 0o600)
		if owner, ok := info.Sys().(*syscall.Stat_t); ok && err == nil {
			err = os.Chown(name, int(owner.Uid), int(owner.Gid))
		}
		if err != nil {
			return fmt.Errorf("installing certificates: %w", err)
		}
	}
	const loadTime = "SELECT pg_conf_load_time()"
	previous, err := s.Query(ctx, "postgres", loadTime)
	if err != nil {
		return err
	}
	// ALTER SYSTEM cannot run in the transaction of several statements.
	if _, err := s.Query(ctx, "postgres", "ALTER SYSTEM SET ssl = on"); err != nil {
		return err
	}
	if _, err := s.Query(ctx, "postgres", "SELECT pg_reload_conf()"); err != nil {
		return err
	}
	// The server reloads asynchronously. A new connection reports when its parent process last did.
	for {
		current, err := s.Query(ctx, "postgres", loadTime)
		if err != nil || !slices.Equal(current, previous) {
			return err
		}
	}
}
