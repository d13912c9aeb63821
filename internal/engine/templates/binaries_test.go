package templates_test

import (
	"context"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/templates"
)

var _ = Describe("VerifyBinaries", func() {
	const content = "an executable"
	var (
		cacheDir     string
		cache        *templates.Cache
		installation opentofu.Installation
	)

	BeforeEach(func() {
		cacheDir = GinkgoT().TempDir()
		cache = newCache(cacheDir)
		dir := GinkgoT().TempDir()
		installation = opentofu.Installation{
			Binary:    filepath.Join(dir, "tofu"),
			Providers: []opentofu.Provider{{File: filepath.Join(dir, "provider")}},
		}
		for _, path := range installation.Executables() {
			Expect(os.WriteFile(path, []byte(content), 0o700)).To(Succeed())
		}
	})

	// overwrite changes a file and keeps its modification time.
	overwrite := func(path, text string) {
		GinkgoHelper()
		info, err := os.Stat(path)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(path, []byte(text), 0o700)).To(Succeed())
		Expect(os.Chtimes(path, time.Time{}, info.ModTime())).To(Succeed())
	}

	DescribeTable("reports a file that was damaged since the last call", func(ctx context.Context, damaged string) {
		Expect(cache.VerifyBinaries(ctx, installation)).To(Succeed())
		Expect(cache.VerifyBinaries(ctx, installation)).To(Succeed())
		for _, path := range installation.Executables() {
			overwrite(path, damaged)
			for range 2 { // the second call reports the file again
				Expect(newCache(cacheDir).VerifyBinaries(ctx, installation)).To(
					MatchError(ContainSubstring(`"` + path + `" is damaged`)))
			}
			overwrite(path, content)
			Expect(cache.VerifyBinaries(ctx, installation)).To(Succeed())
		}
	},
		Entry("with the same size", "\x00\x00 executable"),
		Entry("that was cut off", "an exec"),
		Entry("that is empty", ""),
	)

	It("considers a file with another modification time as new", func(ctx context.Context) {
		Expect(cache.VerifyBinaries(ctx, installation)).To(Succeed())
		overwrite(installation.Binary, "another")
		Expect(os.Chtimes(installation.Binary, time.Time{}, time.Unix(1, 0))).To(Succeed())
		Expect(cache.VerifyBinaries(ctx, installation)).To(Succeed())
		overwrite(installation.Binary, content)
		Expect(cache.VerifyBinaries(ctx, installation)).To(MatchError(ContainSubstring(installation.Binary)))
	})

	// read returns the content of a file.
	read := func(path string) []byte {
		GinkgoHelper()
		text, err := os.ReadFile(path)
		Expect(err).NotTo(HaveOccurred())
		return text
	}

	It("starts new records if the existing ones are damaged", func(ctx context.Context) {
		record := filepath.Join(cacheDir, "prepared/.binaries.json")
		Expect(cache.VerifyBinaries(ctx, installation)).To(Succeed())
		whole := read(record)
		for _, damaged := range []string{"", "null", string(whole[:len(whole)/2])} {
			Expect(os.WriteFile(record, []byte(damaged), 0o600)).To(Succeed())
			Expect(cache.VerifyBinaries(ctx, installation)).To(Succeed())
			Expect(read(record)).To(Equal(whole))
		}
	})

	It("names a missing file in the error", func(ctx context.Context) {
		Expect(os.Remove(installation.Providers[0].File)).To(Succeed())
		err := cache.VerifyBinaries(ctx, installation)
		Expect(err).To(MatchError(os.ErrNotExist))
		Expect(err).To(MatchError(ContainSubstring(installation.Providers[0].File)))
	})
})
