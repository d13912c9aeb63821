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

// Redis starts a Redis server with an ACL file on port 6379 of an address of the loopback network, in a directory that
// does not exist or is empty. The password is that of the user default, who may do everything. Templates know the usual
// port only, so servers that run at the same time need different addresses.
func Redis(ctx context.Context, dir, address, password string) (*Server, error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("looking for Redis: %w: run scripts/install redis-server", ErrMissing)
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
			return fmt.Errorf("asking Redis: %s", answer)
		}
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	// With an ACL file requirepass does not count.
	user := fmt.Sprintf("user default on #%x ~* &* +@all\n", sha256.Sum256([]byte(password)))
	if err := os.WriteFile(users, []byte(user), 0o600); err != nil {
		return nil, err
	}
	return s, s.Start(ctx)
}

// AskRedis runs a command of redis-cli as a user, "" for the user default, and returns the answer, which may be an
// error of the server.
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
