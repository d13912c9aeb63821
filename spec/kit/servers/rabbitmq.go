package servers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// rabbitmq is Debian's program. The one in /usr/sbin changes its user, and its environment with that.
const rabbitmq = "/usr/lib/rabbitmq/bin/rabbitmq-server"

// RabbitServer is a RabbitMQ node. Its Port is that of AMQP without TLS.
type RabbitServer struct {
	*Server

	TLSPort           int // AMQP with TLS
	ManagementPort    int // the management API, and the dashboard
	ManagementTLSPort int
}

// RabbitMQ makes a node with the management plugin in a directory, which must not exist or be empty, and starts it. Its user is an
// administrator. It has its own port mapper (epmd), which ends with it, so the machine's knows nothing of the node. Run by root it
// runs as the user of Debian's package, who must be able to search every directory above dir.
func RabbitMQ(ctx context.Context, dir string, certificates Certificates) (*RabbitServer, error) {
	if _, err := os.Stat(rabbitmq); err != nil {
		return nil, fmt.Errorf("looking for RabbitMQ: %w: run scripts/install rabbitmq-server", ErrMissing)
	}
	as, err := account("rabbitmq")
	if err != nil {
		return nil, err
	}
	var ports [6]int
	for i := range ports {
		if ports[i], err = freePort(ctx); err != nil {
			return nil, err
		}
	}
	r := &RabbitServer{TLSPort: ports[1], ManagementPort: ports[2], ManagementTLSPort: ports[3], Server: &Server{
		Host: "127.0.0.1", Port: ports[0], User: "admin", Password: rand.Text(), Dir: dir,
		log: filepath.Join(dir, "log"), stop: syscall.SIGTERM,
	}}
	r.command = func() *exec.Cmd {
		// The shell becomes the node, and the port mapper, its child, dies with it.
		cmd := exec.Command("/bin/sh", "-c", `setpriv --pdeathsig KILL epmd & exec "$0"`, rabbitmq)
		cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Credential: as}
		cmd.Env = []string{
			"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "LANG=C.UTF-8", "ERL_EPMD_ADDRESS=" + r.Host, "ERL_EPMD_PORT=" + strconv.Itoa(ports[4]),
			"RUNNING_UNDER_SYSTEMD=true", // the node is the process itself, without one that waits for it
			"RABBITMQ_NODENAME=test@localhost", "RABBITMQ_DIST_PORT=" + strconv.Itoa(ports[5]), "RABBITMQ_CONF_ENV_FILE=" + filepath.Join(dir, "none"),
			"RABBITMQ_CONFIG_FILE=" + filepath.Join(dir, "rabbitmq.conf"), "RABBITMQ_ADVANCED_CONFIG_FILE=" + filepath.Join(dir, "none"),
			"RABBITMQ_ENABLED_PLUGINS_FILE=" + filepath.Join(dir, "plugins"), "RABBITMQ_MNESIA_BASE=" + filepath.Join(dir, "data"),
			"RABBITMQ_LOGS=-", "RABBITMQ_LOG_BASE=" + dir, "RABBITMQ_PID_FILE=" + filepath.Join(dir, "pid"),
			"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=+sbwt none", // it does not spin while it is idle
		}
		return cmd
	}
	r.ready = func(ctx context.Context) error {
		_, err := r.Manage(ctx, http.MethodGet, "overview", "")
		return err
	}
	if err := r.write(certificates, as); err != nil {
		return nil, fmt.Errorf("making a RabbitMQ node: %w", err)
	}
	if err := r.Start(ctx); err != nil {
		return nil, err
	}
	return r, nil
}

// write writes the node's files.
func (s *RabbitServer) write(certificates Certificates, as *syscall.Credential) error {
	options := func(prefix string) string {
		return fmt.Sprintf("%[1]s.cacertfile = %[2]s/ca.pem\n%[1]s.certfile = %[2]s/server.pem\n%[1]s.keyfile = %[2]s/server.key\n", prefix, s.Dir)
	}
	files := map[string]string{
		"ca.pem": certificates.CA, "server.pem": certificates.Certificate, "server.key": certificates.Key,
		"plugins":        "[rabbitmq_management].\n",
		".erlang.cookie": rand.Text(),
		"rabbitmq.conf": fmt.Sprintf("listeners.tcp.1 = %[1]s:%[2]d\nlisteners.ssl.1 = %[1]s:%[3]d\nmanagement.tcp.ip = %[1]s\n"+
			"management.tcp.port = %[4]d\nmanagement.ssl.ip = %[1]s\nmanagement.ssl.port = %[5]d\ndefault_user = %[6]s\ndefault_pass = %[7]s\n",
			s.Host, s.Port, s.TLSPort, s.ManagementPort, s.ManagementTLSPort, s.User, s.Password) + options("ssl_options") + options("management.ssl"),
	}
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
	return nil
}

// Manage sends a request to the management API as the administrator and returns the answer. The path is what follows /api/. An answer
// other than one of success is an error.
func (s *RabbitServer) Manage(ctx context.Context, method, path, body string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	address := "http://" + net.JoinHostPort(s.Host, strconv.Itoa(s.ManagementPort)) + "/api/" + path
	request, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	request.SetBasicAuth(s.User, s.Password)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return "", err
	}
	if response.StatusCode >= http.StatusBadRequest {
		return "", fmt.Errorf("asking RabbitMQ: %s %s: %s: %s", method, path, response.Status, text)
	}
	return string(text), nil
}
