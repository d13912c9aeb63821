package brokerpak_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
)

// digestOf is a digest that consists of one digit.
func digestOf(digit string) string { return strings.Repeat(digit, 64) }

// sampleLock is a lock of two fetched files and three files of the pak.
func sampleLock() *brokerpak.Lock {
	return brokerpak.NewLock([]brokerpak.FetchedFile{
		{Name: "tofu", Version: "1.6", Platform: "linux/arm64", From: "https://example.com/arm", SHA256: digestOf("2")},
		{Name: "tofu", Version: "1.6", Platform: "linux/amd64", From: "https://example.com/amd", SHA256: digestOf("1")},
	}, map[string]string{
		"src/tofu.zip": digestOf("c"), "bin/linux/arm64/1.6.0/tofu": digestOf("b"),
		"bin/linux/amd64/1.6.0/tofu": digestOf("a"),
	})
}

var _ = Describe("a lock", func() {
	It("is written sorted, and is the same after it was read", func() {
		text, err := sampleLock().Encode()
		Expect(err).NotTo(HaveOccurred())
		Expect(string(text)).To(HaveSuffix(`lock_version: 1
fetched:
  - name: tofu
    version: "1.6"
    platform: linux/amd64
    from: https://example.com/amd
    sha256: "` + digestOf("1") + `"
  - name: tofu
    version: "1.6"
    platform: linux/arm64
    from: https://example.com/arm
    sha256: "` + digestOf("2") + `"
files:
  - path: bin/linux/amd64/1.6.0/tofu
    sha256: ` + digestOf("a") + `
  - path: bin/linux/arm64/1.6.0/tofu
    sha256: ` + digestOf("b") + `
  - path: src/tofu.zip
    sha256: ` + digestOf("c") + "\n"))
		lock, err := brokerpak.ParseLock("lock", string(text))
		Expect(err).NotTo(HaveOccurred())
		again, err := lock.Encode()
		Expect(err).NotTo(HaveOccurred())
		Expect(string(again)).To(Equal(string(text)))
	})

	It("prefers the fetched file from the same location", func() {
		lock := sampleLock()
		first, other := lock.Fetched[0], lock.Fetched[0]
		other.From, other.SHA256 = "https://example.com/other.zip", digestOf("9")
		lock.Fetched = append(lock.Fetched, other)
		entry := brokerpak.Binary{Name: "tofu", Version: "1.6"}
		found, ok := lock.Fetch(entry, "linux/amd64", other.From)
		Expect(ok).To(BeTrue())
		Expect(found).To(Equal(other))
		found, ok = lock.Fetch(entry, "linux/amd64", "https://mirror.example.com/amd")
		Expect(ok).To(BeTrue())
		Expect(found).To(Equal(first))
		_, ok = lock.Fetch(entry, "darwin/arm64", first.From)
		Expect(ok).To(BeFalse())
		_, ok = (*brokerpak.Lock)(nil).Fetch(entry, "linux/amd64", first.From)
		Expect(ok).To(BeFalse())
	})

	DescribeTable("is rejected with positions", func(text string, messages ...string) {
		_, err := brokerpak.ParseLock("lock", text)
		Expect(err).To(BeAssignableToTypeOf(diag.Errors{}))
		Expect(strings.Split(err.Error(), "\n")).To(Equal(messages))
	},
		Entry("without content", "# nothing\n", "lock: the file is empty [yaml-syntax]"),
		Entry("a list", "- a\n", "lock:1:1: the lock must be a mapping, not a list [type]"),
		Entry("of another version", "lock_version: 2\n",
			"lock:1:15: lock_version must be 1; a newer service-adapter wrote the lock, or it is damaged [lock]"),
		Entry("with an unknown key", "lock_version: 1\nfile: []\n",
			`lock:2:1: unknown key "file" in the lock; did you mean "files"? [unknown-key]`),
		Entry("with digests that are none", "lock_version: 1\nfetched:\n"+
			"- {name: a, version: 1, platform: linux/amd64, from: a, sha256: "+strings.Repeat("A", 64)+"}\n"+
			"files:\n- {path: bin/a, sha256: abc}\n- {path: bin/b}\n",
			"lock:3:65: sha256 must be 64 hexadecimal digits in lower case [lock]",
			"lock:5:25: sha256 must be 64 hexadecimal digits in lower case [lock]",
			"lock:6:3: sha256 of an entry of files is required and must not be empty [required]"),
		Entry("with paths elsewhere", "lock_version: 1\nfiles:\n"+
			"- {path: /bin/a, sha256: "+digestOf("a")+"}\n- {path: bin/../b, sha256: "+digestOf("a")+"}\n"+
			"- {path: bin, sha256: "+digestOf("a")+"}\n- {path: manifest.yml, sha256: "+digestOf("a")+"}\n",
			"lock:3:10: path must be that of a file below bin or src [lock]",
			"lock:4:10: path must be that of a file below bin or src [lock]",
			"lock:5:10: path must be that of a file below bin or src [lock]",
			"lock:6:10: path must be that of a file below bin or src [lock]"),
		Entry("with a file twice", "lock_version: 1\nfiles:\n"+
			"- {path: bin/a, sha256: "+digestOf("a")+"}\n- {path: bin/a, sha256: "+digestOf("b")+"}\n",
			"lock:4:3: bin/a is listed twice [lock]"),
	)
})

var _ = Describe("the comparison of a pak with its lock", func() {
	linux, arm := brokerpak.Platform{OS: "linux", Arch: "amd64"}, brokerpak.Platform{OS: "linux", Arch: "arm64"}
	const program = "bin/linux/amd64/1.6.0/tofu"
	var dir string

	// verify compares the pak in dir for a platform.
	verify := func(platform *brokerpak.Platform) error {
		pak := open(dir)
		return pak.Verify(context.Background(), pak.Files(), platform)
	}
	writeLock := func() {
		digests, err := brokerpak.Digests(context.Background(), os.DirFS(dir), brokerpak.FetchedDirs()...)
		Expect(err).NotTo(HaveOccurred())
		text, err := brokerpak.NewLock(nil, digests).Encode()
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(filepath.Join(dir, brokerpak.LockName), text, 0o600)).To(Succeed())
	}
	change := func(name, text string) {
		Expect(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700)).To(Succeed())
		Expect(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)).To(Succeed())
	}
	BeforeEach(func() {
		dir = newPak(map[string]string{
			program: "program", "bin/linux/amd64/LICENSE": "licence",
			"bin/linux/arm64/1.6.0/tofu": "arm", "src/tofu.zip": "code",
		})
		writeLock()
	})

	It("accepts the same files, of all platforms or one, and a pak without a lock", func() {
		Expect(verify(nil)).To(Succeed())
		Expect(verify(&linux)).To(Succeed())
		Expect(os.Remove(filepath.Join(dir, brokerpak.LockName))).To(Succeed())
		change(program, "other")
		Expect(verify(&linux)).To(Succeed())
	})

	It("names the file, both digests and what to do", func() {
		change(program, "other")
		Expect(verify(&linux)).To(MatchError(And(
			ContainSubstring("pak "+dir+" differs from its lock, brokerpak.lock.yml: "+program+
				" has the digest sha256:d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa, not sha256:"),
			ContainSubstring("build the pak again"))))
		Expect(verify(&arm)).To(Succeed(), "the file of another platform")
		Expect(verify(nil)).To(HaveOccurred())
	})

	It("rejects files that are missing or not in the lock", func() {
		change("bin/linux/amd64/extra", "x")
		Expect(os.Remove(filepath.Join(dir, program))).To(Succeed())
		Expect(verify(&linux)).To(MatchError(And(ContainSubstring("yml: "+program+" (sha256:"),
			ContainSubstring(") is missing; bin/linux/amd64/extra (sha256:2d711642b726b04401627ca9fbac32f5c8530fb1"),
			ContainSubstring(") is not in the lock; "))))
	})

	It("rejects an invalid lock, and leaves a pak without binaries for the platform to others", func() {
		Expect(verify(&brokerpak.Platform{OS: "darwin", Arch: "arm64"})).To(Succeed())
		change(brokerpak.LockName, "lock_version: 3\n")
		Expect(verify(&linux)).To(MatchError(ContainSubstring("lock_version must be 1")))
	})

	It("stops when its context ends", func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		pak := open(dir)
		Expect(pak.Verify(ctx, pak.Files(), nil)).To(MatchError(context.Canceled))
	})

	It("works for a zip", func() {
		pak := open(zipped(dir))
		Expect(pak.Verify(context.Background(), pak.Files(), &linux)).To(Succeed())
		damaged := open(zipped(dir, entry("bin/linux/amd64/more", "x")))
		err := damaged.Verify(context.Background(), damaged.Files(), &linux)
		Expect(err).To(MatchError(ContainSubstring("bin/linux/amd64/more")))
	})
})

// FuzzLock checks that parsing a lock does not panic, and that an accepted lock is the same after it was written and
// read again, has valid digests and leads to no file outside of the pak.
func FuzzLock(f *testing.F) {
	text, err := sampleLock().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(text))
	for _, seed := range []string{
		"lock_version: 1\n", "lock_version: 1\nfiles: [{path: bin/a, sha256: " + digestOf("a") + "}]\n",
		"lock_version: 1\nfetched: &a []\nfiles: *a\n", "lock_version: 1\nfiles: [null, a, {}]\n", "- a", "",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		lock, err := brokerpak.ParseLock("lock", text)
		if err != nil {
			return
		}
		for _, file := range lock.Files {
			if len(file.SHA256) != 64 || !filepath.IsLocal(file.Path) {
				t.Errorf("accepted %+v", file)
			}
		}
		written, err := lock.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := brokerpak.ParseLock("lock", string(written))
		if err != nil {
			t.Fatalf("%v\n%s", err, written)
		}
		lock.Fetched, again.Fetched = withoutPositions(lock.Fetched), withoutPositions(again.Fetched)
		if !slices.Equal(lock.Fetched, again.Fetched) || len(lock.Files) != len(again.Files) {
			t.Errorf("%+v became %+v", lock, again)
		}
	})
}

// withoutPositions returns a copy of fetched files without their positions.
func withoutPositions(files []brokerpak.FetchedFile) []brokerpak.FetchedFile {
	files = slices.Clone(files)
	for i := range files {
		files[i].Pos = diag.Pos{}
	}
	return files
}
