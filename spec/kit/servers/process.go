// Package servers starts the real servers with which tests work, on free ports of the loopback interface: a PostgreSQL
// cluster, and servers of objects as those of AWS, Google and Azure. They hold throw-away data, can be stopped and
// started again, and are killed when the test's process ends.
//
//	database, err := servers.PostgreSQL(ctx, dir)   // ErrMissing: run scripts/install postgresql
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

// ErrMissing says that a server's program is not installed; the text around it names the script that makes it.
var ErrMissing = errors.New("the program is missing")

// Server is a server that listens on the loopback interface.
type Server struct {
	Host     string // 127.0.0.1
	Port     int    // the same after every Start
	User     string // of PostgreSQL a superuser, of S3 the access key, of Azure's storage the account
	Password string // of S3 the secret key, of Azure's storage the account's key
	Dir      string // the server's files

	log     string                      // file of its output
	command func() *exec.Cmd            // the server as a process in the foreground
	ready   func(context.Context) error // tells whether a server that accepts connections answers
	stop    os.Signal                   // asks it to end at once

	mutex   sync.Mutex
	running *exec.Cmd // nil when it is stopped
	ended   chan struct{}
}

// Address is host:port.
func (s *Server) Address() string { return net.JoinHostPort(s.Host, strconv.Itoa(s.Port)) }

// Start starts the server again after Stop or Kill and waits until it answers.
func (s *Server) Start(ctx context.Context) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.running != nil {
		return fmt.Errorf("starting server at %s: it runs already", s.Address())
	}
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // the server has a copy
	cmd := s.command()
	cmd.Stdout, cmd.Stderr = log, log
	if err := s.launch(cmd); err != nil {
		return fmt.Errorf("starting server: %w", err)
	}
	for {
		connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.Address())
		if err == nil {
			_ = connection.Close() // nothing was said
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

// launch starts a process that dies with this one. The kernel means the thread by it, so one is kept for as long as it
// runs.
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
			_ = cmd.Wait() // It is stopped by signals.
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	s.running, s.ended = cmd, ended
	return nil
}

// Stop makes the server end its connections and waits until it is gone. A server that is stopped already is fine.
func (s *Server) Stop() error { return s.end(s.stop) }

// Kill ends the server as a crash does.
func (s *Server) Kill() error { return s.end(syscall.SIGKILL) }

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

// tool is the path of a program that scripts/tool makes. The error is an ErrMissing where it did not.
func tool(name, version string, path ...string) (string, error) {
	program := kit.Path(append([]string{"build", name, version}, path...)...)
	if _, err := os.Stat(program); err != nil {
		return "", fmt.Errorf("looking for %s: %w: run scripts/tool %s %s", name, ErrMissing, name, version)
	}
	return program, nil
}

// freePort finds a port on which nobody listens.
func freePort(ctx context.Context) (int, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	address, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		return 0, errors.Join(errors.New("listening gave no TCP address"), listener.Close())
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
		return nil, fmt.Errorf("asking %s: %w", server, err)
	}
	var lines []string
	for line := range strings.Lines(string(output)) {
		lines = append(lines, strings.TrimSuffix(line, "\n"))
	}
	return lines, nil
}

// tail returns the end of a file.
func tail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-1000):])
}
