package statelock_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/backend"
	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/statelock"
	"service-adapter/internal/engine/statestore"
	"service-adapter/spec/kit"
)

func TestStatelock(t *testing.T) {
	kit.Suite(t, "internal/engine/statelock")
}

// newWaiter returns a Waiter for the workspace b-1 of a type of backend.
func newWaiter(backendType string) *statelock.Waiter {
	return statelock.NewWaiter("b-1", backend.Backend{Type: backendType}, slog.New(slog.DiscardHandler))
}

// held is the lock of another run.
var held = statestore.HeldError{
	ID: "1234", Who: "vcap@machine", Operation: "OperationTypeApply", Created: time.Unix(0, 0),
}

var _ = Describe("Retry", func() {
	It("repeats work until the lock is released", func(ctx context.Context) {
		attempts := 0
		Expect(newWaiter("s3").Retry(ctx, func() error {
			if attempts++; attempts < 3 {
				return &opentofu.Error{HeldLock: &held}
			}
			return nil
		})).To(Succeed())
		Expect(attempts).To(Equal(3))
	})

	It("returns other errors at once", func(ctx context.Context) {
		attempts, failure := 0, &opentofu.Error{Summary: "another error"}
		Expect(newWaiter("s3").Retry(ctx, func() error { attempts++; return failure })).To(BeIdenticalTo(failure))
		Expect(attempts).To(Equal(1))
	})

	It("gives up after half of the time that the context has left", func(ctx context.Context) {
		limited, cancel := context.WithTimeout(ctx, 4*time.Second)
		defer cancel()
		err := newWaiter("local").Retry(limited, func() error { return &held })
		Expect(limited.Err()).NotTo(HaveOccurred())
		Expect(statelock.IsLocked(err)).To(BeTrue())
		Expect(errors.Is(err, context.DeadlineExceeded)).To(BeFalse())
	})

	It("gives up when the context ends, and reports why", func(ctx context.Context) {
		limited, cancel := context.WithCancel(ctx)
		err := newWaiter("local").Retry(limited, func() error { cancel(); return &held })
		Expect(statelock.IsLocked(err)).To(BeTrue())
		Expect(err).To(MatchError(context.Canceled))
	})
})

var _ = Describe("an error about a lock", func() {
	DescribeTable("names the holder and the command that releases the lock", func(workspace, command string) {
		err := &statelock.Error{Workspace: workspace, HeldError: held}
		Expect(err.Error()).To(Equal(`the state of workspace "` + workspace + `" is locked by vcap@machine since ` +
			"1970-01-01T00:00:00Z (OperationTypeApply, lock 1234); if that run is dead, release the lock with " +
			"`service-adapter " + command + "`"))
	},
		Entry("of a binding", "b-1-2", "bindings unlock 1-2"),
		Entry("of an instance", "i-1", "instance unlock 1"),
		Entry("of a binding with a hashed id", "bh-0a", "bindings unlock bh-0a"),
		Entry("of an instance with a hashed id", "ih-0a", "instance unlock ih-0a"),
	)

	It("does not name the holder for pg, where OpenTofu describes its own process", func() {
		failure := &opentofu.Error{HeldLock: &held}
		Expect(newWaiter("pg").HeldBy(failure).Error()).To(
			Equal(`the state of workspace "b-1" is locked by another run; try again when that has ended`))
		Expect(newWaiter("s3").HeldBy(failure).ID).To(Equal("1234"))
	})
})
