package backends_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"service-adapter/spec/kit"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// mount mounts a file system at a directory until the spec ends. The spec ends as described for kit.Missing if mounting
// is not permitted.
func mount(source, dir, kind string, flags uintptr, options string) {
	GinkgoHelper()
	Expect(os.MkdirAll(dir, 0o700)).To(Succeed())
	err := syscall.Mount(source, dir, kind, flags, options)
	if errors.Is(err, syscall.EPERM) {
		kit.Missing(GinkgoT(), "a file system may not be mounted here; run the test as root, where that is allowed")
	}
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(syscall.Unmount(dir, syscall.MNT_DETACH)).To(Succeed()) })
}

// smallDisk mounts a disk of two megabytes at a directory.
func smallDisk(dir string) {
	GinkgoHelper()
	mount("tmpfs", dir, "tmpfs", 0, "size=2m,mode=700")
}

// fill fills a disk, and returns a function that frees the space again.
func fill(dir string) (empty func()) {
	GinkgoHelper()
	path := filepath.Join(dir, "filling")
	file, err := os.Create(path)
	Expect(err).NotTo(HaveOccurred())
	defer file.Close()
	for chunk := []byte(strings.Repeat("x", 4096)); err == nil; {
		_, err = file.Write(chunk)
	}
	Expect(err).To(MatchError(syscall.ENOSPC))
	return func() { Expect(os.Remove(path)).To(Succeed()) }
}

// diskFull is the text of the error on a full disk.
const diskFull = "no space left on device"

var _ = Describe("a full disk", func() {
	It("before a command is reported on one line, and loses no binding", func(ctx context.Context) {
		w := newWorld(ctx, pg)
		m := w.newMachine(ctx)
		smallDisk(m.cache)
		secret := m.credentials(m.bind(ctx, "bind-1"))
		empty := fill(m.cache)
		expectBroken(m.bind(ctx, "bind-2"), diskFull)
		expectBroken(m.unbind(ctx, "bind-1"), diskFull)
		w.works("bind-1", secret)
		empty()
		Expect(m.unbind(ctx, "bind-2").Exit).To(Equal(41))
		Expect(m.unbind(ctx, "bind-1").Exit).To(Equal(0))
		w.expectNothingLeft()
	})

	for _, kind := range []string{local, pg, s3} {
		It("while a resource is created prevents credentials that are not stored: "+kind, kit.SlowIf(kind != pg),
			func(ctx context.Context) {
				w := newWorld(ctx, kind)
				m := w.newMachine(ctx)
				smallDisk(m.cache)
				var empty func()
				got := m.heldAt(afterCreate, createBinding, m.bindParameters("bind-1"), func(int) {
					empty = fill(m.cache)
				})
				if got.Exit == 0 { // the disk of the states has space
					w.works("bind-1", m.credentials(got))
				} else {
					Expect(got.Exit).To(Equal(1), got.Stderr)
					Expect(got.Stdout).To(BeEmpty())
					Expect(got.Stderr).To(ContainSubstring(diskFull))
				}
				empty()
				m.expectAccounted(ctx, "bind-1")
				got = m.unbind(ctx, "bind-1")
				Expect(got.Exit).To(BeElementOf(0, 41), got.Stderr)
				w.expectNothingLeft()
			})
	}

	It("in the middle of a state write loses neither the previous state nor the resources created since",
		func(ctx context.Context) {
			w := newWorld(ctx, local)
			m := w.newMachine(ctx)
			m.killed(createBinding, m.bindParameters("bind-1"), afterCreate, theMachine)
			// A kill or a full disk during a write leaves a truncated state, and the previous state in the backup.
			file := filepath.Join(w.location, "workspaces", "b-bind-1", "terraform.tfstate")
			text := read(file)
			Expect(json.Valid([]byte(text))).To(BeTrue(), text)
			Expect(os.WriteFile(file+".backup", []byte(text), 0o600)).To(Succeed())
			Expect(os.WriteFile(file, []byte(text[:len(text)/2]), 0o600)).To(Succeed())
			got := m.unbind(ctx, "bind-1")
			Expect(got.Exit).To(Equal(0), got.Stderr)
			w.expectNothingLeft()
		})

	It("with the states on it loses no state, neither during a creation nor during a deletion",
		func(ctx context.Context) {
			w := newWorld(ctx, local)
			m := w.bareMachine()
			disk := filepath.Join(m.dir, "disk")
			smallDisk(disk)
			w.location, m.cache = filepath.Join(disk, "states"), filepath.Join(disk, "cache")
			m.set(object{"state": w.state(), "cache_dir": m.cache})
			m.deploy(ctx)
			secret := m.credentials(m.bind(ctx, "bind-1"))

			var empty func()
			got := m.heldAt(afterCreate, createBinding, m.bindParameters("bind-2"), func(int) { empty = fill(disk) })
			Expect(got.Exit).To(Equal(1), got.Stderr)
			Expect(got.Stdout).To(BeEmpty())
			empty()
			got = m.unbind(ctx, "bind-2")
			Expect(got.Exit).To(Equal(0), got.Stderr)
			Expect(w.resources()).To(HaveLen(2))

			got = m.heldAt(afterDelete, deleteBinding, m.unbindParameters("bind-1"), func(int) { empty = fill(disk) })
			empty()
			if got.Exit != 0 { // the adapter's copy of the state may fit where the state did not
				Expect(got.Exit).To(Equal(1), got.Stderr)
				Expect(secret).NotTo(BeEmpty())
				got = m.unbind(ctx, "bind-1")
				Expect(got.Exit).To(Equal(0), got.Stderr)
			}
			// The part of the state that OpenTofu could write is kept for an operator. Here, the stored state contains
			// all of its resources.
			incomplete, err := filepath.Glob(filepath.Join(m.cache, "incomplete-*.tfstate"))
			Expect(err).NotTo(HaveOccurred())
			for _, file := range incomplete {
				Expect(os.Remove(file)).To(Succeed())
			}
			w.expectNothingLeft()
		})
})

var _ = Describe("a directory", func() {
	It("for the cache that is read-only is reported on one line", func(ctx context.Context) {
		w := newWorld(ctx, pg)
		m := w.newMachine(ctx)
		mount("tmpfs", m.cache, "tmpfs", syscall.MS_RDONLY, "mode=700")
		expectBroken(m.bind(ctx, "bind-1"), "read-only file system")
		expectBroken(m.unbind(ctx, "bind-1"), "read-only file system")
		Expect(w.stored()).To(BeEmpty())
		Expect(w.resources()).To(BeEmpty())
	})

	It("for the cache or for temporary files may be mounted noexec", func(ctx context.Context) {
		w := newWorld(ctx, s3)
		m := w.bareMachine() // this machine prepares OpenTofu itself
		w.encrypt()
		m.set(object{"state": w.state()})
		mount("tmpfs", m.cache, "tmpfs", syscall.MS_NOEXEC, "mode=700")
		mount("tmpfs", m.temporary, "tmpfs", syscall.MS_NOEXEC, "mode=700")
		m.deploy(ctx)
		w.works("bind-1", m.credentials(m.bind(ctx, "bind-1")))
		Expect(m.unbind(ctx, "bind-1").Exit).To(Equal(0))
		w.expectNothingLeft()
	})

	It("with prepared directories may be read-only, and no template is prepared again", func(ctx context.Context) {
		w := newWorld(ctx, pg)
		m := w.newMachine(ctx)
		prepared := filepath.Join(m.dir, "prepared")
		mount(suite.warm[pg], prepared, "", syscall.MS_BIND, "")
		Expect(syscall.Mount("", prepared, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, "")).To(Succeed())
		m.set(object{"prepared_dir": prepared})
		w.works("bind-1", m.credentials(m.bind(ctx, "bind-1")))
		Expect(m.unbind(ctx, "bind-1").Exit).To(Equal(0))
		Expect(list(filepath.Join(m.cache, "prepared"))).To(BeEmpty())
		w.expectNothingLeft()
	})
})
