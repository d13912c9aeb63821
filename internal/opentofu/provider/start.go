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

// handshakeTime is how long a provider may take until it tells where it listens. A slower one is started by OpenTofu itself.
const handshakeTime = 5 * time.Second

// shell runs the supervisor.
const shell = "/bin/sh"

// supervisor starts a provider, $0, in the place of the shell, and beside it a process that waits for the end of the lifeline, on
// descriptor 4, and then kills the provider's process group and thereby itself. The provider does not see the lifeline. The waiting
// process does not hold the lease, descriptor 3, but keeps the provider's stdout, descriptor 5, open: a Go program that writes to a
// stdout without reader dies, and the adapter, which reads it, may die earlier than the provider.
const supervisor = `{ read -r _ <&4; kill -KILL 0; } 3<&- </dev/null >/dev/null 2>&1 & exec "$0" 4<&- 5<&-`

// What OpenTofu and its providers agree on: go-plugin's handshake.
const (
	cookieName   = "TF_PLUGIN_MAGIC_COOKIE"
	cookie       = "d602bf8f470bc67ca7faa0386276bbdd4330efaf76d1a219cb4d6991ca9872b2"
	protocols    = "5,6"
	lowestPort   = "10000"
	highestPort  = "25000"
	mostGreeting = 4096 // bytes of a handshake
)

// listening tells where a provider listens, in the form of TF_REATTACH_PROVIDERS.
type listening struct {
	Protocol        string
	ProtocolVersion int
	Addr            struct{ Network, String string }
	Pid             int
	// Test leaves the end of the provider to the one who started it.
	Test bool
}

// server is a running provider. Its process leads a process group of its own.
type server struct {
	cmd *exec.Cmd
	listening
}

// serve starts a provider and waits until it tells where it listens. Whoever can get to its socket can use it, as there is no
// certificate; so the socket must lie in a private directory. The output is the file that gets its stderr. The lifeline is a reading end: the
// provider is killed when no process holds the other end any more.
func (o Options) serve(ctx context.Context, executable, output string, lifeline *os.File) (*server, error) {
	stderr, err := os.OpenFile(output, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer stderr.Close() //nolint:errcheck // the provider writes it
	// A pipe, because the provider waits until its handshake is on the disk when it goes to a file.
	greeting, stdout, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(shell, "-c", supervisor, executable) //nolint:gosec // the file is the operator's
	cmd.Dir, cmd.Stdout, cmd.Stderr = o.Dir, stdout, stderr
	cmd.Env = append(slices.Clone(o.Env), cookieName+"="+cookie, "PLUGIN_PROTOCOL_VERSIONS="+protocols,
		"PLUGIN_MIN_PORT="+lowestPort, "PLUGIN_MAX_PORT="+highestPort)
	cmd.ExtraFiles = []*os.File{o.Lock, lifeline, greeting}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = cmd.Start()
	if err = errors.Join(err, stdout.Close()); err != nil {
		return nil, errors.Join(err, greeting.Close())
	}
	started := &server{cmd: cmd}
	if started.listening, err = awaitHandshake(ctx, greeting); err != nil {
		started.stop()
		return nil, err
	}
	started.Pid = cmd.Process.Pid
	return started, nil
}

// awaitHandshake reads a provider's first line. What else it writes is nobody's; to read ends with the provider.
func awaitHandshake(ctx context.Context, greeting *os.File) (listening, error) {
	limited, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	line, err := ctxio.Await(limited, func() (string, error) {
		line, err := bufio.NewReader(io.LimitReader(greeting, mostGreeting)).ReadString('\n')
		go func() {
			_, _ = io.Copy(io.Discard, greeting)
			_ = greeting.Close()
		}()
		return line, err
	})
	if err != nil {
		return listening{}, fmt.Errorf("waiting for its handshake: %w", err)
	}
	return parseHandshake(strings.TrimSpace(line))
}

// parseHandshake reads "1|6|unix|/path|grpc|", which is go-plugin's version, the version of the provider protocol, the address, the
// transport, and a certificate, which a provider that was not asked for one does not have.
func parseHandshake(line string) (listening, error) {
	unknown := fmt.Errorf("its handshake %.100q is not known", line)
	parts := strings.Split(line, "|")
	if len(parts) < 5 || parts[0] != "1" || parts[2] != "unix" || parts[3] == "" || parts[4] != "grpc" {
		return listening{}, unknown
	}
	version, err := strconv.Atoi(parts[1])
	if err != nil || version != 5 && version != 6 || len(parts) > 5 && parts[5] != "" {
		return listening{}, unknown
	}
	told := listening{Protocol: parts[4], ProtocolVersion: version, Test: true}
	told.Addr.Network, told.Addr.String = parts[2], parts[3]
	return told, nil
}

// reachable tells whether the provider still listens.
func (s *server) reachable() error {
	connection, err := net.Dial(s.Addr.Network, s.Addr.String)
	if err != nil {
		return err
	}
	return connection.Close()
}

// stop kills the provider with what it started. It must have nothing left to do; it would not end by itself.
func (s *server) stop() {
	// The group exists as long as nobody waited for its leader, so it is no other one.
	_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
	_ = s.cmd.Wait()
}
