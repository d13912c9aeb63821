package backends_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"service-adapter/spec/kit"
	"service-adapter/spec/kit/process"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// atOnce is the number of adapters that run at the same time, each with an OpenTofu and a provider.
const atOnce = 6

var _ = Describe("fifty bindings of ten instances", func() {
	DescribeTable("are created and deleted concurrently", func(ctx context.Context, kind string) {
		const count = 50
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
		for n := range count {
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
			// The second half is created while the first half is deleted.
			if n < count/2 {
				first, second = append(first, make), append(second, remove)
			} else {
				second = append(second, func() { make(); remove() })
			}
		}
		process.Together(atOnce, first...)
		for id, secret := range secrets {
			w.works(id, secret)
		}
		Expect(w.resources()).To(HaveLen(2 * (count / 2)))
		process.Together(atOnce, second...)
		Expect(secrets).To(HaveLen(count))
		w.expectNothingLeft()
	}, kit.Slow(), Entry("on pg", pg), Entry("on s3", s3))
})

// multiply fills the backend with copies of the binding "copy-0000" that differ only in their id, and returns their
// number. It writes the data of OpenTofu directly into the table, the bucket or the directory, because creating
// thousands of bindings takes an hour.
func (w *world) multiply(ctx context.Context, from, to int) {
	GinkgoHelper()
	const original = "copy-0000"
	switch w.kind {
	case pg:
		_, err := w.server.Query(ctx, w.location, fmt.Sprintf(`INSERT INTO terraform_remote_state.states (name, data)
			SELECT 'b-copy-' || lpad(n::text, 4, '0'), replace(data, '%s', 'copy-' || lpad(n::text, 4, '0'))
			FROM terraform_remote_state.states, generate_series(%d, %d) n
			WHERE name = 'b-%s'`, original, from, to, original))
		Expect(err).NotTo(HaveOccurred())
	default:
		roots := []string{filepath.Join(w.location, "workspaces")}
		if w.kind == s3 {
			roots = []string{w.object("env:"), filepath.Join(w.server.Dir, "metadata", w.location, "env:")}
		}
		for _, root := range roots {
			for n := from; n <= to; n++ {
				copyTree(filepath.Join(root, "b-"+original), original, fmt.Sprintf("copy-%04d", n))
			}
		}
	}
}

// copyTree copies a directory whose name ends with an id. It replaces the id in the name of the copy and in its files.
func copyTree(dir, from, to string) {
	GinkgoHelper()
	Expect(filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		// A checksum of the original does not match the copy.
		if err != nil || entry.IsDir() || strings.Contains(strings.ToLower(entry.Name()), "checksum") {
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
	for _, kind := range []string{local, pg, s3} {
		It("can be stored, and one of them can be deleted: "+kind, kit.SlowIf(kind != pg), func(ctx context.Context) {
			const many = 2000
			w := newWorld(ctx, kind)
			m := w.newMachine(ctx)
			m.credentials(m.bind(ctx, "copy-0000"))
			w.multiply(ctx, 1, many-1)
			Expect(w.stored()).To(HaveLen(many))
			if kind != s3 { // each entry of a list takes a run of OpenTofu on s3
				Expect(m.listed(ctx)).To(HaveLen(many))
			}
			w.works("bind-1", m.credentials(m.bind(ctx, "bind-1")))
			Expect(m.unbind(ctx, "bind-1").Exit).To(Equal(0))

			// The resources of a copy never existed, which OpenTofu treats like resources that were removed without it.
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
