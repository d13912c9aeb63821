package opentofu_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/opentofu"
)

var _ = Describe("a run whose context ends", func() {
	var dir string

	// run runs a shell script instead of OpenTofu, because a test cannot choose the moment at which the real OpenTofu
	// does what the script does. The context ends when the script has created the file "ready".
	run := func(ctx context.Context, grace time.Duration, script string) ([]byte, error) {
		dir = GinkgoT().TempDir()
		binary := filepath.Join(dir, "tofu")
		Expect(os.WriteFile(binary, []byte("#!/bin/sh\n"+script), 0o700)).To(Succeed())
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() {
			defer GinkgoRecover()
			Eventually(filepath.Join(dir, "ready")).WithTimeout(time.Minute).Should(BeAnExistingFile())
			cancel()
		}()
		runner := opentofu.Runner{Grace: grace, Logger: slog.New(slog.DiscardHandler)}
		return runner.Run(ctx, opentofu.Installation{Binary: binary},
			opentofu.Command{Args: []string{"apply"}, Dir: dir, Output: filepath.Join(dir, "apply")})
	}

	It("succeeds if OpenTofu exits with status 0 after the interrupt", func(ctx context.Context) {
		output, err := run(ctx, time.Minute, "trap 'echo saved; exit 0' INT\n>ready\nwhile :; do sleep 0.1; done\n")
		Expect(err).NotTo(HaveOccurred())
		Expect(string(output)).To(Equal("saved\n"))
	})

	It("is killed with its child processes when the grace period is over", func(ctx context.Context) {
		_, err := run(ctx, 100*time.Millisecond, "trap '' INT\nsleep 300 &\necho $! >child\n>ready\nwait\n")
		var failure *opentofu.Error
		Expect(errors.As(err, &failure)).To(BeTrue(), "%v", err)
		Expect(failure.ExitCode).To(BeNumerically("<", 0))
		Expect(err).To(MatchError(context.Canceled))
		text, err := os.ReadFile(filepath.Join(dir, "child"))
		Expect(err).NotTo(HaveOccurred())
		child, err := strconv.Atoi(strings.TrimSpace(string(text)))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { _ = syscall.Kill(child, syscall.SIGKILL) })
		Eventually(opentofu.Identify(child).Alive).Should(BeFalse())
	})
})
