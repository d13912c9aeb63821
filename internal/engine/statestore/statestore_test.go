package statestore_test

import (
	"context"
	"slices"
	"strconv"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/statestore"
)

// both are the kinds of backends that the specs of this file run with.
var both = []TableEntry{Entry("of the backend local", "local"), Entry("of the backend pg", "pg")}

var _ = Describe("a store of states", func() {
	one, two, long := []byte(`{"n":1}`), []byte(`{"n":2}`), state("long", 100_000)

	// create creates the workspace b-1 with this state. It does nothing if the state is nil.
	create := func(ctx context.Context, store statestore.Store, text []byte) {
		GinkgoHelper()
		if text != nil {
			Expect(store.Replace(ctx, "b-1", nil, text)).To(Succeed())
		}
	}

	It("replaces the state that the caller read, with the backend pg", func(ctx context.Context) {
		p := newBackend(ctx, "pg")
		for n, text := range [][]byte{one, long, two, []byte("\"\\ud83d\\ude00 ü 😀\"\n"), one} {
			var before []byte
			if n > 0 {
				var err error
				before, err = newStore(p).Read(ctx, "b-1")
				Expect(err).NotTo(HaveOccurred())
			}
			Expect(newStore(p).Replace(ctx, "b-1", before, text)).To(Succeed())
			Expect(newStore(p).Read(ctx, "b-1")).To(Equal(text))
		}
	})

	DescribeTable("changes nothing if another state is stored", func(ctx context.Context, kind string) {
		store := newStore(newBackend(ctx, kind))
		for _, stored := range [][]byte{nil, one, long} {
			create(ctx, store, stored)
			for _, before := range [][]byte{nil, two, one[:1], append(slices.Clone(one), '\n')} {
				if stored == nil && before == nil {
					continue
				}
				refused := statestore.ErrChanged
				if kind == "local" && before != nil {
					refused = statestore.ErrUnsupported
				}
				Expect(store.Replace(ctx, "b-1", before, []byte("{}"))).To(MatchError(refused))
				Expect(store.Delete(ctx, "b-1", before)).To(MatchError(statestore.ErrChanged))
				Expect(store.Read(ctx, "b-1")).To(Equal(stored))
				names, err := store.List(ctx)
				Expect(err).NotTo(HaveOccurred())
				Expect(len(names) == 1).To(Equal(stored != nil))
			}
			Expect(store.Delete(ctx, "b-1", stored)).To(Succeed())
		}
	}, both)

	DescribeTable("deletes the state that the caller read", func(ctx context.Context, kind string) {
		store := newStore(newBackend(ctx, kind))
		create(ctx, store, one)
		Expect(store.Delete(ctx, "b-1", one)).To(Succeed())
		create(ctx, store, two)
		Expect(store.Delete(ctx, "b-1", two)).To(Succeed())
		Expect(store.Read(ctx, "b-1")).To(BeNil())
		Expect(store.List(ctx)).To(BeEmpty())
		Expect(store.Delete(ctx, "b-1", nil)).To(Succeed())
		create(ctx, store, one)
	}, both)

	DescribeTable("lists the workspaces sorted", func(ctx context.Context, kind string) {
		store := newStore(newBackend(ctx, kind))
		Expect(store.List(ctx)).To(BeEmpty())
		for _, name := range []string{"i-2", "b-1", "it's \"ü\""} {
			Expect(store.Replace(ctx, name, nil, one)).To(Succeed())
		}
		Expect(store.List(ctx)).To(Equal([]string{"b-1", "i-2", "it's \"ü\""}))
	}, both)

	DescribeTable("rejects names that are not plain, and empty states", func(ctx context.Context, kind string) {
		store := newStore(newBackend(ctx, kind))
		for _, name := range []string{"", ".", "..", "default", "a/b", "a\x00"} {
			_, err := store.Read(ctx, name)
			Expect(err).To(MatchError(ContainSubstring("plain name")), name)
			Expect(store.Replace(ctx, name, nil, one)).To(MatchError(ContainSubstring("plain name")), name)
			Expect(store.Delete(ctx, name, nil)).To(MatchError(ContainSubstring("plain name")), name)
		}
		Expect(store.Replace(ctx, "b-1", nil, nil)).To(MatchError(ContainSubstring("empty")))
		Expect(store.List(ctx)).To(BeEmpty())
	}, both)

	DescribeTable("returns the error of a context that ended", func(ctx context.Context, kind string) {
		store := newStore(newBackend(ctx, kind))
		create(ctx, store, one)
		ended, cancel := context.WithCancel(ctx)
		cancel()
		_, err := store.Read(ended, "b-1")
		Expect(err).To(MatchError(context.Canceled))
		_, err = store.List(ended)
		Expect(err).To(MatchError(context.Canceled))
		Expect(store.Replace(ended, "b-1", one, two)).To(MatchError(context.Canceled))
		Expect(store.Delete(ended, "b-1", one)).To(MatchError(context.Canceled))
		Expect(store.Read(ctx, "b-1")).To(Equal(one))
	}, both)

	DescribeTable("lets exactly one of several processes create a workspace", func(ctx context.Context, kind string) {
		p := newBackend(ctx, kind)
		for round := range 5 {
			var helpers []process
			for n := range 8 {
				helpers = append(helpers, start(p, "create", strconv.Itoa(n+1)))
			}
			for _, h := range helpers {
				Expect(h.input.Close()).To(Succeed())
			}
			winner := 0
			for n, h := range helpers {
				if line := h.line(); line == "done" {
					Expect(winner).To(BeZero(), "round %d: %d and %d", round, winner, n+1)
					winner = n + 1
				} else {
					Expect(line).To(Or(Equal("changed"), Equal("held")))
				}
				Expect(h.Wait()).To(Succeed())
			}
			stored := []byte(strconv.Itoa(winner))
			Expect(newStore(p).Read(ctx, "b-1")).To(Equal(stored), "round %d", round)
			Expect(newStore(p).Delete(ctx, "b-1", stored)).To(Succeed())
		}
	}, both)

	It("loses no change of concurrent processes, with the backend pg", func(ctx context.Context) {
		p := newBackend(ctx, "pg")
		create(ctx, newStore(p), []byte("0"))
		var helpers []process
		for range 4 {
			helpers = append(helpers, start(p, "count"))
		}
		for _, h := range helpers {
			Expect(h.input.Close()).To(Succeed())
		}
		for _, h := range helpers {
			Expect(h.Wait()).To(Succeed())
		}
		Expect(newStore(p).Read(ctx, "b-1")).To(Equal([]byte(strconv.Itoa(4 * increments))))
	})

	DescribeTable("survives concurrent creations and deletions of a workspace", func(ctx context.Context, kind string) {
		p := newBackend(ctx, kind)
		var helpers []process
		for n := range 4 {
			helpers = append(helpers, start(p, "churn", strconv.Itoa(n)))
		}
		for _, h := range helpers {
			Expect(h.input.Close()).To(Succeed())
		}
		left := 0
		for _, h := range helpers {
			made, err := strconv.Atoi(h.line())
			Expect(err).NotTo(HaveOccurred())
			Expect(h.Wait()).To(Succeed())
			left += made
		}
		stored, err := newStore(p).Read(ctx, "b-1")
		Expect(err).NotTo(HaveOccurred())
		Expect(left).To(Equal(min(1, len(stored))))
		Expect(newStore(p).Delete(ctx, "b-1", stored)).To(Succeed())
		Expect(newStore(p).List(ctx)).To(BeEmpty())
	}, both)
})
