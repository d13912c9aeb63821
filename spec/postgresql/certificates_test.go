package postgresql_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"service-adapter/spec/kit/servers"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// install makes the server use certificates.
func install(ctx context.Context, made servers.Certificates) {
	GinkgoHelper()
	data := filepath.Join(server.Dir, "data")
	info, err := os.Stat(data)
	Expect(err).NotTo(HaveOccurred())
	owner := info.Sys().(*syscall.Stat_t)
	for name, text := range map[string]string{"server.crt": made.Certificate, "server.key": made.Key} {
		name = filepath.Join(data, name)
		Expect(os.WriteFile(name, []byte(text), 0o600)).To(Succeed())
		Expect(os.Chown(name, int(owner.Uid), int(owner.Gid))).To(Succeed())
	}
	Eventually(func() error { return administrate(ctx, "postgres", "ALTER SYSTEM SET ssl = on") }).Should(Succeed())
	Expect(administrate(ctx, "postgres", "SELECT pg_reload_conf()")).To(Succeed())
	Eventually(func() ([]string, error) { return server.Query(ctx, "postgres", "SHOW ssl") }).Should(Equal([]string{"on"}))
}

// administrate runs statements as the administrator.
func administrate(ctx context.Context, database, statements string) error {
	_, err := server.Query(ctx, database, statements)
	if err != nil {
		return fmt.Errorf("%s: %w", statements, err)
	}
	return nil
}
