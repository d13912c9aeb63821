package statelock_test

import (
	"bytes"
	"context"
	"log/slog"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/backend"
	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/statelock"
)

var _ = Describe("The warning about a wait", func() {
	var output bytes.Buffer
	// wait performs an operation that fails on a lock until ended, which receives the number of attempts, returns true.
	wait := func(ctx context.Context, kind string, ended func(attempts int) bool) {
		GinkgoHelper()
		output.Reset()
		waiter := statelock.NewWaiter("b-1", backend.Backend{Type: kind}, slog.New(slog.NewTextHandler(&output, nil)))
		attempts := 0
		Expect(waiter.Retry(ctx, func() error {
			if attempts++; ended(attempts) {
				return nil
			}
			return &opentofu.Error{HeldLock: &held}
		})).To(Succeed())
	}
	second := func(attempts int) bool { return attempts == 2 }

	It("is written at once with the holder that the backend reports", func(ctx context.Context) {
		wait(ctx, "s3", second)
		Expect(output.String()).To(HaveSuffix(`level=WARN msg="waiting for a lock of the state" ` +
			"workspace=b-1 who=vcap@machine operation=OperationTypeApply id=1234\n"))
	})

	It("is not written for pg if the wait is short, because the lock may be that of another state",
		func(ctx context.Context) {
			wait(ctx, "pg", second)
			Expect(output.String()).To(BeEmpty())
		})

	It("does not name a holder for pg, and is written once", func(ctx context.Context) {
		began, logged := time.Now(), 0
		wait(ctx, "pg", func(int) bool {
			if output.Len() > 0 {
				logged++
			}
			return logged == 2 || time.Since(began) > 12*time.Second
		})
		Expect(output.String()).To(MatchRegexp(
			`^time=\S+ level=WARN msg="waiting for a lock of the state" workspace=b-1\n$`))
	})
})
