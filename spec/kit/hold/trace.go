package hold

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2" //nolint:staticcheck // ginkgo and gomega are designed for dot imports
	. "github.com/onsi/gomega"    //nolint:staticcheck // ginkgo and gomega are designed for dot imports

	"service-adapter/spec/kit"
)

// A Traced is a program to run under strace, with its arguments, environment, working directory and input.
type Traced struct {
	Args  []string // the program and its arguments
	Env   []string
	Dir   string
	Stdin string
}

// A Call is a system call of a program that changes a file.
type Call struct {
	Name string
	// Nth is the number of the call among the calls with its name in its thread, and NthOfAll the number among those of
	// the whole program. Both count from 1 and include calls that do not change a file.
	Nth, NthOfAll int
	Text          string // the call as strace prints it, without the result
}

// String returns the call as strace prints it, without the result.
func (c Call) String() string { return c.Text }

// changes lists the system calls that create, rename, write or remove files, or that wait for a disk. A question mark
// precedes calls that do not exist on every architecture.
const changes = "openat,write,pwrite64,?ftruncate,fsync,?mkdirat,?unlinkat,?unlink,?rmdir,?renameat,?renameat2"

// traced matches a line of strace, with the thread, the name of the call and its arguments as groups.
var traced = regexp.MustCompile(`^(\d+) +(\w+)\((.*)`)

// Strace returns the path of strace. If it is not installed, the spec ends as described for kit.Missing.
func Strace() string {
	GinkgoHelper()
	return kit.Program(GinkgoT(), "strace", "scripts/install strace")
}

// Changes runs the program to its end and returns, in order, the calls of the program that changed files and
// directories whose paths begin with the prefix. Child processes are not traced.
func (t Traced) Changes(ctx context.Context, prefix string) []Call {
	GinkgoHelper()
	calls, _ := t.run(ctx, prefix)
	return calls
}

// KillAt runs the program and kills it immediately before one of its threads makes the nth call with this name. It
// returns the calls up to that point on paths that begin with the prefix, and nil if the program ended before. The
// scheduling of threads differs between runs, so the nth call of a thread is not always the same call.
func (t Traced) KillAt(ctx context.Context, name string, nth int, prefix string) []Call {
	GinkgoHelper()
	calls, killed := t.run(ctx, prefix, "-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", name, nth))
	if !killed {
		return nil
	}
	return calls
}

// Failing does the same as Changes, while each system call with this name fails with an error such as "EINVAL".
func (t Traced) Failing(ctx context.Context, name, errno, prefix string) []Call {
	GinkgoHelper()
	calls, _ := t.run(ctx, prefix, "-e", fmt.Sprintf("inject=%s:error=%s", name, errno))
	return calls
}

// run runs the program under strace, and reports whether it was killed.
func (t Traced) run(ctx context.Context, prefix string, options ...string) (calls []Call, killed bool) {
	GinkgoHelper()
	log := filepath.Join(GinkgoT().TempDir(), "trace")
	// Tracing ends at execve, so that child processes are not traced.
	arguments := append([]string{
		"-f", "-qq", "-b", "execve", "-e", "signal=none", "-y", "-s", "0", "-o", log, "-e",
		"trace=" + changes,
	}, options...)
	//nolint:gosec // the arguments are those of the binary under test
	strace := exec.CommandContext(ctx, Strace(), append(arguments, t.Args...)...)
	strace.Dir, strace.Stdin = t.Dir, strings.NewReader(t.Stdin)
	// With spare processors and without Go's own signals, a goroutine mostly stays on its thread after a call.
	strace.Env = append([]string{"GOMAXPROCS=16", "GODEBUG=asyncpreemptoff=1"}, t.Env...)
	output, err := strace.CombinedOutput()
	if strings.Contains(string(output), "ptrace") {
		kit.Missing(GinkgoT(), "strace may not trace here; run the test where ptrace is allowed")
	}
	GinkgoWriter.Printf("%v: %v\n%.2000s\n", t.Args, err, output)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		Expect(err).NotTo(HaveOccurred())
	}
	text, err := os.ReadFile(log) //nolint:gosec // strace wrote the file
	Expect(err).NotTo(HaveOccurred())
	status, ok := strace.ProcessState.Sys().(syscall.WaitStatus)
	// strace ends in the same way as the traced program, including its signal.
	return parse(string(text), prefix), ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// parse returns the calls in the output of strace that change a file on a path that begins with the prefix.
func parse(log, prefix string) []Call {
	var calls []Call
	counts := map[string]int{}
	for line := range strings.Lines(log) {
		found := traced.FindStringSubmatch(line)
		if found == nil {
			continue // the line continues an interrupted call
		}
		thread, name, arguments := found[1], found[2], found[3]
		counts[thread+name]++
		counts[name]++
		if name == "openat" && !strings.Contains(arguments, "O_CREAT") || !strings.Contains(arguments, prefix) {
			continue
		}
		text, _, _ := strings.Cut(name+"("+arguments, " = ")
		calls = append(calls,
			Call{Name: name, Nth: counts[thread+name], NthOfAll: counts[name], Text: strings.TrimSpace(text)})
	}
	return calls
}
