package durable_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/durable"
)

// directory creates a directory that holds one file.
func directory(path, text string) {
	GinkgoHelper()
	Expect(os.MkdirAll(filepath.Join(path, "sub"), 0o700)).To(Succeed())
	Expect(os.WriteFile(filepath.Join(path, "sub/file"), []byte(text), 0o600)).To(Succeed())
}

var _ = Describe("renaming a directory", func() {
	var from, to string

	BeforeEach(func() {
		dir := GinkgoT().TempDir()
		from, to = filepath.Join(dir, "from"), filepath.Join(dir, "to")
		directory(from, "new")
	})

	It("gives it the path", func() {
		Expect(durable.Rename(from, to)).To(Succeed())
		Expect(os.ReadFile(filepath.Join(to, "sub/file"))).To(BeEquivalentTo("new"))
		Expect(from).NotTo(BeADirectory())
	})

	It("fails if a directory exists at the path, even an empty one", func() {
		Expect(os.Mkdir(to, 0o700)).To(Succeed())
		Expect(durable.Rename(from, to)).To(MatchError(fs.ErrExist))
		Expect(os.ReadDir(to)).To(BeEmpty())
		Expect(from).To(BeADirectory())
	})

	It("replaces a directory and leaves the old one to the caller", func() {
		directory(to, "old")
		Expect(durable.Replace(from, to)).To(Succeed())
		Expect(os.ReadFile(filepath.Join(to, "sub/file"))).To(BeEquivalentTo("new"))
		Expect(os.ReadFile(filepath.Join(from, "sub/file"))).To(BeEquivalentTo("old"))
	})

	It("never removes the path while a process uses it", func() {
		directory(to, "0")
		done, missing := make(chan struct{}), make(chan error, 1)
		var group sync.WaitGroup
		group.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if _, err := os.ReadFile(filepath.Join(to, "sub/file")); err != nil {
					missing <- err
					return
				}
			}
		})
		for n := range 200 {
			Expect(os.RemoveAll(from)).To(Succeed())
			directory(from, strconv.Itoa(n))
			Expect(durable.Replace(from, to)).To(Succeed())
		}
		close(done)
		group.Wait()
		Expect(missing).NotTo(Receive())
	})
})

var _ = Describe("a temporary directory", func() {
	It("is private, and removed by its owner", func() {
		parent := GinkgoT().TempDir()
		path, remove, err := durable.TempDir(parent, ".new-")
		Expect(err).NotTo(HaveOccurred())
		Expect(path).To(HavePrefix(filepath.Join(parent, ".new-")))
		info, err := os.Stat(path)
		Expect(err).NotTo(HaveOccurred())
		Expect(info.Mode().Perm()).To(Equal(fs.FileMode(0o700)))
		directory(path, "text")
		Expect(remove()).To(Succeed())
		Expect(os.ReadDir(parent)).To(BeEmpty())
	})

	It("stays after it was renamed", func() {
		parent := GinkgoT().TempDir()
		path, remove, err := durable.TempDir(parent, ".new-")
		Expect(err).NotTo(HaveOccurred())
		Expect(durable.Rename(path, filepath.Join(parent, "to"))).To(Succeed())
		Expect(remove()).To(Succeed())
		Expect(filepath.Join(parent, "to")).To(BeADirectory())
	})

	It("is removed by the next process after its owner was killed, and not before", func() {
		parent := GinkgoT().TempDir()
		directory(filepath.Join(parent, ".new-1"), "left")
		directory(filepath.Join(parent, ".other-1"), "of somebody else")
		Expect(os.WriteFile(filepath.Join(parent, ".new-file"), nil, 0o600)).To(Succeed())
		directory(filepath.Join(parent, ".new-2"), "used")
		used, err := os.Open(filepath.Join(parent, ".new-2"))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(used.Close)
		Expect(syscall.Flock(int(used.Fd()), syscall.LOCK_EX)).To(Succeed())

		path, remove, err := durable.TempDir(parent, ".new-")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(remove)
		_, removeOther, err := durable.TempDir(parent, ".new-")
		Expect(err).NotTo(HaveOccurred())
		Expect(removeOther()).To(Succeed())
		Expect(filepath.Glob(filepath.Join(parent, ".*"))).To(ConsistOf(
			filepath.Join(parent, ".other-1"), filepath.Join(parent, ".new-file"),
			filepath.Join(parent, ".new-2"), path))
	})

	It("belongs to one process even if many create one at the same time", func() {
		parent := GinkgoT().TempDir()
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				defer GinkgoRecover()
				for range 50 {
					path, remove, err := durable.TempDir(parent, ".new-")
					Expect(err).NotTo(HaveOccurred())
					Expect(os.WriteFile(filepath.Join(path, "file"), nil, 0o600)).To(Succeed())
					Expect(filepath.Join(path, "file")).To(BeARegularFile())
					Expect(remove()).To(Succeed())
				}
			})
		}
		group.Wait()
		Expect(os.ReadDir(parent)).To(BeEmpty())
	})
})
