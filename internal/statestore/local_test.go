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

	"service-adapter/internal/statestore"
)

var _ = Describe("a store in files", func() {
	const (
		stateName = "terraform.tfstate"
		backup    = "terraform.tfstate.backup"
		note      = ".terraform.tfstate.lock.info"
	)
	var (
		p        place
		store    statestore.Store
		one, two = []byte(`{"n":1}`), []byte(`{"n":2}`)
	)

	BeforeEach(func(ctx context.Context) {
		p = newPlace(ctx, "local")
		store = opened(p)
	})

	// damage leaves this in the place of a state, nothing for nil.
	damage := func(left []byte) {
		GinkgoHelper()
		Expect(os.Remove(p.file("b-1", stateName))).To(Succeed())
		if left != nil {
			Expect(os.WriteFile(p.file("b-1", stateName), left, 0o600)).To(Succeed())
		}
	}

	DescribeTable("never takes a damaged state for none", func(ctx context.Context, left []byte) {
		Expect(store.Replace(ctx, "b-1", nil, one)).To(Succeed())
		damage(left)
		_, err := store.Read(ctx, "b-1")
		Expect(err).To(MatchError(statestore.ErrIncomplete))
		Expect(err).To(MatchError(ContainSubstring(p.file("b-1", stateName))))
		Expect(store.Replace(ctx, "b-1", nil, two)).To(MatchError(statestore.ErrIncomplete))
		Expect(store.Delete(ctx, "b-1", nil)).To(MatchError(statestore.ErrIncomplete))
		Expect(store.Delete(ctx, "b-1", left)).NotTo(Succeed())
		Expect(store.List(ctx)).To(Equal([]string{"b-1"}))

		files := statestore.Local(p.where)
		Expect(files.Repair(ctx, "b-1", nil)).To(BeTrue())
		Expect(files.Repair(ctx, "b-1", nil)).To(BeFalse())
		Expect(store.Read(ctx, "b-1")).To(Equal(one))

		damage(left)
		Expect(os.WriteFile(p.file("b-1", backup), []byte(`{"n":`), 0o600)).To(Succeed())
		_, err = files.Repair(ctx, "b-1", []byte(`{"n":`))
		Expect(err).To(MatchError(statestore.ErrIncomplete))
		Expect(files.MarkEmpty("b-1")).To(Succeed())
		_, err = store.Read(ctx, "b-1")
		Expect(err).To(MatchError(statestore.ErrIncomplete), "another run made it")
		Expect(files.Keep(ctx, "b-1")).To(MatchError(statestore.ErrIncomplete))
		Expect(files.Repair(ctx, "b-1", two)).To(BeTrue())
		Expect(store.Read(ctx, "b-1")).To(Equal(two))
	}, Entry("that is empty", []byte{}), Entry("that is cut off", []byte(`{"n":`)), Entry("whose file is missing", nil),
		Entry("that lost its blocks", make([]byte, 100)))

	It("does not repair what somebody is writing, nor what does not exist", func(ctx context.Context) {
		files := statestore.Local(p.where)
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

	It("keeps a copy of what OpenTofu wrote", func(ctx context.Context) {
		files := statestore.Local(p.where)
		Expect(files.Keep(ctx, "b-1")).To(Succeed())
		Expect(store.List(ctx)).To(BeEmpty())
		Expect(store.Replace(ctx, "b-1", nil, one)).To(Succeed())
		Expect(os.WriteFile(p.file("b-1", stateName), two, 0o600)).To(Succeed())
		Expect(files.Keep(ctx, "b-1")).To(Succeed())
		damage(nil)
		Expect(files.Repair(ctx, "b-1", one)).To(BeTrue())
		Expect(store.Read(ctx, "b-1")).To(Equal(two))
	})

	It("knows a workspace that OpenTofu was about to make from one that was damaged", func(ctx context.Context) {
		files := statestore.Local(p.where)
		for _, made := range []string{"", `{"n":`} {
			Expect(files.MarkEmpty("b-1")).To(Succeed())
			Expect(os.WriteFile(p.file("b-1", stateName), []byte(made), 0o600)).To(Succeed())
			Expect(store.Read(ctx, "b-1")).To(BeNil())
			Expect(store.Delete(ctx, "b-1", nil)).To(Succeed())
			Expect(store.List(ctx)).To(BeEmpty())
		}
		Expect(files.MarkEmpty("b-1")).To(Succeed())
		Expect(store.Replace(ctx, "b-1", nil, one)).To(Succeed(), "in the place of an interrupted creation")
		Expect(store.Delete(ctx, "b-1", one)).To(Succeed())

		Expect(files.MarkEmpty("b-1")).To(Succeed())
		Expect(os.WriteFile(p.file("b-1", stateName), one, 0o600)).To(Succeed())
		Expect(files.Keep(ctx, "b-1")).To(Succeed(), "before something is made")
		Expect(os.Remove(p.file("b-1", backup))).To(Succeed())
		damage([]byte{})
		_, err := store.Read(ctx, "b-1")
		Expect(err).To(MatchError(statestore.ErrIncomplete))
	})

	It("removes what killed processes left where workspaces are made", func(ctx context.Context) {
		left := filepath.Join(p.where+".tmp", "123", stateName)
		Expect(os.MkdirAll(filepath.Dir(left), 0o700)).To(Succeed())
		Expect(os.WriteFile(left, one, 0o600)).To(Succeed())
		place, err := os.Open(p.where + ".tmp")
		Expect(err).NotTo(HaveOccurred())
		Expect(syscall.Flock(int(place.Fd()), syscall.LOCK_SH)).To(Succeed())
		Expect(store.Replace(ctx, "b-1", nil, one)).To(Succeed())
		Expect(left).To(BeARegularFile(), "somebody works there")
		Expect(place.Close()).To(Succeed())
		Expect(store.Delete(ctx, "b-1", one)).To(Succeed())
		entries, err := os.ReadDir(p.where + ".tmp")
		Expect(err).NotTo(HaveOccurred())
		Expect(entries).To(BeEmpty())
	})

	// files are the names of the files of the workspace.
	files := func() []string {
		GinkgoHelper()
		entries, err := os.ReadDir(filepath.Join(p.where, "b-1"))
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

	It("is for nobody else, and leaves nothing but states and backups", func(ctx context.Context) {
		Expect(store.Replace(ctx, "b-1", nil, one)).To(Succeed())
		Expect(files()).To(ConsistOf(stateName, backup))
		Expect(mode(p.where)).To(BeEquivalentTo(0o700))
		Expect(mode(filepath.Join(p.where, "b-1"))).To(BeEquivalentTo(0o700))
		Expect(mode(p.file("b-1", stateName))).To(BeEquivalentTo(0o600))
		Expect(mode(p.file("b-1", backup))).To(BeEquivalentTo(0o600))
	})

	It("removes what others left in the directory of a workspace, with its state only", func(ctx context.Context) {
		Expect(store.Replace(ctx, "b-1", nil, one)).To(Succeed())
		Expect(os.MkdirAll(p.file("b-1", "some/thing"), 0o700)).To(Succeed())
		Expect(os.WriteFile(p.file("b-1", note), []byte("{"), 0o600)).To(Succeed())
		Expect(store.Delete(ctx, "b-1", two)).To(MatchError(statestore.ErrChanged))
		Expect(p.file("b-1", "some/thing")).To(BeADirectory())
		Expect(store.Delete(ctx, "b-1", one)).To(Succeed())
		Expect(store.List(ctx)).To(BeEmpty())
	})

	DescribeTable("tells at once who holds the lock", func(ctx context.Context, info string, want statestore.HeldError) {
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
		Entry("by OpenTofu's note", `{"ID":"1f","Operation":"OperationTypeApply","Info":"","Who":"vcap@vm","Version":"1.12.6",
			"Created":"2026-01-02T03:04:05.6Z","Path":"terraform.tfstate"}`, statestore.HeldError{
			ID: "1f", Who: "vcap@vm", Operation: "OperationTypeApply", Created: time.Date(2026, 1, 2, 3, 4, 5, 600_000_000, time.UTC),
		}),
		Entry("but not from half a note", `{"ID":"1f","Opera`, statestore.HeldError{}),
		Entry("but not from an empty note", ``, statestore.HeldError{}),
	)

	It("keeps the lock while others in this process use the file", func(ctx context.Context) {
		Expect(store.Replace(ctx, "b-1", nil, one)).To(Succeed())
		goOn, deleted := p.stopInDelete(ctx, one)
		Expect(store.Read(ctx, "b-1")).To(Equal(one)) // closes another descriptor of the file
		for range 2 {
			var held *statestore.HeldError
			Expect(errors.As(opened(p).Delete(ctx, "b-1", one), &held)).To(BeTrue())
			Expect(held.Operation).To(Equal("delete"))
			Expect(held.Who).To(MatchRegexp(`^.+@.+$`))
		}
		goOn()
		Eventually(deleted).Should(Receive(Succeed()))
		Expect(store.Read(ctx, "b-1")).To(BeNil())
	})

	It("takes the lock of the file that is at the path when it has it", func(ctx context.Context) {
		Expect(store.Replace(ctx, "b-1", nil, one)).To(Succeed())
		old, err := os.Open(p.file("b-1", stateName))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(old.Close)
		Expect(store.Delete(ctx, "b-1", one)).To(Succeed())
		info, err := old.Stat()
		Expect(err).NotTo(HaveOccurred())
		Expect(info.Size()).To(BeZero()) // whoever opened it earlier finds no state
	})

	DescribeTable("leaves a whole state or none when it is killed", func(ctx context.Context, size, rounds int) {
		for range rounds {
			looping := start(p, "loop", strconv.Itoa(size))
			for seen := 0; seen < 4; { // It is at work, at no place in particular.
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

	It("changes nothing when the disk is full", func(ctx context.Context) {
		full := start(p, "limit", "10000", strings.Repeat(" ", 100_000))
		Expect(full.line()).To(ContainSubstring("file too large"))
		Expect(full.Wait()).To(Succeed())
		Expect(files()).To(BeNil())
		Expect(os.ReadDir(p.where + ".tmp")).To(BeEmpty())
	})

	It("changes nothing where it may not write", func(ctx context.Context) {
		if os.Geteuid() == 0 {
			// All directories above it are searchable.
			dir, err := os.MkdirTemp("/tmp", "statestore-")
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(os.RemoveAll, dir)
			Expect(os.Chmod(dir, 0o777)).To(Succeed())
			p.where = filepath.Join(dir, "workspaces")
			store = opened(p)
		}
		unprivileged(func() {
			Expect(store.Replace(ctx, "b-1", nil, one)).To(Succeed())
			Expect(os.Chmod(filepath.Join(p.where, "b-1"), 0o500)).To(Succeed())
			Expect(os.Chmod(p.where, 0o500)).To(Succeed())
			Expect(store.Delete(ctx, "b-1", one)).To(MatchError(fs.ErrPermission))
			Expect(store.Replace(ctx, "b-2", nil, one)).To(MatchError(fs.ErrPermission))
			Expect(store.Read(ctx, "b-1")).To(Equal(one))
			Expect(os.Chmod(p.where, 0o700)).To(Succeed())
			Expect(os.Chmod(filepath.Join(p.where, "b-1"), 0o700)).To(Succeed())
			Expect(store.List(ctx)).To(Equal([]string{"b-1"}))

			Expect(os.Chmod(p.file("b-1", stateName), 0)).To(Succeed())
			_, err := store.Read(ctx, "b-1")
			Expect(err).To(MatchError(fs.ErrPermission))
		})
	})
})

// unprivileged calls a function without the rights of root.
func unprivileged(call func()) {
	GinkgoHelper()
	if os.Geteuid() != 0 {
		call()
		return
	}
	const nobody = 65534
	runtime.LockOSThread() // Only the thread loses them.
	defer runtime.UnlockOSThread()
	Expect(syscall.Setfsuid(nobody)).To(Succeed())
	defer func() { Expect(syscall.Setfsuid(0)).To(Succeed()) }()
	call()
}
