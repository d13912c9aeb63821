package statestore_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/statestore"
)

var _ = Describe("a store of the backend local", func() {
	const (
		stateName = "terraform.tfstate"
		backup    = "terraform.tfstate.backup"
		note      = ".terraform.tfstate.lock.info"
	)
	var (
		p        backend
		store    statestore.Store
		one, two = []byte(`{"n":1}`), []byte(`{"n":2}`)
	)

	BeforeEach(func(ctx context.Context) {
		p = newBackend(ctx, "local")
		store = newStore(p)
	})

	// damage replaces the state file of b-1 by a file with this content, or removes it if the content is nil.
	damage := func(content []byte) {
		GinkgoHelper()
		Expect(os.Remove(p.file("b-1", stateName))).To(Succeed())
		if content != nil {
			Expect(os.WriteFile(p.file("b-1", stateName), content, 0o600)).To(Succeed())
		}
	}

	DescribeTable("does not treat a damaged state as a missing one", func(ctx context.Context, left []byte) {
		Expect(store.Replace(ctx, "b-1", nil, one)).To(Succeed())
		damage(left)
		_, err := store.Read(ctx, "b-1")
		Expect(err).To(MatchError(statestore.ErrIncomplete))
		Expect(err).To(MatchError(ContainSubstring(p.file("b-1", stateName))))
		Expect(store.Replace(ctx, "b-1", nil, two)).To(MatchError(statestore.ErrIncomplete))
		Expect(store.Delete(ctx, "b-1", nil)).To(MatchError(statestore.ErrIncomplete))
		Expect(store.Delete(ctx, "b-1", left)).NotTo(Succeed())
		Expect(store.List(ctx)).To(Equal([]string{"b-1"}))

		files := statestore.Local(p.address)
		Expect(files.Repair(ctx, "b-1", nil)).To(BeTrue())
		Expect(files.Repair(ctx, "b-1", nil)).To(BeFalse())
		Expect(store.Read(ctx, "b-1")).To(Equal(one))

		damage(left)
		Expect(os.WriteFile(p.file("b-1", backup), []byte(`{"n":`), 0o600)).To(Succeed())
		_, err = files.Repair(ctx, "b-1", []byte(`{"n":`))
		Expect(err).To(MatchError(statestore.ErrIncomplete))
		Expect(files.MarkEmpty("b-1")).To(Succeed())
		_, err = store.Read(ctx, "b-1")
		Expect(err).To(MatchError(statestore.ErrIncomplete), "another run created the workspace")
		Expect(files.KeepCopy(ctx, "b-1")).To(MatchError(statestore.ErrIncomplete))
		Expect(files.Repair(ctx, "b-1", two)).To(BeTrue())
		Expect(store.Read(ctx, "b-1")).To(Equal(two))
	}, Entry("an empty file", []byte{}), Entry("a truncated file", []byte(`{"n":`)), Entry("a missing file", nil),
		Entry("a file of zeros, whose blocks were lost", make([]byte, 100)))

	It("does not repair a locked state or a workspace that does not exist", func(ctx context.Context) {
		files := statestore.Local(p.address)
		Expect(files.Repair(ctx, "b-1", one)).To(BeFalse())
		Expect(store.List(ctx)).To(BeEmpty())
		Expect(store.Replace(ctx, "b-1", nil, one)).To(Succeed())
		other := start(p, "hold", `{"ID":"1f"}`)
		Expect(other.line()).To(Equal("held"))
		Expect(os.Truncate(p.file("b-1", stateName), 3)).To(Succeed())
		_, err := files.Repair(ctx, "b-1", nil)
		var held *statestore.HeldError
		Expect(errors.As(err, &held)).To(BeTrue(), "%v", err)
		Expect(os.ReadFile(p.file("b-1", stateName))).To(HaveLen(3))
		Expect(other.input.Close()).To(Succeed())
		Expect(other.Wait()).To(Succeed())
		Expect(files.Repair(ctx, "b-1", nil)).To(BeTrue())
	})

	It("keeps a copy of the state that OpenTofu wrote", func(ctx context.Context) {
		files := statestore.Local(p.address)
		Expect(files.KeepCopy(ctx, "b-1")).To(Succeed())
		Expect(store.List(ctx)).To(BeEmpty())
		Expect(store.Replace(ctx, "b-1", nil, one)).To(Succeed())
		Expect(os.WriteFile(p.file("b-1", stateName), two, 0o600)).To(Succeed())
		Expect(files.KeepCopy(ctx, "b-1")).To(Succeed())
		damage(nil)
		Expect(files.Repair(ctx, "b-1", one)).To(BeTrue())
		Expect(store.Read(ctx, "b-1")).To(Equal(two))
	})

	It("distinguishes an interrupted creation by OpenTofu from a damaged state", func(ctx context.Context) {
		files := statestore.Local(p.address)
		for _, made := range []string{"", `{"n":`} {
			Expect(files.MarkEmpty("b-1")).To(Succeed())
			Expect(os.WriteFile(p.file("b-1", stateName), []byte(made), 0o600)).To(Succeed())
			Expect(store.Read(ctx, "b-1")).To(BeNil())
			Expect(store.Delete(ctx, "b-1", nil)).To(Succeed())
			Expect(store.List(ctx)).To(BeEmpty())
		}
		Expect(files.MarkEmpty("b-1")).To(Succeed())
		Expect(store.Replace(ctx, "b-1", nil, one)).To(Succeed(), "replaces an interrupted creation")
		Expect(store.Delete(ctx, "b-1", one)).To(Succeed())

		Expect(files.MarkEmpty("b-1")).To(Succeed())
		Expect(os.WriteFile(p.file("b-1", stateName), one, 0o600)).To(Succeed())
		Expect(files.KeepCopy(ctx, "b-1")).To(Succeed(), "before a resource is created")
		Expect(os.Remove(p.file("b-1", backup))).To(Succeed())
		damage([]byte{})
		_, err := store.Read(ctx, "b-1")
		Expect(err).To(MatchError(statestore.ErrIncomplete))
	})

	It("removes the scratch directories of killed processes, unless one is in use", func(ctx context.Context) {
		left := filepath.Join(p.address+".tmp", "123", stateName)
		Expect(os.MkdirAll(filepath.Dir(left), 0o700)).To(Succeed())
		Expect(os.WriteFile(left, one, 0o600)).To(Succeed())
		tmpDir, err := os.Open(p.address + ".tmp")
		Expect(err).NotTo(HaveOccurred())
		Expect(syscall.Flock(int(tmpDir.Fd()), syscall.LOCK_SH)).To(Succeed())
		Expect(store.Replace(ctx, "b-1", nil, one)).To(Succeed())
		Expect(left).To(BeARegularFile(), "another process holds the lock")
		Expect(tmpDir.Close()).To(Succeed())
		Expect(store.Delete(ctx, "b-1", one)).To(Succeed())
		entries, err := os.ReadDir(p.address + ".tmp")
		Expect(err).NotTo(HaveOccurred())
		Expect(entries).To(BeEmpty())
	})

	// files returns the names of the files of the workspace b-1, nil if it has no directory.
	files := func() []string {
		GinkgoHelper()
		entries, err := os.ReadDir(filepath.Join(p.address, "b-1"))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		Expect(err).NotTo(HaveOccurred())
		names := []string{}
		for _, entry := range entries {
			names = append(names, entry.Name())
		}
		return names
	}

	mode := func(path string) fs.FileMode {
		GinkgoHelper()
		info, err := os.Stat(path)
		Expect(err).NotTo(HaveOccurred())
		return info.Mode().Perm()
	}

	It("creates files for this user only, and only states and backups", func(ctx context.Context) {
		Expect(store.Replace(ctx, "b-1", nil, one)).To(Succeed())
		Expect(files()).To(ConsistOf(stateName, backup))
		Expect(mode(p.address)).To(BeEquivalentTo(0o700))
		Expect(mode(filepath.Join(p.address, "b-1"))).To(BeEquivalentTo(0o700))
		Expect(mode(p.file("b-1", stateName))).To(BeEquivalentTo(0o600))
		Expect(mode(p.file("b-1", backup))).To(BeEquivalentTo(0o600))
	})

	It("removes the whole directory of a workspace if the state is the expected one", func(ctx context.Context) {
		Expect(store.Replace(ctx, "b-1", nil, one)).To(Succeed())
		Expect(os.MkdirAll(p.file("b-1", "some/thing"), 0o700)).To(Succeed())
		Expect(os.WriteFile(p.file("b-1", note), []byte("{"), 0o600)).To(Succeed())
		Expect(store.Delete(ctx, "b-1", two)).To(MatchError(statestore.ErrChanged))
		Expect(p.file("b-1", "some/thing")).To(BeADirectory())
		Expect(store.Delete(ctx, "b-1", one)).To(Succeed())
		Expect(store.List(ctx)).To(BeEmpty())
	})

	DescribeTable("does not wait for a lock, and names its holder", func(
		ctx context.Context, info string, want statestore.HeldError,
	) {
		Expect(store.Replace(ctx, "b-1", nil, one)).To(Succeed())
		other := start(p, "hold", info)
		Expect(other.line()).To(Equal("held"))
		for _, err := range []error{store.Replace(ctx, "b-1", nil, two), store.Delete(ctx, "b-1", one)} {
			var held *statestore.HeldError
			Expect(errors.As(err, &held)).To(BeTrue(), "%v", err)
			Expect(*held).To(Equal(want))
		}
		Expect(store.Read(ctx, "b-1")).To(Equal(one))
		Expect(store.Replace(ctx, "b-2", nil, one)).To(Succeed())
		Expect(other.input.Close()).To(Succeed())
		Expect(other.Wait()).To(Succeed())
		Expect(store.Delete(ctx, "b-1", one)).To(Succeed())
	},
		Entry("from OpenTofu's lock info", `{"ID":"1f","Operation":"OperationTypeApply","Info":"","Who":"vcap@vm",
			"Version":"1.12.6","Created":"2026-01-02T03:04:05.6Z","Path":"terraform.tfstate"}`, statestore.HeldError{
			ID: "1f", Who: "vcap@vm", Operation: "OperationTypeApply",
			Created: time.Date(2026, 1, 2, 3, 4, 5, 600_000_000, time.UTC),
		}),
		Entry("but not from a truncated lock info", `{"ID":"1f","Opera`, statestore.HeldError{}),
		Entry("but not from an empty lock info", ``, statestore.HeldError{}),
	)

	It("keeps the lock while the same process opens and closes the file again", func(ctx context.Context) {
		Expect(store.Replace(ctx, "b-1", nil, one)).To(Succeed())
		resume, deleted := p.stopInDelete(ctx, one)
		Expect(store.Read(ctx, "b-1")).To(Equal(one)) // opens and closes another descriptor of the file
		for range 2 {
			var held *statestore.HeldError
			Expect(errors.As(newStore(p).Delete(ctx, "b-1", one), &held)).To(BeTrue())
			Expect(held.Operation).To(Equal("delete"))
			Expect(held.Who).To(MatchRegexp(`^.+@.+$`))
		}
		resume()
		Eventually(deleted).Should(Receive(Succeed()))
		Expect(store.Read(ctx, "b-1")).To(BeNil())
	})

	It("empties a deleted state for runs that have it open", func(ctx context.Context) {
		Expect(store.Replace(ctx, "b-1", nil, one)).To(Succeed())
		old, err := os.Open(p.file("b-1", stateName))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(old.Close)
		Expect(store.Delete(ctx, "b-1", one)).To(Succeed())
		info, err := old.Stat()
		Expect(err).NotTo(HaveOccurred())
		Expect(info.Size()).To(BeZero())
	})

	DescribeTable("leaves a whole state or no workspace when it is killed", func(
		ctx context.Context, size, rounds int,
	) {
		for range rounds {
			looping := start(p, "loop", strconv.Itoa(size))
			for seen := 0; seen < 4; { // wait until it has created and deleted the state
				text, err := store.Read(ctx, "b-1")
				Expect(err).NotTo(HaveOccurred())
				if (text == nil) == (seen%2 == 0) {
					seen++
				}
			}
			looping.kill()
			text, err := store.Read(ctx, "b-1")
			Expect(err).NotTo(HaveOccurred())
			Expect(text).To(Or(BeNil(), Equal(state("large", size))))
			Expect(store.Delete(ctx, "b-1", text)).To(Succeed())
		}
	},
		Entry("in a file of one page", 4000, 20),
		Entry("in a large file", 1_000_000, 10),
	)

	It("leaves no files when the disk is full", func(ctx context.Context) {
		full := start(p, "limit", "10000", strings.Repeat(" ", 100_000))
		Expect(full.line()).To(ContainSubstring("file too large"))
		Expect(full.Wait()).To(Succeed())
		Expect(files()).To(BeNil())
		Expect(os.ReadDir(p.address + ".tmp")).To(BeEmpty())
	})

	It("changes nothing without the permission to write", func(ctx context.Context) {
		if os.Geteuid() == 0 {
			// The parents of the specs' temporary directory are not accessible to other users.
			dir, err := os.MkdirTemp("/tmp", "statestore-")
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(os.RemoveAll, dir)
			Expect(os.Chmod(dir, 0o777)).To(Succeed())
			p.address = filepath.Join(dir, "workspaces")
			store = newStore(p)
		}
		unprivileged(func() {
			Expect(store.Replace(ctx, "b-1", nil, one)).To(Succeed())
			Expect(os.Chmod(filepath.Join(p.address, "b-1"), 0o500)).To(Succeed())
			Expect(os.Chmod(p.address, 0o500)).To(Succeed())
			Expect(store.Delete(ctx, "b-1", one)).To(MatchError(fs.ErrPermission))
			Expect(store.Replace(ctx, "b-2", nil, one)).To(MatchError(fs.ErrPermission))
			Expect(store.Read(ctx, "b-1")).To(Equal(one))
			Expect(os.Chmod(p.address, 0o700)).To(Succeed())
			Expect(os.Chmod(filepath.Join(p.address, "b-1"), 0o700)).To(Succeed())
			Expect(store.List(ctx)).To(Equal([]string{"b-1"}))

			Expect(os.Chmod(p.file("b-1", stateName), 0)).To(Succeed())
			_, err := store.Read(ctx, "b-1")
			Expect(err).To(MatchError(fs.ErrPermission))
		})
	})
})

// unprivileged calls a function without the rights of root on files.
func unprivileged(call func()) {
	GinkgoHelper()
	if os.Geteuid() != 0 {
		call()
		return
	}
	const nobody = 65534
	runtime.LockOSThread() // Only this thread loses the rights.
	defer runtime.UnlockOSThread()
	Expect(syscall.Setfsuid(nobody)).To(Succeed())
	defer func() { Expect(syscall.Setfsuid(0)).To(Succeed()) }()
	call()
}
