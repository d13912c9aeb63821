package provider

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"service-adapter/internal/ctxio"
)

// handshakeTimeout is the time that a provider has to report its address. OpenTofu itself starts a provider that is
// slower.
const handshakeTimeout = 5 * time.Second

// shell is the program that runs the supervisor.
const shell = "/bin/sh"

// supervisor is a shell script that starts a background process and then replaces itself by the provider, whose
// executable is $0. The background process waits until all writers of the lifeline have closed it. It then kills the
// provider's process group, which includes itself. The script inherits these file descriptors from the adapter:
//
//   - 3 is the lock of the lease. Only the provider keeps it open.
//   - 4 is the reading end of the lifeline. Only the background process keeps it open.
//   - 5 is the reading end of the provider's stdout. Only the background process keeps it open. A Go program that
//     writes to a pipe without a reader dies, and the adapter, which reads the pipe, may end earlier than the
//     provider.
const supervisor = `{ read -r _ <&4; kill -KILL 0; } 3<&- </dev/null >/dev/null 2>&1 & exec "$0" 4<&- 5<&-`

// These constants are the parameters of the go-plugin handshake between OpenTofu and its providers.
const (
	cookieName   = "TF_PLUGIN_MAGIC_COOKIE"
	cookie       = "d602bf8f470bc67ca7faa0386276bbdd4330efaf76d1a219cb4d6991ca9872b2"
	protocols    = "5,6"
	lowestPort   = "10000"
	highestPort  = "25000"
	maxHandshake = 4096 // bytes
)

// reattachConfig is the address of one running provider, in the JSON form of TF_REATTACH_PROVIDERS: the transport, the
// version of the provider protocol, the network and the path of its socket, and its process id. Test is true for each
// running provider, and keeps OpenTofu from ending the provider after a run.
type reattachConfig struct {
	Protocol        string
	ProtocolVersion int
	Addr            struct{ Network, String string }
	Pid             int
	// Test keeps OpenTofu from ending the provider after a run.
	Test bool
}

// server is a running provider with the address of its socket. Its process leads a process group of its own, which the
// method stop kills. serve returns one; the zero value cannot be used.
type server struct {
	cmd *exec.Cmd
	reattachConfig
}

// serve starts the provider at the path executable and waits until it reports its address. The file at the path output
// receives its stderr and is created or truncated. lifeline is the reading end of a pipe: the provider is killed when
// all processes that hold the writing end have closed it. serve returns an error if the file or a pipe cannot be
// created, or if the provider does not start, does not report its address within handshakeTimeout or before the context
// ends, or reports an address that parseHandshake rejects. After an error the provider does not run. After serve has
// returned, the end of ctx has no effect on the provider.
//
// The provider's socket has no authentication: each process that can open it can use the provider. The directory of the
// socket, TMPDIR in o.Env, must therefore be private.
func (o Options) serve(ctx context.Context, executable, output string, lifeline *os.File) (*server, error) {
	stderr, err := os.OpenFile(output, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer stderr.Close() //nolint:errcheck // the provider writes it
	// The handshake goes through a pipe, because the provider would sync a file to disk after writing it.
	handshake, stdout, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(shell, "-c", supervisor, executable) //nolint:gosec // the file is the operator's
	cmd.Dir, cmd.Stdout, cmd.Stderr = o.Dir, stdout, stderr
	cmd.Env = append(slices.Clone(o.Env), cookieName+"="+cookie, "PLUGIN_PROTOCOL_VERSIONS="+protocols,
		"PLUGIN_MIN_PORT="+lowestPort, "PLUGIN_MAX_PORT="+highestPort)
	cmd.ExtraFiles = []*os.File{o.Lock, lifeline, handshake}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = cmd.Start()
	if err = errors.Join(err, stdout.Close()); err != nil {
		return nil, errors.Join(err, handshake.Close())
	}
	started := &server{cmd: cmd}
	if started.reattachConfig, err = awaitHandshake(ctx, handshake); err != nil {
		started.stop()
		return nil, err
	}
	started.Pid = cmd.Process.Pid
	return started, nil
}

// awaitHandshake reads the first line of a provider's stdout and returns the address in it, without the process id.
// handshake is the reading end of the pipe that is the provider's stdout. awaitHandshake returns an error if the
// provider writes no line of at most maxHandshake bytes within handshakeTimeout or before the context ends, or if
// parseHandshake rejects the line. In the background, also after an error, it discards all further output until the
// provider ends, and then closes the pipe.
func awaitHandshake(ctx context.Context, handshake *os.File) (reattachConfig, error) {
	limited, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	line, err := ctxio.Await(limited, func() (string, error) {
		line, err := bufio.NewReader(io.LimitReader(handshake, maxHandshake)).ReadString('\n')
		go func() {
			_, _ = io.Copy(io.Discard, handshake)
			_ = handshake.Close()
		}()
		return line, err
	})
	if err != nil {
		return reattachConfig{}, fmt.Errorf("waiting for the provider's handshake: %w", err)
	}
	return parseHandshake(strings.TrimSpace(line))
}

// parseHandshake parses the line with which a provider reports its address, without the line break, such as
// "1|6|unix|/path|grpc|". The fields are the version of the go-plugin handshake, the version of the provider protocol,
// the network and the path of the socket, the transport, and a certificate. The result has Test set and lacks the
// process id. parseHandshake returns a zero result and an error unless the versions are 1 and 5 or 6, the network is
// "unix", the path is not empty, the transport is "grpc", and the certificate is empty or missing, because none was
// requested. Further fields are ignored.
func parseHandshake(line string) (reattachConfig, error) {
	unsupported := fmt.Errorf("unsupported handshake %.100q", line)
	parts := strings.Split(line, "|")
	if len(parts) < 5 || parts[0] != "1" || parts[2] != "unix" || parts[3] == "" || parts[4] != "grpc" {
		return reattachConfig{}, unsupported
	}
	version, err := strconv.Atoi(parts[1])
	if err != nil || version != 5 && version != 6 || len(parts) > 5 && parts[5] != "" {
		return reattachConfig{}, unsupported
	}
	config := reattachConfig{Protocol: parts[4], ProtocolVersion: version, Test: true}
	config.Addr.Network, config.Addr.String = parts[2], parts[3]
	return config, nil
}

// reachable opens and closes a connection to the provider's socket. It returns nil if the provider accepts the
// connection, and the error of the connection otherwise.
func (s *server) reachable() error {
	connection, err := net.Dial(s.Addr.Network, s.Addr.String)
	if err != nil {
		return err
	}
	return connection.Close()
}

// stop sends SIGKILL to the provider's process group and waits until the provider has ended; it ignores errors. A
// provider does not end by itself. Requests that it is working on are lost. stop must be called only once.
func (s *server) stop() {
	// The process group is still the provider's, because the kernel does not reuse its id before Wait.
	_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
	_ = s.cmd.Wait()
}
