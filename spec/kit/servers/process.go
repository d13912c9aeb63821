// Package servers starts the real servers that tests use, on free ports of the loopback interface: databases, message
// brokers and object stores. Their data is temporary. They can be stopped and started again, and are killed when the
// process of the test ends.
//
//	database, err := servers.PostgreSQL(ctx, dir) // ErrMissing: run scripts/install postgresql
//	defer database.Stop()
//	err = database.CreateDatabase(ctx, "states")
//	… database.DSN("states") …
package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"service-adapter/spec/kit"
)

// ErrMissing means that a server's program is not installed. The errors that wrap it name the script that installs the
// program.
var ErrMissing = errors.New("the program is missing")

// A Server is a server that listens on the loopback interface.
type Server struct {
	Host     string // 127.0.0.1
	Port     int    // remains the same when the server is started again
	User     string // a superuser of PostgreSQL, the access key of S3, or the account of Azure's storage
	Password string // for S3 the secret key, for Azure's storage the account's key
	Dir      string // the server's files

	log     string                      // path of the file with its output
	command func() *exec.Cmd            // returns a command that runs the server in the foreground
	ready   func(context.Context) error // returns an error while the server accepts connections but does not respond
	stop    os.Signal                   // the signal for an immediate, orderly end

	mutex   sync.Mutex
	running *exec.Cmd // nil while the server is stopped
	ended   chan struct{}
}

// Address returns the host and port as "host:port".
func (s *Server) Address() string { return net.JoinHostPort(s.Host, strconv.Itoa(s.Port)) }

// Start starts the server again after Stop or Kill and waits until it responds. It returns an error if the server is
// already running, or if it ends before it responds; this error contains the end of the server's output.
func (s *Server) Start(ctx context.Context) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.running != nil {
		return fmt.Errorf("starting server at %s: it is already running", s.Address())
	}
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // the server has its own copy of the descriptor
	cmd := s.command()
	cmd.Stdout, cmd.Stderr = log, log
	if err := s.launch(cmd); err != nil {
		return fmt.Errorf("starting server: %w", err)
	}
	for {
		connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.Address())
		if err == nil {
			_ = connection.Close() // no data was sent
			if s.ready == nil || s.ready(ctx) == nil {
				return nil
			}
		}
		select {
		case <-s.ended:
			s.running = nil
			return fmt.Errorf("starting server: it ended: %s", tail(s.log))
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// launch starts a process that the kernel kills when this process ends. The kernel does so when the thread that started
// the process ends, so that thread is kept until then. The error means that the program cannot be started.
func (s *Server) launch(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	started, ended := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer close(ended)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // signals end it, so the exit status is not relevant
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	s.running, s.ended = cmd, ended
	return nil
}

// Stop ends the server in an orderly way and waits for its end. It does nothing if the server is already stopped. It
// returns an error if the signal cannot be sent.
func (s *Server) Stop() error { return s.end(s.stop) }

// Kill ends the server as a crash does, and waits for its end. It does nothing if the server is already stopped. It
// returns an error if the signal cannot be sent.
func (s *Server) Kill() error { return s.end(syscall.SIGKILL) }

// end sends a signal to the server and waits for its end.
func (s *Server) end(signal os.Signal) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.running == nil {
		return nil
	}
	if err := s.running.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping server: %w", err)
	}
	<-s.ended
	s.running = nil
	return nil
}

// tool returns the path of a program that scripts/tool installs. The error is an ErrMissing if the program is not
// installed.
func tool(name, version string, path ...string) (string, error) {
	program := kit.Path(append([]string{"build", name, version}, path...)...)
	if _, err := os.Stat(program); err != nil {
		return "", fmt.Errorf("finding %s: %w: run scripts/tool %s %s", name, ErrMissing, name, version)
	}
	return program, nil
}

// freePort returns a port on which no process listens. The port may be taken by another process before the caller uses
// it.
func freePort(ctx context.Context) (int, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	address, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		return 0, errors.Join(errors.New("the listener has no TCP address"), listener.Close())
	}
	return address.Port, listener.Close()
}

// rows runs the command-line client of a database server and returns its standard output as lines. If the client fails,
// the error names the server and contains the standard error.
func rows(client *exec.Cmd, server string) ([]string, error) {
	output, err := client.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return nil, fmt.Errorf("querying %s: %w", server, err)
	}
	var lines []string
	for line := range strings.Lines(string(output)) {
		lines = append(lines, strings.TrimSuffix(line, "\n"))
	}
	return lines, nil
}

// tail returns the last 1000 bytes of a file, or the text of the error if the file cannot be read.
func tail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-1000):])
}
