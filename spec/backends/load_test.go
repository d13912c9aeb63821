package backends_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"service-adapter/spec/kit/process"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// atOnce is how many adapters run at the same time; each has an OpenTofu and a provider.
const atOnce = 6

var _ = Describe("fifty bindings of ten instances", func() {
	DescribeTable("are made and deleted at the same time", func(ctx context.Context, kind string) {
		w := newWorld(ctx, kind)
		host := w.newMachine(ctx)
		var instances []*machine
		for n := range 10 {
			each := *host // one adapter, several instances
			each.Instance = instance(fmt.Sprintf("inst-%d", n))
			each.deploy(ctx)
			instances = append(instances, &each)
		}
		secrets := map[string]any{}
		var mutex sync.Mutex
		var first, second []func()
		for n := range 50 {
			id, on := fmt.Sprintf("bind-%d", n), instances[n%len(instances)]
			make := func() {
				secret := on.credentials(on.bind(ctx, id))
				w.works(id, secret)
				mutex.Lock()
				defer mutex.Unlock()
				secrets[id] = secret
			}
			remove := func() {
				got := on.unbind(ctx, id)
				Expect(got.Exit).To(Equal(0), got.Stderr)
			}
			// The second half is made while the first one is deleted.
			if n < 25 {
				first, second = append(first, make), append(second, remove)
			} else {
				second = append(second, func() { make(); remove() })
			}
		}
		process.Together(atOnce, first...)
		for id, secret := range secrets {
			w.works(id, secret)
		}
		Expect(w.resources()).To(HaveLen(2 * 25))
		process.Together(atOnce, second...)
		Expect(secrets).To(HaveLen(50))
		w.expectNothingLeft()
	}, Entry("on pg", pg), Entry("on s3", s3))
})

// multiply fills the store with copies of the binding "copy-0000" in which only the id differs, and returns their number. It writes what
// OpenTofu would have written, right into the table, the bucket and the directory: to make thousands takes an hour.
func (w *world) multiply(ctx context.Context, from, to int) {
	GinkgoHelper()
	const original = "copy-0000"
	switch w.kind {
	case pg:
		_, err := w.server.Query(ctx, w.place, fmt.Sprintf(`INSERT INTO terraform_remote_state.states (name, data)
			SELECT 'b-copy-' || lpad(n::text, 4, '0'), replace(data, '%s', 'copy-' || lpad(n::text, 4, '0'))
			FROM terraform_remote_state.states, generate_series(%d, %d) n WHERE name = 'b-%s'`, original, from, to, original))
		Expect(err).NotTo(HaveOccurred())
	default:
		roots := []string{filepath.Join(w.place, "workspaces")}
		if w.kind == s3 {
			roots = []string{w.object("env:"), filepath.Join(w.server.Dir, "metadata", w.place, "env:")}
		}
		for _, root := range roots {
			for n := from; n <= to; n++ {
				copyTree(filepath.Join(root, "b-"+original), original, fmt.Sprintf("copy-%04d", n))
			}
		}
	}
}

// copyTree copies a directory whose name ends with an id to one of another id, and replaces that in the files as well.
func copyTree(dir, from, to string) {
	GinkgoHelper()
	Expect(filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.Contains(strings.ToLower(entry.Name()), "checksum") { // that of the original
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		path = strings.Replace(path, "b-"+from, "b-"+to, 1)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		return os.WriteFile(path, []byte(strings.ReplaceAll(string(text), from, to)), 0o600)
	})).To(Or(Succeed(), MatchError(fs.ErrNotExist)))
}

var _ = Describe("two thousand bindings", func() {
	// pace is the middle one of several times that a creation and a deletion take.
	pace := func(ctx context.Context, m *machine) (bind, unbind time.Duration) {
		GinkgoHelper()
		var binds, unbinds []time.Duration
		for range 3 {
			began := time.Now()
			m.credentials(m.bind(ctx, "bind-1"))
			binds = append(binds, time.Since(began))
			began = time.Now()
			Expect(m.unbind(ctx, "bind-1").Exit).To(Equal(0))
			unbinds = append(unbinds, time.Since(began))
		}
		slices.Sort(binds)
		slices.Sort(unbinds)
		return binds[1], unbinds[1]
	}

	for _, kind := range []string{local, pg, s3} {
		It("can be stored, and one of them deleted: "+kind, func(ctx context.Context) {
			const few, many = 10, 2000
			w := newWorld(ctx, kind)
			m := w.newMachine(ctx)
			m.credentials(m.bind(ctx, "copy-0000"))
			w.multiply(ctx, 1, few-1)
			began := time.Now()
			Expect(m.listed(ctx)).To(HaveLen(few))
			AddReportEntry("the list of "+kind, fmt.Sprintf("%s: the list of %d takes %v", kind, few, time.Since(began).Round(time.Millisecond)),
				ReportEntryVisibilityAlways)
			bind, unbind := pace(ctx, m)
			w.multiply(ctx, few, many-1)
			Expect(w.stored()).To(HaveLen(many))
			bindMany, unbindMany := pace(ctx, m)
			AddReportEntry("the cost of "+kind, fmt.Sprintf("%s: bind %v with %d stored, %v with %d; unbind %v, %v; a thousand more cost %v and %v",
				kind, bind.Round(time.Millisecond), few, bindMany.Round(time.Millisecond), many, unbind.Round(time.Millisecond),
				unbindMany.Round(time.Millisecond), slope(bind, bindMany), slope(unbind, unbindMany)), ReportEntryVisibilityAlways)

			if kind == local { // elsewhere each entry takes an OpenTofu
				Expect(m.listed(ctx)).To(HaveLen(many))
			}

			// A copy is as good as the original: its own resources never existed, as if somebody had removed them.
			Expect(m.unbind(ctx, "copy-1234").Exit).To(Equal(0))
			Expect(m.unbind(ctx, "copy-1234").Exit).To(Equal(41))
			Expect(w.stored()).To(HaveLen(many - 1))
			Expect(w.resources()).To(ConsistOf("copy-0000-account", "copy-0000-grant"))
			Expect(m.unbind(ctx, "copy-0000").Exit).To(Equal(0))
			Expect(w.resources()).To(BeEmpty())
			m.expectTidy()
		})
	}
})

// slope is what a thousand stored bindings add.
func slope(few, many time.Duration) time.Duration {
	return ((many - few) * 1000 / 1990).Round(time.Millisecond)
}
