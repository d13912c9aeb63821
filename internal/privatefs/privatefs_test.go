package privatefs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/privatefs"
	"service-adapter/spec/kit"
)

func TestPrivatefs(t *testing.T) {
	kit.Suite(t, "internal/privatefs")
}

// mkdir creates a directory with a mode and an owner. The id of its group is that of the owner.
func mkdir(dir, name string, mode fs.FileMode, owner int) {
	GinkgoHelper()
	path := filepath.Join(dir, name)
	Expect(os.Mkdir(path, 0o700)).To(Succeed())
	Expect(os.Chmod(path, mode)).To(Succeed())
	Expect(os.Lchown(path, owner, owner)).To(Succeed())
	Expect(os.Chmod(path, mode)).To(Succeed())
}

// symlink creates a link with an owner.
func symlink(target, path string, owner int) {
	GinkgoHelper()
	Expect(os.Symlink(target, path)).To(Succeed())
	Expect(os.Lchown(path, owner, owner)).To(Succeed())
}

var _ = Describe("a private directory", func() {
	DescribeTable("rejects directories in which another user could create programs that are executed",
		func(wanted string, prepare func(dir string), path string) {
			kit.Root(GinkgoT(), "give a directory away")
			dir := GinkgoT().TempDir()
			prepare(dir)
			path = filepath.Join(dir, path)
			Expect(privatefs.CreateDir(path)).To(MatchError(ContainSubstring(wanted)))
			Expect(privatefs.CheckDir(path)).To(MatchError(ContainSubstring(wanted)))
		},
		Entry("owned by another user", "it belongs to another user (12345)",
			func(dir string) { mkdir(dir, "a", 0o700, 12345) }, "a"),
		Entry("writable for all users", "other users can write to it (mode 0777)",
			func(dir string) { mkdir(dir, "a", 0o777, 0) }, "a"),
		Entry("writable for its group", "other users can write to it (mode 0770)",
			func(dir string) { mkdir(dir, "a", 0o770, 0) }, "a"),
		Entry("writable for all users, with the sticky bit", "other users can write to it (mode 0777)",
			func(dir string) { mkdir(dir, "a", 0o777|os.ModeSticky, 0) }, "a"),
		Entry("below a directory of another user", "/a belongs to another user (12345)", func(dir string) {
			mkdir(dir, "a", 0o700, 12345)
			mkdir(dir, "a/b", 0o700, 0)
		}, "a/b"),
		Entry("that does not exist, "+
			"below a directory of another user", "/a belongs to another user (12345)", func(dir string) {
			mkdir(dir, "a", 0o700, 12345)
		}, "a/b"),
		Entry("below a directory writable for all users", "other users can write to "+os.TempDir(), func(dir string) {
			mkdir(dir, "a", 0o777, 0)
			mkdir(dir, "a/b", 0o700, 0)
		}, "a/b"),
		Entry("below a directory writable for another group", "other users can write to "+os.TempDir(),
			func(dir string) {
				mkdir(dir, "a", 0o770, 0)
				Expect(os.Chown(filepath.Join(dir, "a"), 0, 12345)).To(Succeed())
				mkdir(dir, "a/b", 0o700, 0)
			}, "a/b"),
		Entry("that is a link of another user", "it belongs to another user (12345)", func(dir string) {
			mkdir(dir, "a", 0o700, 0)
			symlink("a", filepath.Join(dir, "b"), 12345)
		}, "b"),
		Entry("below a link of another user", "/b belongs to another user (12345)", func(dir string) {
			mkdir(dir, "a", 0o777|os.ModeSticky, 0)
			mkdir(dir, "a/c", 0o700, 0)
			symlink(filepath.Join(dir, "a"), filepath.Join(dir, "b"), 12345)
		}, "b/c"),
		Entry("behind a link of ours, "+
			"below a directory of another user", "/a belongs to another user (12345)", func(dir string) {
			mkdir(dir, "a", 0o700, 12345)
			mkdir(dir, "a/c", 0o700, 0)
			mkdir(dir, "d", 0o700, 0)
			symlink("d/../a", filepath.Join(dir, "b"), 0)
		}, "b/c"),
	)

	It("accepts directories owned by root or by this user, behind links and below sticky directories", func() {
		dir := GinkgoT().TempDir()
		mkdir(dir, "a", 0o777|os.ModeSticky, os.Geteuid())
		mkdir(dir, "a/b", 0o770, os.Geteuid())
		mkdir(dir, "a/b/c", 0o755, os.Geteuid())
		symlink("a", filepath.Join(dir, "d"), os.Geteuid())
		Expect(privatefs.CreateDir(filepath.Join(dir, "d/b/c"))).To(Succeed())
		Expect(privatefs.CheckDir(filepath.Join(dir, "d/b/c"))).To(Succeed())
	})

	It("creates a missing directory and its parents for this user only", func() {
		dir := filepath.Join(GinkgoT().TempDir(), "a", "b")
		Expect(privatefs.CheckDir(dir)).To(MatchError(fs.ErrNotExist))
		Expect(privatefs.CreateDir(dir)).To(Succeed())
		for _, path := range []string{dir, filepath.Dir(dir)} {
			info, err := os.Stat(path)
			Expect(err).NotTo(HaveOccurred())
			Expect(info.Mode().Perm()).To(Equal(os.FileMode(0o700)))
		}
	})

	It("rejects a relative path", func() {
		Expect(privatefs.CreateDir("cache")).To(MatchError(ContainSubstring("must be absolute")))
	})

	It("rejects a file", func() {
		path := filepath.Join(GinkgoT().TempDir(), "file")
		Expect(os.WriteFile(path, nil, 0o600)).To(Succeed())
		Expect(privatefs.CreateDir(path)).To(MatchError(syscall.ENOTDIR))
	})

	It("rejects links that form a loop", func() {
		dir := GinkgoT().TempDir()
		symlink("b", filepath.Join(dir, "a"), os.Geteuid())
		symlink("a", filepath.Join(dir, "b"), os.Geteuid())
		Expect(privatefs.CreateDir(filepath.Join(dir, "a"))).To(MatchError(syscall.ELOOP))
	})
})

var _ = Describe("WriteFile", func() {
	It("replaces a file that other users can read by one that they cannot", func() {
		path := filepath.Join(GinkgoT().TempDir(), "file")
		Expect(os.WriteFile(path, []byte("old"), 0o644)).To(Succeed()) //nolint:gosec // the mode is the subject
		Expect(privatefs.WriteFile(path, []byte("new"))).To(Succeed())
		Expect(os.ReadFile(path)).To(Equal([]byte("new")))
		info, err := os.Stat(path)
		Expect(err).NotTo(HaveOccurred())
		Expect(info.Mode().Perm()).To(Equal(os.FileMode(0o600)))
	})
})

var _ = Describe("Remove", func() {
	It("removes a file, and accepts that it is missing", func() {
		path := filepath.Join(GinkgoT().TempDir(), "file")
		Expect(os.WriteFile(path, nil, 0o600)).To(Succeed())
		Expect(privatefs.Remove(path)).To(Succeed())
		Expect(path).NotTo(BeAnExistingFile())
		Expect(privatefs.Remove(path)).To(Succeed())
	})
})
