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

// rabbitmq is the program of Debian's package. The program of the same name in /usr/sbin changes the user, and with it
// the environment.
const rabbitmq = "/usr/lib/rabbitmq/bin/rabbitmq-server"

// A RabbitServer is a RabbitMQ node. Its Port is that of AMQP without TLS.
type RabbitServer struct {
	*Server

	TLSPort           int // AMQP with TLS
	ManagementPort    int // the management API and the dashboard
	ManagementTLSPort int

	as          *syscall.Credential
	environment []string
}

// RabbitMQ creates a node with the management plugin in dir, which must not exist or must be empty, and starts it. Its
// user is an administrator. The node has its own port mapper (epmd), which ends together with it, so that the machine's
// port mapper is not involved. If the test runs as root, the node runs as the user rabbitmq of Debian's package, who
// must be able to search every directory above dir. The error is an ErrMissing if the package is not installed.
func RabbitMQ(ctx context.Context, dir string, certificates Certificates) (*RabbitServer, error) {
	if _, err := os.Stat(rabbitmq); err != nil {
		return nil, fmt.Errorf("finding RabbitMQ: %w: run scripts/install rabbitmq-server", ErrMissing)
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
	r.as, r.environment = as, []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "LANG=C.UTF-8", "ERL_EPMD_ADDRESS=" + r.Host,
		"ERL_EPMD_PORT=" + strconv.Itoa(ports[4]),
		"RUNNING_UNDER_SYSTEMD=true", // the process is the node itself, not a parent that waits for it
		"RABBITMQ_NODENAME=test@localhost", "RABBITMQ_DIST_PORT=" + strconv.Itoa(ports[5]),
		"RABBITMQ_CONF_ENV_FILE=" + filepath.Join(dir, "none"),
		"RABBITMQ_CONFIG_FILE=" + filepath.Join(dir, "rabbitmq.conf"),
		"RABBITMQ_ADVANCED_CONFIG_FILE=" + filepath.Join(dir, "none"),
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + filepath.Join(dir, "plugins"),
		"RABBITMQ_MNESIA_BASE=" + filepath.Join(dir, "data"),
		"RABBITMQ_LOGS=-", "RABBITMQ_LOG_BASE=" + dir, "RABBITMQ_PID_FILE=" + filepath.Join(dir, "pid"),
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=+sbwt none", // an idle node does not spin
	}
	r.command = func() *exec.Cmd {
		// The shell is replaced by the node. The port mapper is its child and is killed together with it.
		cmd := exec.Command("/bin/sh", "-c", `setpriv --pdeathsig KILL epmd & exec "$0"`, rabbitmq)
		cmd.Dir, cmd.Env, cmd.SysProcAttr = dir, r.environment, &syscall.SysProcAttr{Credential: as}
		return cmd
	}
	r.ready = func(ctx context.Context) error {
		_, err := r.Manage(ctx, http.MethodGet, "overview", "")
		return err
	}
	err = errors.Join(os.MkdirAll(dir, 0o700), r.write(r.files()), r.write(certificateFiles(certificates)))
	if err != nil {
		return nil, fmt.Errorf("creating a RabbitMQ node: %w", err)
	}
	if err := r.Start(ctx); err != nil {
		return nil, err
	}
	return r, nil
}

// files returns the contents of the node's files by their names, without its certificates.
func (s *RabbitServer) files() map[string]string {
	options := func(prefix string) string {
		return fmt.Sprintf("%[1]s.cacertfile = %[2]s/ca.pem\n%[1]s.certfile = %[2]s/server.pem\n"+
			"%[1]s.keyfile = %[2]s/server.key\n", prefix, s.Dir)
	}
	return map[string]string{
		"plugins":        "[rabbitmq_management].\n",
		".erlang.cookie": rand.Text(),
		"rabbitmq.conf": fmt.Sprintf("listeners.tcp.1 = %[1]s:%[2]d\nlisteners.ssl.1 = %[1]s:%[3]d\n"+
			"management.tcp.ip = %[1]s\n"+
			"management.tcp.port = %[4]d\nmanagement.ssl.ip = %[1]s\nmanagement.ssl.port = %[5]d\n"+
			"default_user = %[6]s\ndefault_pass = %[7]s\n",
			s.Host, s.Port, s.TLSPort, s.ManagementPort, s.ManagementTLSPort, s.User,
			s.Password) + options("ssl_options") + options("management.ssl"),
	}
}

// certificateFiles returns the contents of the files of a node's certificates by their names.
func certificateFiles(certificates Certificates) map[string]string {
	return map[string]string{
		"ca.pem": certificates.CA, "server.pem": certificates.Certificate, "server.key": certificates.Key,
	}
}

// write writes files of the node, which only the user of the node may read.
func (s *RabbitServer) write(files map[string]string) error {
	own := func(path string) error {
		if s.as == nil {
			return nil
		}
		return os.Chown(path, int(s.as.Uid), int(s.as.Gid))
	}
	err := own(s.Dir)
	for name, text := range files {
		path := filepath.Join(s.Dir, name)
		unfinished := path + ".new" // the node may be reading the current file
		err = errors.Join(err, os.WriteFile(unfinished, []byte(text), 0o400), own(unfinished),
			os.Rename(unfinished, path))
	}
	return err
}

// UseCertificates makes a running node present another certificate to new connections. Existing connections are kept.
// It returns an error if the files cannot be written, or with the output of rabbitmqctl if it fails.
func (s *RabbitServer) UseCertificates(ctx context.Context, certificates Certificates) error {
	if err := s.write(certificateFiles(certificates)); err != nil {
		return fmt.Errorf("installing certificates: %w", err)
	}
	control := exec.CommandContext(ctx, filepath.Join(filepath.Dir(rabbitmq), "rabbitmqctl"), "eval",
		"ssl:clear_pem_cache().")
	control.Dir, control.Env, control.SysProcAttr = s.Dir, s.environment, &syscall.SysProcAttr{Credential: s.as}
	if output, err := control.CombinedOutput(); err != nil {
		return fmt.Errorf("installing certificates: %w: %s", err, output)
	}
	return nil
}

// Manage sends a request to the management API as the administrator and returns the body of the response. The path is
// relative to /api/. A response with a status of 400 or above is an error.
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
		return "", fmt.Errorf("requesting %s %s from RabbitMQ: %s: %s", method, path, response.Status, text)
	}
	return string(text), nil
}
