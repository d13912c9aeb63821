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

// A server is the program of a case, such as the database that bindings use, with the directory and the environment for
// all shell commands of the case. A case without a program also has a server, because its commands need the directory
// and the environment; program is nil then, and also in a server of sampleServer, which does not run.
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

// startServer creates dir, starts the program of config there, with its output in the file "log", and waits until it
// is ready, at most for config.ReadyTimeout, or 2 minutes if that is 0. A program counts as ready at once if
// config.Ready is "". If the case has no program, startServer only creates the directory and reserves no ports; the
// result then serves to run commands. The environment of all commands consists of PATH, HOME, TMPDIR, LANG and USER
// of the author, as far as they are set, a variable with a free port of 127.0.0.1 for each name in config.Ports, and
// TESTS, which is testsDir, the absolute path of the directory that contains the file of the case.
//
// startServer returns an error if dir cannot be created, if no port is free, if the program cannot be started, ends
// before it is ready (see await) or is not ready in time, or if r.ctx ends before it is ready. After an error, the
// program does not run, and the result must not be used. Otherwise the caller must stop the server. If the case has
// no program, startServer does not notice the end of r.ctx.
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
			return nil, fmt.Errorf("finding a free port: %w", err)
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

// await runs the shell command ready repeatedly until it succeeds; "" is a command that always succeeds. It returns
// an error, which contains the output of the program and of a failed run of ready, if the program has ended and ready
// fails, if ctx ends, or after the timeout. The end of the program is therefore noticed only after a failed run, and
// not at all if ready succeeds without the program. A run of ready that has not ended is killed when ctx ends and
// after the timeout. The error does not wrap that of ctx. The program, unless it has ended, keeps running after an
// error. The case must have a program.
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

// notReady returns an error with a reason, such as "the server was not ready after 2m0s", followed by the end of the
// program's output, or "nothing", and by failure, the text of the error of the command ready.
func (s *server) notReady(reason, failure string) error {
	printed := cmp.Or(s.program.Printed(), "nothing")
	return fmt.Errorf("%s\nstart printed:\n%s\nready failed:\n%s", reason, printed, failure)
}

// exitText describes how a program ended, for a message, such as "exit status 1" or "signal: killed". err is the error
// of exec.Cmd.Wait; nil, for a program that succeeded, results in "exit status 0".
func exitText(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

// stop sends SIGTERM to the process group of the program and waits for the program to end. After stopsWithin, it kills
// the program. It also kills all processes that remain in the group. It does nothing if the case has no program. With a
// program, stop must be called exactly once, also if the program has ended by itself.
func (s *server) stop() {
	if s.program != nil {
		s.program.Stop(stopsWithin)
	}
}

// placeholder matches "<port NAME>" and "<file PATH>", which represent a port of the server and the content of a file
// in its directory.
var placeholder = regexp.MustCompile(`<(port|file) ([^<>]+)>`)

// resolve returns a copy of a YAML tree with the placeholders "<port NAME>" and "<file PATH>" replaced, in values and
// in keys, by a port of the server and by the content of a file in its directory. A value that consists of one port
// placeholder becomes an integer. resolve registers each inserted value in the masks replaced, which must not be nil,
// so that masks.apply replaces it by the placeholder again. If ports do not exist or files cannot be read, it returns
// an error with all reasons; the tree must not be used then. node is not modified.
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

// placeholderValue returns the text that replaces a placeholder. For the kind "port", it is the number of the server's
// port with this name. For the kind "file", it is the content of the file at this path relative to the directory of the
// server. placeholderValue returns an error if the server has no such port or if the file cannot be read.
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

// masks maps texts that differ from run to run, such as secrets and ports, to the labels that replace them in outcomes
// and messages, such as "<secret admin>". Nil masks replace no text, and their method add must not be called.
type masks map[string]string

// add registers a text, so that apply replaces it by the label in angle brackets. A label that was registered for the
// same text is replaced. An empty text is ignored.
func (m masks) add(text, label string) {
	if text != "" {
		m[text] = "<" + label + ">"
	}
}

// apply returns a deep copy of a value. Registered texts are replaced by their labels wherever they occur in strings,
// longer texts first. Keys of mappings are kept. An integer is replaced only if it equals a registered port. nil
// results in nil.
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
