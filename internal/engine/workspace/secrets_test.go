package workspace_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/workspace"
	"service-adapter/internal/redact"
)

var _ = Describe("secrets", func() {
	const secret = `s3cret"pass word`

	It("are masked in errors", func(ctx context.Context) {
		s := newSite()
		options := s.options()
		options.Secrets = &redact.Secrets{}
		options.Secrets.Add("engine-secret")
		engine, err := workspace.New(options)
		Expect(err).NotTo(HaveOccurred())
		prepared := prepare(ctx, engine, oneEntry+`variable "hidden" { sensitive = true }
resource "directory_entry" "other" {
  path = "/nowhere"
  name = "x"
  fail = "engine-secret and ${jsonencode(nonsensitive(var.hidden))}"
}`)
		space := open(ctx, engine, "b-1")
		DeferCleanup(space.Close)
		Expect(space.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
		vars := s.vars()
		vars["hidden"] = secret
		err = space.Apply(ctx, prepared, vars)
		Expect(err).To(MatchError(ContainSubstring(`Entry refused: [redacted] and "[redacted]"`)))
		Expect(fmt.Sprintf("%+v", err)).NotTo(ContainSubstring("s3cret"))
	})

	It("include declared and generated values, and sensitive values of the run", func(ctx context.Context) {
		s := newSite()
		prepared := prepare(ctx, s.engine(), oneEntry+`variable "hidden" { sensitive = true }
variable "address" {}
variable "license" {}
resource "directory_entry" "other" {
  path = "/nowhere"
  name = "x"
  fail = "cannot reach ${var.content} and ${var.address} as ${directory_entry.account.name}, not ${join(" ", [
    nonsensitive(var.hidden), var.license, nonsensitive(directory_entry.account.secret)])}"
}`)
		space := open(ctx, s.engine(), "b-1")
		DeferCleanup(space.Close)
		Expect(space.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
		vars := s.vars()
		vars["content"], vars["address"], vars["hidden"], vars["license"] = "db.example.com", "10.0.0.17:5432",
			"other.example.com", "7Hq2xP0vLk9dWm4RtZ"
		Expect(space.Apply(ctx, prepared, vars)).To(MatchError(ContainSubstring(
			"cannot reach db.example.com and 10.0.0.17:5432 as account, not [redacted] [redacted] [redacted]")))
	})

	It("that a run generated are not shown if its state cannot be read", func(ctx context.Context) {
		s := newSite()
		prepared := prepare(ctx, s.engine(), oneEntry+`
resource "directory_entry" "other" {
  path = "/nowhere"
  name = "x"
  fail = "the secret is ${nonsensitive(directory_entry.account.secret)}"
}`)
		space := open(ctx, s.engine(), "b-1")
		DeferCleanup(space.Close)
		Expect(space.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
		s.blockProvider("after-create")
		applied := make(chan error)
		go func() { applied <- space.Apply(ctx, prepared, s.vars()) }()
		s.waitForProvider("after-create")
		Expect(os.Rename(s.state, s.state+".away")).To(Succeed())
		Expect(os.WriteFile(s.state, nil, 0o600)).To(Succeed())
		s.releaseProvider("after-create")
		var err error
		Eventually(applied).Should(Receive(&err))
		Expect(err).To(MatchError(
			And(ContainSubstring("its message is left out"), ContainSubstring("reading the state of workspace"),
				Not(ContainSubstring("the secret is")))))
	})

	It("are in no argument, environment, log or file that others may read", func(ctx context.Context) {
		s := newSite()
		var log bytes.Buffer
		options := s.options()
		options.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		engine, err := workspace.New(options)
		Expect(err).NotTo(HaveOccurred())
		prepared := prepare(ctx, engine, oneEntry)
		space := open(ctx, engine, "b-1")
		DeferCleanup(space.Close)
		Expect(space.Reserve(ctx, installation(), []byte(`{"password":"s3cret"}`))).To(Succeed())
		s.blockProvider("after-create")
		vars := s.vars()
		vars["content"] = secret
		applied := make(chan error)
		go func() { applied <- space.Apply(ctx, prepared, vars) }()
		provider := s.waitForProvider("after-create")
		for _, pid := range []int{provider, s.tofuPID("b-1")} {
			for _, name := range []string{"cmdline", "environ"} {
				Expect(os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))).NotTo(ContainSubstring("s3cret"))
			}
		}
		for _, dir := range []string{s.cache, s.state} {
			expectPrivate(dir)
		}
		s.releaseProvider("after-create")
		Eventually(applied).Should(Receive(BeNil()))
		Expect(log.String()).To(And(ContainSubstring("command=apply"), Not(ContainSubstring("s3cret"))))
	})

	It("in the environment of the adapter are not passed to OpenTofu", func(ctx context.Context) {
		GinkgoT().Setenv("TF_VAR_path", "/nowhere")
		GinkgoT().Setenv("BROKER_PASSWORD", "s3cret")
		s := newSite()
		options := s.options()
		options.Env = map[string]string{"ALLOWED": "yes", "TF_INPUT": "1"}
		engine, err := workspace.New(options)
		Expect(err).NotTo(HaveOccurred())
		i := installation()
		i.Path = []string{"/var/other/binaries"}
		prepared := prepare(ctx, engine, oneEntry)
		space := open(ctx, engine, "b-1")
		DeferCleanup(space.Close)
		Expect(space.Reserve(ctx, i, []byte("record"))).To(Succeed())
		s.blockProvider("before-create")
		applied := make(chan error)
		go func() { applied <- space.Apply(ctx, prepared, s.vars()) }()
		provider := s.waitForProvider("before-create")
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", s.tofuPID("b-1")))
		Expect(err).NotTo(HaveOccurred())
		scratch := filepath.Join(s.cache, "runs", "b-1")
		Expect(bytes.Split(bytes.TrimRight(text, "\x00"), []byte{0})).To(ConsistOf(
			BeEquivalentTo("ALLOWED=yes"),
			BeEquivalentTo("CHECKPOINT_DISABLE=1"),
			BeEquivalentTo("GOGC=400"),
			BeEquivalentTo("HOME="+scratch),
			BeEquivalentTo("LANG=C.UTF-8"),
			BeEquivalentTo("PATH=/usr/local/bin:/usr/bin:/bin"),
			BeEquivalentTo("TF_CLI_CONFIG_FILE=/dev/null"),
			BeEquivalentTo("TF_INPUT=0"),
			BeEquivalentTo("TF_IN_AUTOMATION=1"),
			And(ContainSubstring("TF_REATTACH_PROVIDERS="), ContainSubstring(strconv.Itoa(provider))),
			BeEquivalentTo("TF_WORKSPACE=b-1"),
			BeEquivalentTo("TMPDIR="+filepath.Join(scratch, "tmp")),
		))
		s.releaseProvider("before-create")
		Eventually(applied).Should(Receive(BeNil()))
	})
})

// expectPrivate asserts that no other user can read a file below a directory.
func expectPrivate(dir string) {
	GinkgoHelper()
	Expect(filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type() == fs.ModeSymlink {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			err = fmt.Errorf("%s has mode %s", path, info.Mode())
		}
		return err
	})).To(Succeed())
}
