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

	. "github.com/onsi/ginkgo/v2" //nolint:staticcheck // ginkgo and gomega are made for it
	. "github.com/onsi/gomega"    //nolint:staticcheck // ginkgo and gomega are made for it

	"service-adapter/spec/kit"
)

// Traced is a program with what it needs to run under strace.
type Traced struct {
	Args  []string // the program and its arguments
	Env   []string
	Dir   string
	Stdin string
}

// Call is a system call by which a program changes a file.
type Call struct {
	Name string
	// Nth tells the number of the call among those of its name, changes or not: in its thread, and in the whole
	// program.
	Nth, NthOfAll int
	Text          string // as strace tells it, without the result
}

// String is how a call is told in a report.
func (c Call) String() string { return c.Text }

// changes are the system calls that change files, their names and their content, and wait for a disk. Not every machine
// has all.
const changes = "openat,write,pwrite64,?ftruncate,fsync,?mkdirat,?unlinkat,?unlink,?rmdir,?renameat,?renameat2"

// traced is a line of strace: the thread and the call.
var traced = regexp.MustCompile(`^(\d+) +(\w+)\((.*)`)

// Strace is where strace is; the spec is skipped where there is none.
func Strace() string {
	GinkgoHelper()
	return kit.Program(GinkgoT(), "strace", "scripts/install strace")
}

// Changes runs the program to its end and returns the calls, in their order, by which it itself changed files and
// directories whose paths begin so. What it starts is not traced.
func (t Traced) Changes(ctx context.Context, prefix string) []Call {
	GinkgoHelper()
	calls, _ := t.run(ctx, prefix)
	return calls
}

// KillAt runs the program and kills it when one of its threads is about to do the Nth call of a name. It returns the
// calls on paths that begin so up to that one, nil when the program ended by itself. Which thread does which call is
// another one each time, and so may be the call.
func (t Traced) KillAt(ctx context.Context, name string, nth int, prefix string) []Call {
	GinkgoHelper()
	calls, killed := t.run(ctx, prefix, "-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", name, nth))
	if !killed {
		return nil
	}
	return calls
}

// Failing is Changes while each system call of a name fails with an error such as "EINVAL".
func (t Traced) Failing(ctx context.Context, name, errno, prefix string) []Call {
	GinkgoHelper()
	calls, _ := t.run(ctx, prefix, "-e", fmt.Sprintf("inject=%s:error=%s", name, errno))
	return calls
}

// run runs the program under strace, and tells whether it was killed.
func (t Traced) run(ctx context.Context, prefix string, options ...string) (calls []Call, killed bool) {
	GinkgoHelper()
	log := filepath.Join(GinkgoT().TempDir(), "trace")
	// Other programs go on untraced.
	arguments := append([]string{
		"-f", "-qq", "-b", "execve", "-e", "signal=none", "-y", "-s", "0", "-o", log, "-e",
		"trace=" + changes,
	}, options...)
	//nolint:gosec // the binary under test
	strace := exec.CommandContext(ctx, Strace(), append(arguments, t.Args...)...)
	strace.Dir, strace.Stdin = t.Dir, strings.NewReader(t.Stdin)
	// With processors to spare, and without Go's own signals, a goroutine mostly goes on in its thread after a call.
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
	text, err := os.ReadFile(log) //nolint:gosec // it was made here
	Expect(err).NotTo(HaveOccurred())
	status, ok := strace.ProcessState.Sys().(syscall.WaitStatus)
	// strace ends as the program does
	return parse(string(text), prefix), ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// parse reads what strace wrote down about paths that begin so.
func parse(log, prefix string) []Call {
	var calls []Call
	counts := map[string]int{}
	for line := range strings.Lines(log) {
		found := traced.FindStringSubmatch(line)
		if found == nil {
			continue // the rest of a call
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
