package templates_test

import (
	"context"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/opentofu"
)

var _ = Describe("several damaged executables", func() {
	It("are all named in one error", func(ctx context.Context) {
		dir := GinkgoT().TempDir()
		installation := opentofu.Installation{
			Binary:    filepath.Join(dir, "tofu"),
			Providers: []opentofu.Provider{{File: filepath.Join(dir, "provider")}},
			Path:      []string{dir},
		}
		client := filepath.Join(dir, "client")
		Expect(os.WriteFile(client, nil, 0o700)).To(Succeed())
		Expect(os.WriteFile(filepath.Join(dir, "LICENSE"), nil, 0o600)).To(Succeed())
		Expect(os.Mkdir(filepath.Join(dir, "1.12.6"), 0o700)).To(Succeed())
		Expect(installation.Executables()).To(
			Equal([]string{installation.Binary, installation.Providers[0].File, client}))
		cache := newCache(GinkgoT().TempDir())
		modified := time.Now().Add(-time.Hour)
		for _, content := range []string{"an executable", "damaged"} {
			for _, path := range installation.Executables() {
				Expect(os.WriteFile(path, []byte(content), 0o700)).To(Succeed())
				Expect(os.Chtimes(path, time.Time{}, modified)).To(Succeed())
			}
			err := cache.VerifyBinaries(ctx, installation)
			if content != "damaged" {
				Expect(err).NotTo(HaveOccurred())
				continue
			}
			for _, path := range installation.Executables() {
				Expect(err).To(MatchError(ContainSubstring(`"` + path + `" is damaged`)))
			}
		}
	})
})
