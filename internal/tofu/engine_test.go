package tofu_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/tofu"
)

var _ = Describe("New", func() {
	It("creates private directories", func() {
		s := newSite()
		s.engine()
		for _, dir := range []string{s.cache, s.state} {
			info, err := os.Stat(dir)
			Expect(err).NotTo(HaveOccurred())
			Expect(info.Mode().Perm()).To(Equal(os.FileMode(0o700)))
		}
	})

	It("removes what a killed adapter left of a look, and nothing that is in use", func() {
		s := newSite()
		left, used := filepath.Join(s.cache, "look-1"), filepath.Join(s.cache, "look-2")
		for _, dir := range []string{left, used} {
			Expect(os.MkdirAll(dir, 0o700)).To(Succeed())
			Expect(os.WriteFile(filepath.Join(dir, "keys.sh"), []byte("{}"), 0o600)).To(Succeed())
		}
		file, err := os.Open(used)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(file.Close)
		Expect(syscall.Flock(int(file.Fd()), syscall.LOCK_EX)).To(Succeed())
		s.engine()
		Expect(left).NotTo(BeAnExistingFile())
		Expect(filepath.Join(used, "keys.sh")).To(BeARegularFile())
	})

	It("refuses a cache that others may write", func() {
		s := newSite()
		Expect(os.Mkdir(s.cache, 0o700)).To(Succeed())
		Expect(os.Chmod(s.cache, 0o777)).To(Succeed())
		_, err := tofu.New(s.options())
		Expect(err).To(MatchError(And(ContainSubstring(s.cache), ContainSubstring("others may write it (mode 0777)"))))
	})

	It("refuses a cache of somebody else", func() {
		if os.Geteuid() != 0 {
			Skip("only root can give a directory away")
		}
		s := newSite()
		Expect(os.Mkdir(s.cache, 0o700)).To(Succeed())
		Expect(os.Chown(s.cache, 12345, 12345)).To(Succeed())
		_, err := tofu.New(s.options())
		Expect(err).To(MatchError(ContainSubstring("belongs to another user")))
	})

	It("refuses a relative cache directory", func() {
		s := newSite()
		s.cache = "cache"
		_, err := tofu.New(s.options())
		Expect(err).To(MatchError(ContainSubstring("must be absolute")))
	})

	It("names a state directory that cannot be made", func() {
		s := newSite()
		Expect(os.WriteFile(s.state, nil, 0o600)).To(Succeed())
		_, err := tofu.New(s.options())
		Expect(err).To(MatchError(And(
			ContainSubstring(`using state directory "`+s.state+`"`),
			ContainSubstring("state.config.dir must be a writable, durable directory"))))
	})

	It("names a state directory that cannot be written", func() {
		if os.Geteuid() == 0 {
			Skip("root may write everywhere")
		}
		s := newSite()
		Expect(os.MkdirAll(filepath.Join(s.state, "workspaces"), 0o700)).To(Succeed())
		Expect(os.Chmod(filepath.Join(s.state, "workspaces"), 0o500)).To(Succeed())
		_, err := tofu.New(s.options())
		Expect(err).To(MatchError(ContainSubstring("state.config.dir must be a writable, durable directory")))
	})

	DescribeTable("refuses a backend",
		func(b tofu.Backend, message string) {
			options := newSite().options()
			options.Backend = b
			_, err := tofu.New(options)
			Expect(err).To(MatchError(ContainSubstring(message)))
		},
		Entry("without a type", tofu.Backend{}, "state.type must be the name"),
		Entry("with a strange type", tofu.Backend{Type: `local" {}`}, "state.type must be the name"),
		Entry("without workspaces", tofu.Backend{Type: "http"}, "must be a backend with workspaces"),
		Entry("with a relative directory", tofu.Local("state"), "state.config.dir must be an absolute path"),
	)

	It("works in a directory whose path is too long for sockets", func(ctx context.Context) {
		s := newSite()
		s.cache = filepath.Join(s.cache, strings.Repeat("long", 25))
		engine := s.engine()
		prepared := prepare(ctx, engine, oneEntry)
		workspace := open(ctx, engine, "b-1")
		Expect(workspace.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
		Expect(workspace.Apply(ctx, prepared, s.vars())).To(Succeed())
		Expect(workspace.Close()).To(Succeed())
	})
})
