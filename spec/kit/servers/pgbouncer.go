package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// pgbouncer is the program of Debian's package.
const pgbouncer = "/usr/sbin/pgbouncer"

// PgBouncer starts a connection pooler in front of a PostgreSQL cluster. Its files are in dir, which must not exist or
// must be empty. Mode is its pool_mode: session, transaction or statement. Users, passwords and databases are those of
// the cluster. The error is an ErrMissing if the package is not installed.
func PgBouncer(ctx context.Context, dir string, cluster *Server, mode string) (*Server, error) {
	if _, err := os.Stat(pgbouncer); err != nil {
		return nil, fmt.Errorf("finding PgBouncer: %w: run scripts/install pgbouncer", ErrMissing)
	}
	as, err := account("postgres")
	if err != nil {
		return nil, err
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	config, users := filepath.Join(dir, "pgbouncer.ini"), filepath.Join(dir, "users.txt")
	settings := fmt.Sprintf(`[databases]
* = host=%s port=%d
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = trust
auth_file = %s
pool_mode = %s
ignore_startup_parameters = extra_float_digits
`, cluster.Host, cluster.Port, port, users, mode)
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(config, []byte(settings), 0o600),
		os.WriteFile(users, fmt.Appendf(nil, "%q %q\n", cluster.User, cluster.Password), 0o600)); err != nil {
		return nil, err
	}
	if as != nil {
		for _, path := range []string{dir, config, users} {
			if err := os.Chown(path, int(as.Uid), int(as.Gid)); err != nil {
				return nil, err
			}
		}
	}
	s := &Server{
		Host: "127.0.0.1", Port: port, User: cluster.User, Password: cluster.Password, Dir: dir,
		log: filepath.Join(dir, "log"), stop: syscall.SIGTERM,
	}
	s.command = func() *exec.Cmd {
		cmd := exec.Command(pgbouncer, config)
		cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Credential: as}
		return cmd
	}
	if err := s.Start(ctx); err != nil {
		return nil, err
	}
	return s, nil
}
