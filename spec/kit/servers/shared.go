package servers

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"service-adapter/spec/kit"
)

// A Starter is a function such as PostgreSQL or S3 that creates a server in an empty directory and starts it.
type Starter func(ctx context.Context, dir string) (*Server, error)

// Run starts a server and stops it at the end of the test. A suite that calls it before its specs shares the server
// among them. If the server's program is missing, the test ends as described for kit.Missing.
func Run(t kit.T, start Starter) *Server {
	t.Helper()
	shared := &Shared{Start: start}
	t.Cleanup(shared.Close)
	return shared.Get(t)
}

// A Shared is a server that the first test which needs it starts. The server runs until Close.
type Shared struct {
	Start Starter

	mutex  sync.Mutex
	dir    string
	server *Server
}

// Get starts the server unless it runs, and returns it. If the server's program is missing, the test ends as described
// for kit.Missing; any other error fails it.
func (s *Shared) Get(t kit.T) *Server {
	t.Helper()
	server, err := s.Open(context.Background()) // the server outlives the test
	if errors.Is(err, ErrMissing) {
		kit.Missing(t, err.Error())
	}
	if err != nil {
		t.Fatalf("%v", err)
	}
	return server
}

// Open starts the server unless it runs, and returns it, for callers that are not tests. The error is an ErrMissing if
// the server's program is missing. After an error, the next call tries again.
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
	err = os.Chmod(dir, 0o711) //nolint:gosec // PostgreSQL's user must be able to search it
	if err == nil {
		s.server, err = s.Start(ctx, filepath.Join(dir, "server"))
	}
	if err != nil {
		s.server = nil
		s.remove()
	}
	return s.server, err
}

// Close kills the server if it was started, and removes its files.
func (s *Shared) Close() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.server != nil {
		_ = s.server.Kill() // it would end with this process anyway
		s.server = nil
	}
	s.remove()
}

// remove deletes the directory of the server.
func (s *Shared) remove() {
	if s.dir != "" {
		_ = os.RemoveAll(s.dir) // its data is temporary
		s.dir = ""
	}
}
