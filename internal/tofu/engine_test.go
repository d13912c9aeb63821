package tofu_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"service-adapter/spec/kit"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/tofu"
)

// mkdir makes a directory with a mode and an owner, whose group is called the same.
func mkdir(dir, name string, mode fs.FileMode, owner int) {
	GinkgoHelper()
	path := filepath.Join(dir, name)
	Expect(os.Mkdir(path, 0o700)).To(Succeed())
	Expect(os.Chmod(path, mode)).To(Succeed())
	Expect(os.Lchown(path, owner, owner)).To(Succeed())
	Expect(os.Chmod(path, mode)).To(Succeed())
}

// symlink makes a link with an owner.
func symlink(target, path string, owner int) {
	GinkgoHelper()
	Expect(os.Symlink(target, path)).To(Succeed())
	Expect(os.Lchown(path, owner, owner)).To(Succeed())
}

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
		left, used := filepath.Join(s.cache, "runs", "look-1"), filepath.Join(s.cache, "runs", "look-2")
		for _, dir := range []string{left, used} {
			Expect(os.MkdirAll(dir, 0o700)).To(Succeed())
			Expect(os.WriteFile(filepath.Join(dir, "keys.sh"), []byte("{}"), 0o600)).To(Succeed())
		}
		file, err := os.Create(used + ".lock")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(file.Close)
		Expect(syscall.Flock(int(file.Fd()), syscall.LOCK_EX)).To(Succeed())
		s.engine()
		Expect(left).NotTo(BeAnExistingFile())
		Expect(filepath.Join(used, "keys.sh")).To(BeARegularFile())
	})

	It("removes what a killed adapter of an earlier build left of a look a day ago", func() {
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

	It("refuses a cache that others may write", func() {
		s := newSite()
		Expect(os.Mkdir(s.cache, 0o700)).To(Succeed())
		Expect(os.Chmod(s.cache, 0o777)).To(Succeed())
		_, err := tofu.New(s.options())
		Expect(err).To(MatchError(And(ContainSubstring(s.cache), ContainSubstring("others may write it (mode 0777)"))))
	})

	DescribeTable("refuses directories in which another user could put what is executed",
		func(wanted string, prepare func(dir string), path string) {
			kit.Root(GinkgoT(), "give a directory away")
			s := newSite()
			dir := GinkgoT().TempDir()
			prepare(dir)
			path = filepath.Join(dir, path)
			options := s.options()
			options.CacheDir = path
			_, err := tofu.New(options)
			Expect(err).To(MatchError(And(ContainSubstring(`"`+path+`"`), ContainSubstring(wanted))))
			options = s.options()
			options.PreparedDir = path
			_, err = tofu.New(options)
			Expect(err).To(MatchError(And(ContainSubstring(`prepared_dir "`+path+`"`), ContainSubstring(wanted))))
		},
		Entry("its own", "it belongs to another user (12345)", func(dir string) { mkdir(dir, "a", 0o700, 12345) }, "a"),
		Entry("that all may write", "others may write it (mode 0777)", func(dir string) { mkdir(dir, "a", 0o777, 0) }, "a"),
		Entry("that its group may write", "others may write it (mode 0770)", func(dir string) { mkdir(dir, "a", 0o770, 0) }, "a"),
		Entry("that all may write, sticky", "others may write it (mode 0777)", func(dir string) { mkdir(dir, "a", 0o777|os.ModeSticky, 0) }, "a"),
		Entry("below one of its own", "/a belongs to another user (12345)", func(dir string) {
			mkdir(dir, "a", 0o700, 12345)
			mkdir(dir, "a/b", 0o700, 0)
		}, "a/b"),
		Entry("that does not exist, below one of its own", "/a belongs to another user (12345)", func(dir string) {
			mkdir(dir, "a", 0o700, 12345)
		}, "a/b"),
		Entry("below one that all may write", "others may write "+os.TempDir(), func(dir string) {
			mkdir(dir, "a", 0o777, 0)
			mkdir(dir, "a/b", 0o700, 0)
		}, "a/b"),
		Entry("a link of its own", "it belongs to another user (12345)", func(dir string) {
			mkdir(dir, "a", 0o700, 0)
			symlink("a", filepath.Join(dir, "b"), 12345)
		}, "b"),
		Entry("below a link of its own", "/b belongs to another user (12345)", func(dir string) {
			mkdir(dir, "a", 0o777|os.ModeSticky, 0)
			mkdir(dir, "a/c", 0o700, 0)
			symlink(filepath.Join(dir, "a"), filepath.Join(dir, "b"), 12345)
		}, "b/c"),
		Entry("behind a link of ours", "/a belongs to another user (12345)", func(dir string) {
			mkdir(dir, "a", 0o700, 12345)
			mkdir(dir, "a/c", 0o700, 0)
			mkdir(dir, "d", 0o700, 0)
			symlink("d/../a", filepath.Join(dir, "b"), 0)
		}, "b/c"),
	)

	It("refuses a prepared directory in which others may put prepared ones", func() {
		s := newSite()
		options := s.options()
		options.PreparedDir = GinkgoT().TempDir()
		mkdir(options.PreparedDir, "prepared", 0o777, os.Geteuid())
		_, err := tofu.New(options)
		Expect(err).To(MatchError(ContainSubstring(`prepared_dir "` + options.PreparedDir + `/prepared": others may write it (mode 0777)`)))
	})

	It("takes directories of root's or of ours, behind links and below sticky directories", func() {
		s := newSite()
		dir := GinkgoT().TempDir()
		mkdir(dir, "a", 0o777|os.ModeSticky, os.Geteuid())
		mkdir(dir, "a/b", 0o770, os.Geteuid())
		mkdir(dir, "a/b/c", 0o755, os.Geteuid())
		symlink("a", filepath.Join(dir, "d"), os.Geteuid())
		options := s.options()
		options.CacheDir, options.PreparedDir = filepath.Join(dir, "d/b/c"), filepath.Join(dir, "nowhere")
		_, err := tofu.New(options)
		Expect(err).NotTo(HaveOccurred())
		Expect(filepath.Join(dir, "a/b/c/runs")).To(BeADirectory())
	})

	It("refuses links that lead to themselves", func() {
		s := newSite()
		dir := GinkgoT().TempDir()
		symlink("b", filepath.Join(dir, "a"), os.Geteuid())
		symlink("a", filepath.Join(dir, "b"), os.Geteuid())
		s.cache = filepath.Join(dir, "a")
		_, err := tofu.New(s.options())
		Expect(err).To(MatchError(syscall.ELOOP))
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
