package filelock_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/filelock"
	"service-adapter/spec/kit"
)

func TestFilelock(t *testing.T) {
	kit.Suite(t, "internal/filelock")
}

var _ = Describe("a file lock", func() {
	var path string

	BeforeEach(func() { path = filepath.Join(GinkgoT().TempDir(), "lock") })

	// try makes one attempt to take the lock, and releases it when the spec ends.
	try := func() *os.File {
		GinkgoHelper()
		file, err := filelock.Try(path)
		Expect(err).NotTo(HaveOccurred())
		if file != nil {
			DeferCleanup(func() { _ = file.Close() })
		}
		return file
	}

	It("has one holder at a time", func() {
		first := try()
		Expect(first).NotTo(BeNil())
		Expect(try()).To(BeNil())
		Expect(first.Close()).To(Succeed())
		Expect(try()).NotTo(BeNil())
	})

	It("has one holder at a time although holders remove the file", func() {
		var holders, violations atomic.Int32
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				for range 500 {
					file, err := filelock.Try(path)
					if err != nil {
						violations.Add(1)
					}
					if file == nil {
						continue
					}
					if holders.Add(1) > 1 {
						violations.Add(1)
					}
					runtime.Gosched()
					holders.Add(-1)
					_ = os.Remove(path)
					_ = file.Close()
				}
			})
		}
		group.Wait()
		Expect(violations.Load()).To(BeZero())
	})

	It("is awaited until the context ends, and taken as soon as it is released", func(ctx context.Context) {
		held := try()
		attempts := 0
		limited, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		_, err := filelock.Lock(limited, path, func() { attempts++ })
		Expect(err).To(MatchError(context.DeadlineExceeded))
		Expect(attempts).To(BeNumerically(">", 1))
		file, err := filelock.Lock(ctx, path, func() { _ = held.Close() })
		Expect(err).NotTo(HaveOccurred())
		Expect(try()).To(BeNil())
		Expect(file.Close()).To(Succeed())
	})

	It("reports the cause for which the context ended", func(ctx context.Context) {
		try()
		cause := &budgetError{}
		limited, cancel := context.WithTimeoutCause(ctx, time.Millisecond, cause)
		defer cancel()
		_, err := filelock.Lock(limited, path, nil)
		Expect(err).To(BeIdenticalTo(cause))
	})

	It("cannot be taken in a directory that does not exist", func() {
		path = filepath.Join(path, "lock")
		_, err := filelock.Try(path)
		Expect(err).To(MatchError(os.ErrNotExist))
	})
})

// A budgetError is a cause that wraps the error of a context.
type budgetError struct{}

func (*budgetError) Error() string { return "the budget was spent" }

func (*budgetError) Unwrap() error { return context.DeadlineExceeded }
