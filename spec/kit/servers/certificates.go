package servers

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"time"

	"service-adapter/spec/kit"
)

// Certificates are PEM texts, as BOSH would make them: of an authority, and of a server with its key.
type Certificates struct{ CA, Certificate, Key string }

// NewCertificates makes certificates for a server with these names. They are valid for an hour.
func NewCertificates(t kit.T, names ...string) Certificates {
	t.Helper()
	caKey, caErr := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err = errors.Join(caErr, err); err != nil {
		t.Fatalf("making keys: %s", err)
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: names[0]}, DNSNames: names, NotAfter: ca.NotAfter,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, // servers of a cluster are clients of each other
	}
	caDER, caErr := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	leafDER, leafErr := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, caKey)
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err = errors.Join(caErr, leafErr, err); err != nil {
		t.Fatalf("making certificates: %s", err)
	}
	encode := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return Certificates{CA: encode("CERTIFICATE", caDER), Certificate: encode("CERTIFICATE", leafDER), Key: encode("EC PRIVATE KEY", keyDER)}
}
