package paktest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"service-adapter/internal/diag"
	"service-adapter/internal/opentofu/shell"
	"service-adapter/internal/value"
)

// server is the program of a case, and what its commands find.
type server struct {
	shell.Place

	ports map[string]int
	main  *shell.Process // nil where the case needs none
}

const (
	readyWithin = 2 * time.Minute
	stopsWithin = 10 * time.Second
	pollEvery   = 50 * time.Millisecond
)

// startServer makes the directory and starts the program, if there is one, and waits until it is ready. The directory of the case's file is
// in the environment as TESTS.
func (r *run) startServer(wanted Server, dir, tests string) (*server, error) {
	s := &server{Place: shell.Place{Dir: dir, Env: []string{"TESTS=" + tests}}, ports: map[string]int{}}
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "LANG", "USER"} {
		if text, ok := r.Getenv(name); ok {
			s.Env = append(s.Env, name+"="+text)
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil || wanted.Start == "" {
		return s, err
	}
	var listeners []net.Listener // all are held until each name has a port of its own
	for _, name := range wanted.Ports {
		listener, err := (&net.ListenConfig{}).Listen(r.ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("looking for a free port: %w", err)
		}
		listeners = append(listeners, listener)
		address, _ := listener.Addr().(*net.TCPAddr)
		s.ports[name] = address.Port
		s.Env = append(s.Env, name+"="+strconv.Itoa(address.Port))
	}
	for _, listener := range listeners {
		_ = listener.Close() // nobody connected
	}
	var err error
	if s.main, err = s.Start(wanted.Start, nil, "log"); err != nil {
		return nil, err
	}
	if err := s.await(r.ctx, wanted.Ready); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// await waits until the program is ready.
func (s *server) await(ctx context.Context, ready string) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	for {
		err := s.Run(ctx, ready, nil)
		if err == nil {
			return nil
		}
		select {
		case <-s.main.Ended:
			return fmt.Errorf("the server ended before it was ready: %w\n%s", s.main.Err, s.main.Printed())
		case <-ctx.Done():
			return fmt.Errorf("the server is not ready: %w: %w\n%s", ctx.Err(), err, s.main.Printed())
		case <-time.After(pollEvery):
		}
	}
}

// stop ends the program.
func (s *server) stop() {
	if s.main != nil {
		s.main.Stop(stopsWithin)
	}
}

// place is what stands in a case for a port of the server, or for the content of a file in its directory.
var place = regexp.MustCompile(`<(port|file) ([^<>]+)>`)

// resolve fills in what the server has, in a copy of a tree. The masks learn of it.
func (s *server) resolve(node *yaml.Node, known masks) (made *yaml.Node, err error) {
	copied := *node
	copied.Content = nil
	for _, child := range node.Content {
		resolved, failed := s.resolve(child, known)
		copied.Content, err = append(copied.Content, resolved), errors.Join(err, failed)
	}
	for _, match := range place.FindAllStringSubmatch(node.Value, -1) {
		text, failed := s.what(match[1], match[2])
		err = errors.Join(err, failed)
		known.add(text, match[1]+" "+match[2])
		if copied.Value == match[0] && match[1] == "port" {
			copied.Tag = "!!int"
		}
		copied.Value = strings.ReplaceAll(copied.Value, match[0], text)
	}
	return &copied, err
}

// what is a port, or the content of a file.
func (s *server) what(kind, name string) (string, error) {
	if kind == "file" {
		text, err := os.ReadFile(filepath.Join(s.Dir, name))
		return string(text), err
	}
	if s.ports[name] == 0 {
		return "", fmt.Errorf("the server has no port %q; it has: %s", name, diag.Names(value.Keys(s.ports)))
	}
	return strconv.Itoa(s.ports[name]), nil
}

// masks are texts that differ from run to run, and what stands for them.
type masks map[string]string

func (m masks) add(text, stands string) {
	if text != "" {
		m[text] = "<" + stands + ">"
	}
}

// apply replaces the texts in a value, the longest first. The value may be changed.
func (m masks) apply(item any) any {
	texts := slices.SortedFunc(maps.Keys(m), func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	masked, _ := value.Map(item, func(scalar any) (any, error) {
		switch v := scalar.(type) {
		case string:
			for _, text := range texts {
				v = strings.ReplaceAll(v, text, m[text])
			}
			return v, nil
		case int64:
			if stands := m[strconv.FormatInt(v, 10)]; strings.HasPrefix(stands, "<port ") {
				return stands, nil
			}
		}
		return scalar, nil
	})
	return masked
}
