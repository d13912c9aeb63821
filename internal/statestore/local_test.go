package statestore_test

import (
	"bytes"
	"context"
	"encoding/json"
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

	DescribeTable("mends a state that was not written to its end", func(ctx context.Context, left string) {
		Expect(store.Replace(ctx, "b-1", nil, one)).To(Succeed())
		cut := func() {
			GinkgoHelper()
			Expect(os.WriteFile(p.file("b-1", backup), one, 0o600)).To(Succeed())
			Expect(os.WriteFile(p.file("b-1", stateName), []byte(left), 0o600)).To(Succeed())
		}
		for _, change := range []func() error{
			func() error { return store.Replace(ctx, "b-1", []byte(left), two) },
			func() error { return store.Delete(ctx, "b-1", []byte(left)) },
		} {
			cut()
			Expect(change()).To(MatchError(statestore.ErrChanged), "what is stored is the backup")
			Expect(store.Read(ctx, "b-1")).To(Equal(one))
		}
		cut()
		Expect(statestore.Restore(ctx, p.where, "b-1")).To(BeTrue())
		Expect(statestore.Restore(ctx, p.where, "b-1")).To(BeFalse())
		Expect(store.Read(ctx, "b-1")).To(Equal(one))
		Expect(store.Replace(ctx, "b-1", one, two)).To(Succeed())
	}, Entry("and is empty", ""), Entry("and is cut off", `{"n":`))

	It("mends nothing without a backup, nor what does not exist", func(ctx context.Context) {
		Expect(statestore.Restore(ctx, p.where, "b-1")).To(BeFalse())
		Expect(os.MkdirAll(filepath.Dir(p.file("b-1", stateName)), 0o700)).To(Succeed())
		Expect(os.WriteFile(p.file("b-1", stateName), nil, 0o600)).To(Succeed())
		Expect(statestore.Restore(ctx, p.where, "b-1")).To(BeFalse())
		Expect(store.Replace(ctx, "b-1", nil, one)).To(Succeed())
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
		Expect(files()).To(ConsistOf(stateName))
		Expect(store.Replace(ctx, "b-1", one, two)).To(Succeed())
		Expect(files()).To(ConsistOf(stateName, backup))
		Expect(os.ReadFile(p.file("b-1", backup))).To(Equal(one))
		Expect(mode(p.where)).To(BeEquivalentTo(0o700))
		Expect(mode(filepath.Join(p.where, "b-1"))).To(BeEquivalentTo(0o700))
		Expect(mode(p.file("b-1", stateName))).To(BeEquivalentTo(0o600))
		Expect(mode(p.file("b-1", backup))).To(BeEquivalentTo(0o600))
	})

	It("takes workspaces without bytes for empty ones", func(ctx context.Context) {
		Expect(os.MkdirAll(filepath.Join(p.where, "b-1"), 0o700)).To(Succeed())
		Expect(store.Read(ctx, "b-1")).To(BeNil())
		Expect(store.List(ctx)).To(Equal([]string{"b-1"}))
		Expect(store.Delete(ctx, "b-1", nil)).To(Succeed())
		Expect(store.List(ctx)).To(BeEmpty())

		Expect(os.MkdirAll(filepath.Join(p.where, "b-1"), 0o700)).To(Succeed())
		Expect(os.WriteFile(p.file("b-1", stateName), nil, 0o600)).To(Succeed())
		Expect(store.Read(ctx, "b-1")).To(BeNil())
		Expect(store.Replace(ctx, "b-1", nil, one)).To(Succeed())
		Expect(store.Read(ctx, "b-1")).To(Equal(one))
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

	It("keeps the files that NFS keeps for those who have them open", func(ctx context.Context) {
		Expect(store.Replace(ctx, "b-1", nil, one)).To(Succeed())
		Expect(os.WriteFile(p.file("b-1", ".nfs0001"), nil, 0o600)).To(Succeed())
		Expect(store.Delete(ctx, "b-1", one)).To(Succeed())
		Expect(files()).To(ConsistOf(".nfs0001"))
		Expect(store.Replace(ctx, "b-1", nil, two)).To(Succeed())
	})

	DescribeTable("tells at once who holds the lock", func(ctx context.Context, info string, want statestore.HeldError) {
		Expect(store.Replace(ctx, "b-1", nil, one)).To(Succeed())
		other := start(p, "hold", info)
		Expect(other.line()).To(Equal("held"))
		for _, err := range []error{store.Replace(ctx, "b-1", one, two), store.Replace(ctx, "b-1", nil, two), store.Delete(ctx, "b-1", one)} {
			var held *statestore.HeldError
			Expect(errors.As(err, &held)).To(BeTrue(), "%v", err)
			Expect(*held).To(Equal(want))
		}
		Expect(store.Read(ctx, "b-1")).To(Equal(one))
		Expect(store.Replace(ctx, "b-2", nil, one)).To(Succeed())
		Expect(other.input.Close()).To(Succeed())
		Expect(other.Wait()).To(Succeed())
		Expect(store.Replace(ctx, "b-1", one, two)).To(Succeed())
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
		stop, replaced := p.stopInReplace(ctx, one, two)
		Expect(store.Read(ctx, "b-1")).To(Equal(one)) // closes another descriptor of the file
		for range 2 {
			var held *statestore.HeldError
			Expect(errors.As(opened(p).Replace(ctx, "b-1", one, []byte("{}")), &held)).To(BeTrue())
			Expect(held.Operation).To(Equal("replace"))
			Expect(held.Who).To(MatchRegexp(`^.+@.+$`))
		}
		stop()
		Eventually(replaced).Should(Receive(Succeed()))
		Expect(store.Read(ctx, "b-1")).To(Equal(two))
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

	DescribeTable("leaves one of two states when it is killed", func(ctx context.Context, size, rounds int, whole bool) {
		small := state("small", 0)
		Expect(store.Replace(ctx, "b-1", nil, small)).To(Succeed())
		for range rounds {
			looping := start(p, "loop", strconv.Itoa(size))
			for seen := 0; seen < 3; { // It is at work, at no place in particular.
				text, err := store.Read(ctx, "b-1")
				Expect(err).NotTo(HaveOccurred())
				if bytes.Contains(text, []byte(`"large`)) == (seen%2 == 0) {
					seen++
				}
			}
			looping.kill()
			text, err := store.Read(ctx, "b-1")
			Expect(err).NotTo(HaveOccurred())
			if !whole && !json.Valid(text) {
				text, err = os.ReadFile(p.file("b-1", backup))
				Expect(err).NotTo(HaveOccurred())
				Expect(os.WriteFile(p.file("b-1", stateName), text, 0o600)).To(Succeed())
			}
			Expect(bytes.TrimRight(text, "\n")).To(Or(Equal(small), Equal(state("large", size))))
			Expect(store.Replace(ctx, "b-1", text, small)).To(Succeed())
		}
	},
		Entry("in a file of one page", 4000, 20, true),
		Entry("in a large file or its backup", 1_000_000, 10, false),
	)

	It("changes nothing when the disk is full", func(ctx context.Context) {
		long := strings.Repeat(" ", 100_000)
		full := start(p, "limit", "10000", "", long)
		Expect(full.line()).To(ContainSubstring("file too large"))
		Expect(full.Wait()).To(Succeed())
		Expect(files()).To(BeNil())

		Expect(store.Replace(ctx, "b-1", nil, one)).To(Succeed())
		full = start(p, "limit", "10000", string(one), long)
		Expect(full.line()).To(ContainSubstring("file too large"))
		Expect(full.Wait()).To(Succeed())
		Expect(store.Read(ctx, "b-1")).To(Equal(one))
		Expect(store.Delete(ctx, "b-1", one)).To(Succeed())
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
			Expect(store.Replace(ctx, "b-1", one, two)).To(MatchError(fs.ErrPermission))
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

// stopInReplace begins to replace the state of b-1 and stops under the lock, until the first function is called: the backup is a pipe
// that nobody reads.
func (p place) stopInReplace(ctx context.Context, before, next []byte) (goOn func(), replaced chan error) {
	GinkgoHelper()
	pipe := p.file("b-1", "terraform.tfstate.backup")
	Expect(syscall.Mkfifo(pipe, 0o600)).To(Succeed())
	replaced = make(chan error, 1)
	store := opened(p)
	go func() { replaced <- store.Replace(ctx, "b-1", before, next) }()
	Eventually(p.file("b-1", ".terraform.tfstate.lock.info")).Should(BeARegularFile())
	Eventually(func() ([]byte, error) { return os.ReadFile(p.file("b-1", ".terraform.tfstate.lock.info")) }).Should(ContainSubstring("}"))
	return func() {
		GinkgoHelper()
		text, err := os.ReadFile(pipe)
		Expect(err).NotTo(HaveOccurred())
		Expect(text).To(Equal(before))
	}, replaced
}

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
