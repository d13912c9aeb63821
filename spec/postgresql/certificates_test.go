package postgresql_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// authority is the certificates, PEM, that BOSH would make for the server: of the authority, and of the server, with its key.
type authority struct{ ca, certificate, key string }

func newAuthority() authority {
	GinkgoHelper()
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "postgres-ca"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "postgres"}, DNSNames: []string{"*.postgres.default.bosh", "localhost"}, NotAfter: ca.NotAfter,
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	Expect(err).NotTo(HaveOccurred())
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, caKey)
	Expect(err).NotTo(HaveOccurred())
	keyDER, err := x509.MarshalECPrivateKey(key)
	Expect(err).NotTo(HaveOccurred())
	encode := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return authority{ca: encode("CERTIFICATE", caDER), certificate: encode("CERTIFICATE", leafDER), key: encode("EC PRIVATE KEY", keyDER)}
}

// install makes the server use TLS.
func (a authority) install(ctx context.Context) {
	GinkgoHelper()
	data := filepath.Join(server.Dir, "data")
	info, err := os.Stat(data)
	Expect(err).NotTo(HaveOccurred())
	owner := info.Sys().(*syscall.Stat_t)
	for name, text := range map[string]string{"server.crt": a.certificate, "server.key": a.key} {
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
