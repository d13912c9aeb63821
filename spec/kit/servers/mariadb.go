package servers

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// mariadbd is the server program of Debian's package.
const mariadbd = "/usr/sbin/mariadbd"

// MariaServer is a MariaDB server. Its User is an administrator who can log in from any host. Over TCP it accepts TLS
// connections only.
type MariaServer struct {
	*Server

	// Statements is the path of the general query log, in which the server records every statement of every session.
	Statements string

	socket string // path of the Unix socket, where root needs no password
}

// MariaDB creates a server with an empty data directory in dir, which must not exist or must be empty, and starts it
// with these certificates. If the test runs as root, the server runs as the user mysql of Debian's package, who must be
// able to search every directory above dir. The error is an ErrMissing if the package is not installed.
func MariaDB(ctx context.Context, dir string, certificates Certificates) (*MariaServer, error) {
	if _, err := os.Stat(mariadbd); err != nil {
		return nil, fmt.Errorf("finding MariaDB: %w: run scripts/install mariadb-server", ErrMissing)
	}
	as, err := account("mysql")
	if err != nil {
		return nil, err
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	m := &MariaServer{
		Statements: filepath.Join(dir, "statements"), socket: filepath.Join(dir, "socket"),
		Server: &Server{
			Host: "127.0.0.1", Port: port, User: "admin", Password: rand.Text(), Dir: dir,
			log: filepath.Join(dir, "log"), stop: syscall.SIGTERM,
		},
	}
	data := filepath.Join(dir, "data")
	m.command = func() *exec.Cmd {
		cmd := exec.Command(mariadbd, "--no-defaults", "--datadir="+data, "--socket="+m.socket,
			"--bind-address="+m.Host, "--port="+strconv.Itoa(m.Port), "--skip-name-resolve",
			"--require-secure-transport=ON", "--ssl-cert="+filepath.Join(dir, "server.pem"),
			"--ssl-key="+filepath.Join(dir, "server.key"), "--general-log", "--general-log-file="+m.Statements,
			"--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=32M", "--skip-log-bin")
		cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Credential: as}
		return cmd
	}
	m.ready = func(ctx context.Context) error {
		_, err := m.Query(ctx, "SELECT 1")
		return err
	}
	if err := m.initialise(ctx, data, certificates, as); err != nil {
		return nil, fmt.Errorf("creating a MariaDB server: %w", err)
	}
	if err := m.Start(ctx); err != nil {
		return nil, err
	}
	return m, m.SetPassword(ctx, m.Password)
}

// initialise writes the certificates and creates the data directory with MariaDB's own tables.
func (s *MariaServer) initialise(
	ctx context.Context, data string, certificates Certificates, as *syscall.Credential,
) error {
	files := map[string]string{"server.pem": certificates.Certificate, "server.key": certificates.Key}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return err
	}
	paths := []string{s.Dir}
	for name, text := range files {
		paths = append(paths, filepath.Join(s.Dir, name))
		if err := os.WriteFile(filepath.Join(s.Dir, name), []byte(text), 0o400); err != nil {
			return err
		}
	}
	for _, path := range paths {
		if as != nil {
			if err := os.Chown(path, int(as.Uid), int(as.Gid)); err != nil {
				return err
			}
		}
	}
	install := exec.CommandContext(ctx, "mariadb-install-db", "--no-defaults", "--datadir="+data, "--skip-test-db",
		"--auth-root-authentication-method=normal")
	install.Dir, install.SysProcAttr = s.Dir, &syscall.SysProcAttr{Credential: as}
	if output, err := install.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, output)
	}
	return nil
}

// SetPassword sets the password of the administrator, whom it creates if necessary, and updates the field Password. It
// returns an error if the server cannot be reached.
func (s *MariaServer) SetPassword(ctx context.Context, password string) error {
	quoted := strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(password)
	account := "'" + s.User + "'@'%'"
	_, err := s.Query(ctx, "CREATE USER IF NOT EXISTS "+account+"; ALTER USER "+account+" IDENTIFIED BY '"+quoted+
		"'; GRANT ALL PRIVILEGES ON *.* TO "+account+" WITH GRANT OPTION")
	if err == nil {
		s.Password = password
	}
	return err
}

// Query executes statements as root and returns the rows as lines, with columns separated by tabs. The error contains
// the client's standard error. It occurs if a statement fails or the server cannot be reached.
func (s *MariaServer) Query(ctx context.Context, statements string) ([]string, error) {
	client := exec.CommandContext(ctx, "mariadb", "--no-defaults", "--socket="+s.socket, "--user=root", "--batch",
		"--skip-column-names", "--default-character-set=utf8mb4")
	client.Stdin = strings.NewReader(statements)
	return rows(client, "MariaDB")
}
