package workspace_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/backend"
	"service-adapter/internal/engine/workspace"
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

	It("removes the files that a killed adapter left when it read a state, and none that are in use", func() {
		s := newSite()
		abandoned, used := filepath.Join(s.cache, "runs", "look-1"), filepath.Join(s.cache, "runs", "look-2")
		for _, dir := range []string{abandoned, used} {
			Expect(os.MkdirAll(dir, 0o700)).To(Succeed())
			Expect(os.WriteFile(filepath.Join(dir, "keys.sh"), []byte("{}"), 0o600)).To(Succeed())
		}
		file, err := os.Create(used + ".lock")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(file.Close)
		Expect(syscall.Flock(int(file.Fd()), syscall.LOCK_EX)).To(Succeed())
		s.engine()
		Expect(abandoned).NotTo(BeAnExistingFile())
		Expect(filepath.Join(used, "keys.sh")).To(BeARegularFile())
	})

	It("removes files that a killed adapter of an earlier version left when it read a state a day ago", func() {
		s := newSite()
		old, young := filepath.Join(s.cache, "look-1"), filepath.Join(s.cache, "look-2")
		for _, dir := range []string{old, young} {
			Expect(os.MkdirAll(dir, 0o700)).To(Succeed())
		}
		Expect(os.WriteFile(filepath.Join(old, "keys.sh"), []byte("{}"), 0o600)).To(Succeed())
		yesterday := time.Now().Add(-25 * time.Hour)
		Expect(os.Chtimes(old, yesterday, yesterday)).To(Succeed())
		s.engine()
		Expect(old).NotTo(BeAnExistingFile())
		Expect(young).To(BeADirectory())
	})

	It("rejects a cache directory that other users can write to", func() {
		s := newSite()
		Expect(os.Mkdir(s.cache, 0o700)).To(Succeed())
		Expect(os.Chmod(s.cache, 0o777)).To(Succeed())
		_, err := workspace.New(s.options())
		Expect(err).To(MatchError(And(ContainSubstring(s.cache),
			ContainSubstring("other users can write to it (mode 0777)"))))
	})

	It("rejects a prepared_dir that other users can write to", func() {
		options := newSite().options()
		options.PreparedDir = GinkgoT().TempDir()
		Expect(os.Chmod(options.PreparedDir, 0o777)).To(Succeed())
		_, err := workspace.New(options)
		Expect(err).To(MatchError(
			ContainSubstring(`prepared_dir "` + options.PreparedDir + `": other users can write to it (mode 0777)`)))
	})

	It("rejects a prepared directory in which others may create prepared directories", func() {
		s := newSite()
		options := s.options()
		options.PreparedDir = GinkgoT().TempDir()
		prepared := filepath.Join(options.PreparedDir, "prepared")
		Expect(os.Mkdir(prepared, 0o700)).To(Succeed())
		Expect(os.Chmod(prepared, 0o777)).To(Succeed())
		_, err := workspace.New(options)
		Expect(err).To(MatchError(
			ContainSubstring(`prepared_dir "` + options.PreparedDir +
				`/prepared": other users can write to it (mode 0777)`)))
	})

	It("accepts a prepared_dir that does not exist", func() {
		options := newSite().options()
		options.PreparedDir = filepath.Join(GinkgoT().TempDir(), "missing")
		_, err := workspace.New(options)
		Expect(err).NotTo(HaveOccurred())
	})

	It("rejects a relative cache directory", func() {
		s := newSite()
		s.cache = "cache"
		_, err := workspace.New(s.options())
		Expect(err).To(MatchError(ContainSubstring("must be absolute")))
	})

	It("names a state directory that cannot be created", func() {
		s := newSite()
		Expect(os.WriteFile(s.state, nil, 0o600)).To(Succeed())
		_, err := workspace.New(s.options())
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
		_, err := workspace.New(s.options())
		Expect(err).To(MatchError(ContainSubstring("state.config.dir must be a writable, durable directory")))
	})

	DescribeTable("rejects a backend",
		func(b backend.Backend, message string) {
			options := newSite().options()
			options.Backend = b
			_, err := workspace.New(options)
			Expect(err).To(MatchError(ContainSubstring(message)))
		},
		Entry("without a type", backend.Backend{}, "state.type must be the name"),
		Entry("with an invalid type", backend.Backend{Type: `local" {}`}, "state.type must be the name"),
		Entry("without workspaces", backend.Backend{Type: "http"}, "must be a backend with workspaces"),
		Entry("with a relative directory", backend.Local("state"), "state.config.dir must be an absolute path"),
	)

	It("works with a cache directory whose path is too long for sockets", func(ctx context.Context) {
		s := newSite()
		s.cache = filepath.Join(s.cache, strings.Repeat("long", 25))
		engine := s.engine()
		prepared := prepare(ctx, engine, oneEntry)
		space := open(ctx, engine, "b-1")
		Expect(space.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
		Expect(space.Apply(ctx, prepared, s.vars())).To(Succeed())
		Expect(space.Close()).To(Succeed())
	})
})
