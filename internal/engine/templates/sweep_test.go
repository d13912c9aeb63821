package templates_test

import (
	"context"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/templates"
	"service-adapter/internal/filelock"
)

var _ = Describe("Sweep", func() {
	var cache *templates.Cache
	var abandoned, unused, recent string

	BeforeEach(func() {
		dir := GinkgoT().TempDir()
		cache = newCache(dir)
		abandoned, unused, recent = filepath.Join(dir, "prepared", ".new-1"), filepath.Join(dir, "prepared", "unused"),
			filepath.Join(dir, "prepared", "recent")
		monthAgo := time.Now().Add(-31 * 24 * time.Hour)
		for _, path := range []string{abandoned, unused, recent} {
			Expect(os.Mkdir(path, 0o700)).To(Succeed())
		}
		Expect(os.Chtimes(unused, monthAgo, monthAgo)).To(Succeed())
	})

	It("removes what an interrupted build left, and then directories that were not used for a month", func() {
		Expect(cache.Sweep()).To(Succeed())
		Expect(abandoned).NotTo(BeADirectory())
		Expect(unused).NotTo(BeADirectory())
		Expect(recent).To(BeADirectory())
	})

	It("removes nothing without an interrupted build, so that a first bind after a month is not slower", func() {
		Expect(os.Remove(abandoned)).To(Succeed())
		Expect(cache.Sweep()).To(Succeed())
		Expect(unused).To(BeADirectory())
	})

	It("removes nothing while another process builds a directory", func(ctx context.Context) {
		lock, err := filelock.Lock(ctx, filepath.Join(filepath.Dir(abandoned), ".lock"), nil)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(lock.Close)
		Expect(cache.Sweep()).To(Succeed())
		Expect(abandoned).To(BeADirectory())
		Expect(unused).To(BeADirectory())
	})
})
