package acceptance_test

import (
	"context"
	"fmt"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("simultaneous creations", func() {
	var b *broker

	BeforeEach(func(ctx context.Context) {
		b = newBroker(newSite("entries"))
		b.deploy(ctx, nil)
	})

	// bindAll creates n bindings at the same time and returns their secrets.
	bindAll := func(ctx context.Context, n int) map[any]bool {
		GinkgoHelper()
		secrets := map[any]bool{}
		var lock sync.Mutex
		var binds []func()
		for i := range n {
			binds = append(binds, func() {
				got := credentials(b.bind(ctx, fmt.Sprintf("bind-%d", i), nil))
				lock.Lock()
				defer lock.Unlock()
				secrets[got["secret"]] = true
			})
		}
		together(binds...)
		return secrets
	}

	It("succeed on a new machine, and twenty of them on a machine with prepared directories",
		func(ctx context.Context) {
			Expect(bindAll(ctx, 2)).To(HaveLen(2))
			together(
				func() { Expect(b.unbind(ctx, "bind-0").Exit).To(Equal(0)) },
				func() { Expect(b.unbind(ctx, "bind-1").Exit).To(Equal(0)) },
			)
			b.site.expectNothingLeft()
			Expect(bindAll(ctx, 20)).To(HaveLen(20))
			Expect(b.site.resources()).To(HaveLen(2 * 20))
			b.site.expectNoProcesses()
		})

	It("with the same id create one binding", func(ctx context.Context) {
		var codes [2]int
		together(
			func() { codes[0] = b.bind(ctx, "bind-1", nil).Exit },
			func() { codes[1] = b.bind(ctx, "bind-1", nil).Exit },
		)
		Expect(codes).To(ConsistOf(0, 49))
		Expect(b.unbind(ctx, "bind-1").Exit).To(Equal(0))
		b.site.expectNothingLeft()
	})

	It("and deletions leave nothing, in whatever order they run", func(ctx context.Context) {
		var created, deleted int
		together(
			func() { created = b.bind(ctx, "bind-1", nil).Exit },
			func() { deleted = b.unbind(ctx, "bind-1").Exit },
		)
		Expect(created).To(Equal(0))
		Expect(deleted).To(BeElementOf(0, 41))
		if deleted == 41 {
			Expect(b.unbind(ctx, "bind-1").Exit).To(Equal(0))
		}
		b.site.expectNothingLeft()
	})
})
