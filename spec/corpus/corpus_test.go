// Package corpus_test compares the adapter's answers with those of earlier versions. It sends thousands of requests,
// generated from a fixed seed, to the commands that need no OpenTofu. A refactoring must not change any answer.
//
// testdata/answers.txt contains a line for each request with the exit code and the beginnings of the checksums of
// standard output and standard error. UPDATE=1 writes the file. Without SPECS=all, only one request in ten is sent.
// With CORPUS_REFERENCE=PROGRAM, the requests are also sent to another build of the adapter, and the first differences
// are printed in full.
package corpus_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"

	"service-adapter/adapter"
	"service-adapter/internal/odb"
	"service-adapter/spec/kit"
)

// requests is the number of requests. Every second request updates the instance that the request before it created.
const requests = 5_000

// An answer is the outcome of a command.
type answer struct {
	code           int
	stdout, stderr string
}

// A program runs a command of an adapter and returns its answer.
type program func(env map[string]string, command, stdin string) answer

func TestAnswers(t *testing.T) {
	lines := make([]string, requests)
	reference := program(nil)
	if path := os.Getenv("CORPUS_REFERENCE"); path != "" {
		reference = built(path)
	}
	dir := t.TempDir()
	var group sync.WaitGroup
	next := make(chan int)
	for range runtime.NumCPU() {
		group.Go(func() {
			for number := range next {
				c := newCase(t, number)
				for step, line := range c.play(t, dir, reference) {
					lines[number+step] = line
				}
			}
		})
	}
	distance := 2
	if !kit.All() && os.Getenv("UPDATE") == "" {
		distance = 20
	}
	for number := 0; number < requests; number += distance {
		next <- number
	}
	close(next)
	group.Wait()
	if reference != nil {
		return
	}
	compare(t, strings.Join(lines, "\n")+"\n")
}

// compare compares the answers with the stored ones. The line of a request that was not sent is empty.
func compare(t *testing.T, got string) {
	const file = "testdata/answers.txt"
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(string(kept), "\n")
	different := 0
	for n, line := range strings.Split(got, "\n") {
		if line != "" && (n >= len(want) || line != want[n]) {
			if different++; different <= 5 {
				t.Errorf("the answer to request %d has changed: %s", n, line)
			}
		}
	}
	if different > 0 {
		t.Errorf("%d of %d answers have changed; CORPUS_REFERENCE=PROGRAM shows the differences from that program, "+
			"UPDATE=1 stores the new answers", different, len(want))
	}
}

// play sends both requests of a case and returns a line for each answer. If reference is not nil, differences from the
// reference fail the test.
func (c testCase) play(t *testing.T, dir string, reference program) [2]string {
	env := c.environment(dir)
	var lines [2]string
	for step := range lines {
		command, stdin := c.request(t, step)
		got := inProcess(env, command, stdin)
		lines[step] = fmt.Sprintf("%d %s %d %s %s", c.number+step, command, got.code, digest(masked(got.stdout)),
			digest(clean(dir, got.stderr)))
		if reference != nil {
			want := reference(env, command, stdin)
			if got.code != want.code || masked(got.stdout) != masked(want.stdout) ||
				clean(dir, got.stderr) != clean(dir, want.stderr) {
				t.Errorf("request %d, %s < %s\n got %d %s\n%s\nwant %d %s\n%s", c.number+step, command, stdin,
					got.code, masked(got.stdout), clean(dir, got.stderr), want.code, masked(want.stdout),
					clean(dir, want.stderr))
			}
		}
		if command == "generate-manifest" && got.code == 0 {
			if err := c.instance.Deploy(got.stdout); err != nil {
				t.Fatal(err)
			}
		}
	}
	return lines
}

// inProcess runs the adapter of this source tree.
func inProcess(env map[string]string, command, stdin string) answer {
	var stdout, stderr bytes.Buffer
	code := adapter.Run(context.Background(), adapter.Invocation{
		Args: []string{"service-adapter", command}, Stdin: strings.NewReader(stdin), Stdout: &stdout, Stderr: &stderr,
		Getenv: func(name string) (string, bool) { text, ok := env[name]; return text, ok },
	})
	return answer{code, stdout.String(), stderr.String()}
}

// built returns a program that runs another build of the adapter.
func built(path string) program {
	return func(env map[string]string, command, stdin string) answer {
		var stdout, stderr bytes.Buffer
		run := exec.Command(path, command)
		run.Stdin, run.Stdout, run.Stderr, run.Env = strings.NewReader(stdin), &stdout, &stderr, []string{}
		for name, text := range env {
			run.Env = append(run.Env, name+"="+text)
		}
		_ = run.Run() // the exit code contains the result
		return answer{run.ProcessState.ExitCode(), stdout.String(), stderr.String()}
	}
}

// masked replaces the passwords that a request generates.
func masked(stdout string) string {
	var product struct {
		Secrets map[string]any `json:"secrets"`
	}
	if json.Unmarshal([]byte(stdout), &product) != nil {
		return stdout
	}
	for _, secret := range product.Secrets {
		if text, ok := secret.(string); ok && len(text) >= 20 {
			stdout = strings.ReplaceAll(stdout, text, "GENERATED")
		}
	}
	return stdout
}

// logTime matches the time of a log line.
var logTime = regexp.MustCompile(`(?m)^time=\S+ `)

// clean replaces the parts of a standard error that differ between runs: the times and the paths of directories. The
// recorded answers contain the path ROOT/examples/redis for the pak of spec/parity.
func clean(dir, stderr string) string {
	root, _ := filepath.Abs("../..")
	parity := filepath.Join(root, "spec", "parity", "pak")
	stderr = strings.NewReplacer(dir, "DIR", parity, "ROOT/examples/redis", root, "ROOT").Replace(stderr)
	return logTime.ReplaceAllString(stderr, "")
}

// digest returns the beginning of the SHA-256 digest of a text.
func digest(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text)))[:10] }

// input returns the standard input of a command.
func input(t *testing.T, command string, parameters map[string]any) string {
	text, err := odb.Input(command, parameters)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
