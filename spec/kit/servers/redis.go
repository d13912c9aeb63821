package servers

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// Redis starts a Redis server with an ACL file on port 6379 of an address of the loopback network. Its files are in
// dir, which must not exist or must be empty. The password is that of the user default, who has all permissions.
// Templates use only the default port, so servers that run at the same time need different addresses. The error is an
// ErrMissing if Redis is not installed.
func Redis(ctx context.Context, dir, address, password string) (*Server, error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("finding Redis: %w: run scripts/install redis-server", ErrMissing)
	}
	s := &Server{
		Host: address, Port: 6379, User: "default", Password: password, Dir: dir,
		log: filepath.Join(dir, "log"), stop: syscall.SIGTERM,
	}
	users := filepath.Join(dir, "users.acl")
	s.command = func() *exec.Cmd {
		command := exec.Command(program, "-")
		config := fmt.Sprintf("bind %s\nport %d\nsave \"\"\naclfile %s\ndir %s\n", s.Host, s.Port, users, dir)
		command.Stdin = strings.NewReader(config)
		return command
	}
	s.ready = func(ctx context.Context) error {
		if answer := s.AskRedis(ctx, "", password, "PING"); answer != "PONG" {
			return fmt.Errorf("querying Redis: %s", answer)
		}
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	// Redis ignores requirepass if it has an ACL file.
	user := fmt.Sprintf("user default on #%x ~* &* +@all\n", sha256.Sum256([]byte(password)))
	if err := os.WriteFile(users, []byte(user), 0o600); err != nil {
		return nil, err
	}
	return s, s.Start(ctx)
}

// AskRedis runs a command with redis-cli as a user and returns its output, which may be an error of the server. The
// empty user is the user default.
func (s *Server) AskRedis(ctx context.Context, user, password string, command ...string) string {
	arguments := []string{"-h", s.Host, "--no-auth-warning"}
	if user != "" {
		arguments = append(arguments, "--user", user)
	}
	cli := exec.CommandContext(ctx, "redis-cli", append(arguments, command...)...)
	cli.Env = []string{"REDISCLI_AUTH=" + password}
	output, err := cli.CombinedOutput()
	if len(output) == 0 && err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(output))
}
