package test

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
	"service-adapter/internal/engine/shell"
	"service-adapter/internal/value"
)

// A server is the program of a case, with the directory and the environment in which the commands of the case run.
type server struct {
	shell.Runner

	ports   map[string]int // by the name of the environment variable
	program *shell.Process // nil if the case has no program
}

const (
	readyWithin = 2 * time.Minute
	stopsWithin = 10 * time.Second
	pollEvery   = 50 * time.Millisecond
)

// startServer creates dir, starts the program there and waits until it is ready. If the case has no program, it only
// creates the directory. The environment consists of a few variables of the author, of the program's ports, and of
// TESTS, which is the directory that contains the file of the case. It returns an error if dir cannot be created, if
// there is no free port, if the program cannot be started, ends, or is not ready in time, or if r.ctx ends; the program
// does not run then. The caller must stop the server unless there is an error.
func (r *run) startServer(config Server, dir, testsDir string) (*server, error) {
	s := &server{Runner: shell.Runner{Dir: dir, Env: []string{"TESTS=" + testsDir}}, ports: map[string]int{}}
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "LANG", "USER"} {
		if text, ok := r.Getenv(name); ok {
			s.Env = append(s.Env, name+"="+text)
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil || config.Start == "" {
		return s, err
	}
	var listeners []net.Listener // all stay open until each name has a port, so that the ports differ
	closeAll := func() {
		for _, listener := range listeners {
			_ = listener.Close() // no connection was accepted, so no data is lost
		}
	}
	for _, name := range config.Ports {
		listener, err := (&net.ListenConfig{}).Listen(r.ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			closeAll()
			return nil, fmt.Errorf("looking for a free port: %w", err)
		}
		listeners = append(listeners, listener)
		address, _ := listener.Addr().(*net.TCPAddr)
		s.ports[name] = address.Port
		s.Env = append(s.Env, name+"="+strconv.Itoa(address.Port))
	}
	closeAll()
	var err error
	if s.program, err = s.Start(config.Start, nil, "log"); err != nil {
		return nil, err
	}
	if err := s.await(r.ctx, config.Ready, cmp.Or(config.ReadyTimeout, readyWithin)); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// await runs the command ready until it succeeds; "" succeeds at once. It returns an error, which contains what the
// program and the last run of ready printed, if the program ends first, if ctx ends, or after the timeout. The program
// keeps running after an error.
func (s *server) await(ctx context.Context, ready string, timeout time.Duration) error {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for failure := ""; ; {
		err := s.Run(limited, ready, nil)
		if err == nil {
			return nil
		}
		if failure == "" || limited.Err() == nil { // a run that was killed at the end of the time tells less
			failure = err.Error()
		}
		select {
		case <-s.program.Ended:
			return s.notReady("the server ended before it was ready: "+exitText(s.program.Err), failure)
		case <-limited.Done():
			if ctx.Err() != nil {
				return s.notReady("the test was interrupted before the server was ready", failure)
			}
			return s.notReady("the server was not ready after "+timeout.String(), failure)
		case <-time.After(pollEvery):
		}
	}
}

// notReady returns an error with a reason, followed by the output of the program and by the failure of ready.
func (s *server) notReady(reason, failure string) error {
	printed := cmp.Or(s.program.Printed(), "nothing")
	return fmt.Errorf("%s\nstart printed:\n%s\nready failed:\n%s", reason, printed, failure)
}

// exitText describes how a program ended. err is the error of exec.Cmd.Wait; nil, for a program that succeeded, gives
// "exit status 0".
func exitText(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

// stop ends the program, if there is one, and waits for its end. A program that has not ended after stopsWithin is
// killed, and so are the processes that the program leaves in its process group. stop must be called only once, also if
// the program has ended by itself.
func (s *server) stop() {
	if s.program != nil {
		s.program.Stop(stopsWithin)
	}
}

// placeholder matches "<port NAME>" and "<file PATH>", which represent a port of the server and the content of a file
// in its directory.
var placeholder = regexp.MustCompile(`<(port|file) ([^<>]+)>`)

// resolve returns a copy of a tree in which the placeholders are replaced. A value that consists of a port alone
// becomes an integer. It adds each value that it inserts to the masks replaced, with the text of the placeholder as its
// label. It returns an error with all reasons if ports or files do not exist.
func (s *server) resolve(node *yaml.Node, replaced masks) (resolved *yaml.Node, err error) {
	copied := *node
	copied.Content = nil
	for _, child := range node.Content {
		resolvedChild, failed := s.resolve(child, replaced)
		copied.Content, err = append(copied.Content, resolvedChild), errors.Join(err, failed)
	}
	for _, match := range placeholder.FindAllStringSubmatch(node.Value, -1) {
		text, failed := s.placeholderValue(match[1], match[2])
		err = errors.Join(err, failed)
		replaced.add(text, match[1]+" "+match[2])
		if copied.Value == match[0] && match[1] == "port" {
			copied.Tag = "!!int"
		}
		copied.Value = strings.ReplaceAll(copied.Value, match[0], text)
	}
	return &copied, err
}

// placeholderValue returns the port with a name, or the content of the file with that name in the directory of the
// server, depending on kind: "port" or "file". It returns an error if there is no such port or if the file cannot be
// read.
func (s *server) placeholderValue(kind, name string) (string, error) {
	if kind == "file" {
		text, err := os.ReadFile(filepath.Join(s.Dir, name))
		return string(text), err
	}
	if s.ports[name] == 0 {
		return "", fmt.Errorf("the server has no port %q; it has: %s", name, diag.Names(value.Keys(s.ports)))
	}
	return strconv.Itoa(s.ports[name]), nil
}

// masks maps texts that differ from run to run, such as secrets and ports, to the labels that replace them in outcomes.
type masks map[string]string

// add makes apply replace a text by a label in angle brackets. An empty text is ignored.
func (m masks) add(text, label string) {
	if text != "" {
		m[text] = "<" + label + ">"
	}
}

// apply returns a value in which the texts are replaced, longer ones first. A number is replaced only if it equals a
// port. The mappings and lists of the argument may be modified.
func (m masks) apply(item any) any {
	texts := slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		return cmp.Or(len(b)-len(a), strings.Compare(a, b))
	})
	masked, _ := value.Map(item, func(scalar any) (any, error) {
		switch v := scalar.(type) {
		case string:
			for _, text := range texts {
				v = strings.ReplaceAll(v, text, m[text])
			}
			return v, nil
		case int64:
			if label := m[strconv.FormatInt(v, 10)]; strings.HasPrefix(label, "<port ") {
				return label, nil
			}
		}
		return scalar, nil
	})
	return masked
}
