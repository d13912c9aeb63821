package servers

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"service-adapter/spec/kit"
)

// Starter makes a server in an empty directory and starts it, such as PostgreSQL and S3.
type Starter func(ctx context.Context, dir string) (*Server, error)

// Run starts a server for one test, or for a suite when it calls it before its specs.
func Run(t kit.T, start Starter) *Server {
	t.Helper()
	shared := &Shared{Start: start}
	t.Cleanup(shared.Close)
	return shared.Get(t)
}

// Shared is a server that the first test that needs it starts. It runs until Close.
type Shared struct {
	Start Starter

	mutex  sync.Mutex
	dir    string
	server *Server
}

// Get returns the server. The test is skipped where the server's program is missing; with CI=true it fails.
func (s *Shared) Get(t kit.T) *Server {
	t.Helper()
	server, err := s.Open(context.Background()) // it outlives the test
	if errors.Is(err, ErrMissing) {
		kit.Missing(t, err.Error())
	}
	if err != nil {
		t.Fatalf("%v", err)
	}
	return server
}

// Open returns the server, for what is no test. The error is an ErrMissing where the server's program is not there.
func (s *Shared) Open(ctx context.Context) (*Server, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.server != nil {
		return s.server, nil
	}
	dir, err := os.MkdirTemp("/tmp", "server-")
	if err != nil {
		return nil, err
	}
	s.dir = dir
	err = os.Chmod(dir, 0o711) //nolint:gosec // PostgreSQL's user must get through it
	if err == nil {
		s.server, err = s.Start(ctx, filepath.Join(dir, "server"))
	}
	if err != nil {
		s.server = nil
		s.remove()
	}
	return s.server, err
}

// Close ends the server, if it was started, and removes its files.
func (s *Shared) Close() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.server != nil {
		_ = s.server.Kill() // it ends with this process anyway
		s.server = nil
	}
	s.remove()
}

func (s *Shared) remove() {
	if s.dir != "" {
		_ = os.RemoveAll(s.dir) // it holds throw-away data
		s.dir = ""
	}
}
