package shell_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/shell"
	"service-adapter/spec/kit"
)

func TestShell(t *testing.T) {
	kit.Suite(t, "internal/engine/shell")
}

// background is a command that starts a process, which outlives the shell, and writes its id to the file "pid".
const background = `sleep 1000 & echo $! > pid.new; mv pid.new pid; `

// inBackground returns the process of the command background in a directory, when it has been started.
func inBackground(dir string) opentofu.Process {
	GinkgoHelper()
	var id int
	Eventually(func() (err error) {
		text, err := os.ReadFile(filepath.Join(dir, "pid"))
		if err != nil {
			return err
		}
		id, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err
	}).Should(Succeed())
	return opentofu.Identify(id)
}

var _ = Describe("a shell command", func() {
	var runner shell.Runner

	BeforeEach(func() { runner = shell.Runner{Dir: GinkgoT().TempDir(), Env: []string{"PATH=" + os.Getenv("PATH")}} })

	It("runs in the directory, with the environment and the standard input of the caller", func(ctx context.Context) {
		runner.Env = append(runner.Env, "NAME=value")
		Expect(runner.Run(ctx, `pwd; echo "$NAME"; cat`, []byte("input"))).To(Succeed())
		Expect(os.ReadFile(filepath.Join(runner.Dir, "output"))).To(BeEquivalentTo(runner.Dir + "\nvalue\ninput"))
	})

	It("that fails is an error with its output", func(ctx context.Context) {
		Expect(runner.Run(ctx, "echo first; echo second >&2; exit 3", nil)).To(
			MatchError("first\nsecond\nthe command failed: exit status 3"))
	})

	It("that cannot be started is an error", func(ctx context.Context) {
		runner.Env = []string{"NAME=a\x00b"} // the kernel accepts no such variable
		Expect(runner.Run(ctx, "true", nil)).To(MatchError(ContainSubstring(`starting "true"`)))
	})

	It("that has ended leaves none of its processes", func(ctx context.Context) {
		Expect(runner.Run(ctx, background, nil)).To(Succeed())
		Eventually(inBackground(runner.Dir).Alive).Should(BeFalse())
	})

	It("is killed with its processes when the context ends", func(ctx context.Context) {
		ctx, cancel := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- runner.Run(ctx, background+"sleep 1000", nil) }()
		process := inBackground(runner.Dir)
		Expect(process.Alive()).To(BeTrue())
		cancel()
		Eventually(ended).Should(Receive(MatchError(context.Canceled)))
		Eventually(process.Alive).Should(BeFalse())
	})

	It("may end by itself within the grace period", func() {
		const command = `trap 'echo ended; exit 0' TERM; echo begun; while :; do sleep 0.01; done`
		process, err := runner.Start(command, nil, "log")
		Expect(err).NotTo(HaveOccurred())
		Eventually(process.Printed).Should(Equal("begun"))
		process.Stop(time.Minute)
		Expect(process.Err).NotTo(HaveOccurred())
		Expect(process.Printed()).To(HaveSuffix("ended"))
	})
})
