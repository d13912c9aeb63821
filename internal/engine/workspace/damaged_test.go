package workspace_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/templates"
	"service-adapter/internal/engine/workspace"
)

// protectedEntry is a template whose prepared directory contains every kind of generated file.
const protectedEntry = providers + `
variable "path" {}
resource "directory_entry" "account" {
  path    = var.path
  name    = "account"
  content = var.content
  lifecycle {
    prevent_destroy = true
  }
}
output "content" { value = directory_entry.account.content }
`

// prepareProtected prepares protectedEntry.
func prepareProtected(ctx context.Context, engine *workspace.Engine) (*templates.Prepared, error) {
	return engine.Prepare(ctx, installation(), templates.Template{
		Files: map[string]string{"main.tf": protectedEntry}, Inputs: []string{"content"},
	})
}

// bindAndUnbind reserves, applies, destroys and removes a workspace with protectedEntry.
func (s site) bindAndUnbind(ctx context.Context, engine *workspace.Engine) {
	GinkgoHelper()
	vars := map[string]any{"path": s.entries, "content": "text"}
	for _, change := range []func(*workspace.Workspace, *templates.Prepared) error{
		func(w *workspace.Workspace, p *templates.Prepared) error {
			return errors.Join(w.Reserve(ctx, installation(), []byte("record")), w.Apply(ctx, p, vars))
		},
		func(w *workspace.Workspace, p *templates.Prepared) error {
			_, err := w.State(ctx, installation())
			return errors.Join(err, w.Destroy(ctx, p, vars), w.Remove(ctx, installation()))
		},
	} {
		space := open(ctx, engine, "b-1")
		prepared, err := prepareProtected(ctx, engine)
		Expect(err).NotTo(HaveOccurred())
		Expect(change(space, prepared)).To(Succeed())
		Expect(space.Close()).To(Succeed())
	}
	Expect(s.workspaces()).To(BeEmpty())
	Expect(filepath.Join(s.entries, "account")).NotTo(BeAnExistingFile())
}

// contents returns the text of each file and the target of each symbolic link below a directory, by relative path.
func contents(dir string) map[string]string {
	GinkgoHelper()
	files := map[string]string{}
	Expect(filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if entry.Type()&fs.ModeSymlink != 0 {
			files[name], err = os.Readlink(path)
			return err
		}
		files[name] = string(readFile(path))
		return nil
	})).To(Succeed())
	return files
}

// damages are the effects of a power loss on a file that was not synced.
var damages = map[string]func(path string) error{
	"missing": os.Remove,
	"empty":   func(path string) error { return os.Truncate(path, 0) },
	"half-written": func(path string) error {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		return os.Truncate(path, info.Size()/2)
	},
	"filled with zeros": func(path string) error {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		return os.WriteFile(path, make([]byte, info.Size()), 0o600)
	},
}

var _ = Describe("a damaged prepared directory", func() {
	var (
		s      site
		engine *workspace.Engine
		dir    string
	)

	BeforeEach(func(ctx context.Context) {
		s = newSite()
		engine = s.engine()
		_, err := prepareProtected(ctx, engine)
		Expect(err).NotTo(HaveOccurred())
		Expect(directories(s.cache)).To(HaveLen(1))
		dir = directories(s.cache)[0]
	})

	DescribeTable("does not prevent binds and unbinds with",
		func(ctx context.Context, file, damage string) {
			Expect(damages[damage](filepath.Join(dir, file))).To(Succeed())
			s.bindAndUnbind(ctx, engine)
		},
		Entry("an empty description of the template", "template.json", "empty"),
		Entry("a half-written description of the template", "template.json", "half-written"),
		Entry("an empty template", "apply/main.tf", "empty"),
		Entry("a half-written template", "apply/main.tf", "half-written"),
		Entry("a missing template", "apply/main.tf", "missing"),
		Entry("an empty guard", "apply/_binding.tf.json", "empty"),
		Entry("an empty override", "apply/~backend_override.tf.json", "empty"),
		Entry("a half-written override", "apply/~sensitive_override.tf.json", "half-written"),
		Entry("a missing override", "destroy/~unprotect_override.tf.json", "missing"),
		Entry("an empty template of the destroy variant", "destroy/main.tf", "empty"),
		Entry("empty settings of the backend", "apply/.terraform/terraform.tfstate", "empty"),
	)

	It("is rebuilt, whichever file is damaged", func(ctx context.Context) {
		intact := contents(dir)
		Expect(intact).To(And(HaveKey("digest.json"), HaveKey("apply/.terraform.lock.hcl"),
			HaveKey("destroy/.terraform")))
		kinds := slices.Sorted(maps.Keys(damages))
		for n, name := range slices.Sorted(maps.Keys(intact)) {
			path, tried := filepath.Join(dir, name), kinds[n%len(kinds):][:1]
			info, err := os.Lstat(path)
			Expect(err).NotTo(HaveOccurred())
			switch {
			case name == "digest.json":
				tried = kinds
			case !info.Mode().IsRegular() || info.Size() == 0:
				tried = []string{"missing"}
			}
			for _, damage := range tried {
				Expect(damages[damage](path)).To(Succeed())
				_, err := prepareProtected(ctx, engine)
				Expect(err).NotTo(HaveOccurred(), "%s %s", damage, name)
				Expect(contents(dir)).To(Equal(intact), "%s %s", damage, name)
			}
		}
		Expect(directories(s.cache)).To(HaveLen(1))
		Expect(filepath.Glob(filepath.Join(s.cache, "prepared", ".new-*"))).To(BeEmpty())
	})

	It("is neither used nor changed if it is read-only", func(ctx context.Context) {
		Expect(os.Truncate(filepath.Join(dir, "destroy/main.tf"), 0)).To(Succeed())
		before := snapshot(s.cache)
		var log bytes.Buffer
		options := s.options()
		options.CacheDir, options.PreparedDir = s.cache+"-2", s.cache
		options.Logger = slog.New(slog.NewTextHandler(&log, nil))
		second, err := workspace.New(options)
		Expect(err).NotTo(HaveOccurred())
		s.bindAndUnbind(ctx, second)
		Expect(snapshot(s.cache)).To(Equal(before))
		Expect(filepath.Join(options.CacheDir, "prepared", filepath.Base(dir))).To(BeADirectory())
		Expect(log.String()).To(And(ContainSubstring("level=WARN"), ContainSubstring(dir),
			ContainSubstring("service-adapter prepare")))
	})

	It("is rebuilt only once by concurrent runs", func(ctx context.Context) {
		for _, damage := range []string{"template.json", "apply/main.tf"} {
			Expect(os.Truncate(filepath.Join(dir, damage), 0)).To(Succeed())
			var log lockedBuffer
			var group sync.WaitGroup
			for range 5 {
				options := s.options()
				options.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
				one, err := workspace.New(options)
				Expect(err).NotTo(HaveOccurred())
				group.Go(func() {
					defer GinkgoRecover()
					_, err := prepareProtected(ctx, one)
					Expect(err).NotTo(HaveOccurred())
				})
			}
			group.Wait()
			Expect(strings.Count(log.String(), "command=init")).To(Equal(1), log.String())
			Expect(directories(s.cache)).To(HaveLen(1))
			Expect(filepath.Glob(filepath.Join(s.cache, "prepared", ".new-*"))).To(BeEmpty())
		}
	})

	It("is replaced while another run uses it", func(ctx context.Context) {
		vars := map[string]any{"path": s.entries, "content": "text"}
		prepared, err := prepareProtected(ctx, engine)
		Expect(err).NotTo(HaveOccurred())
		space := open(ctx, engine, "b-1")
		Expect(space.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
		s.blockProvider("before-create")
		applied := make(chan error)
		go func() { applied <- space.Apply(ctx, prepared, vars) }()
		s.waitForProvider("before-create")

		Expect(os.Truncate(filepath.Join(dir, "destroy/main.tf"), 0)).To(Succeed())
		_, err = prepareProtected(ctx, s.engine())
		Expect(err).NotTo(HaveOccurred())
		links, err := filepath.Glob(filepath.Join(s.cache, "runs/b-1/apply/*"))
		Expect(err).NotTo(HaveOccurred())
		links = append(links, filepath.Join(s.cache, "runs/b-1/apply/.terraform/providers"))
		Expect(len(links)).To(BeNumerically(">", 4))
		for _, link := range links {
			_, err := os.Stat(link)
			Expect(err).NotTo(HaveOccurred(), "%s", link)
		}
		s.releaseProvider("before-create")
		Eventually(applied).Should(Receive(BeNil()))
		Expect(space.Destroy(ctx, prepared, vars)).To(Succeed())
		Expect(space.Remove(ctx, installation())).To(Succeed())
		Expect(space.Close()).To(Succeed())
	})
})

// lockedBuffer is a buffer that several engines can write their logs to.
type lockedBuffer struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

func (b *lockedBuffer) Write(text []byte) (int, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.text.Write(text)
}

func (b *lockedBuffer) String() string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.text.String()
}
