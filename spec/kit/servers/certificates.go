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
	"strings"
	"time"

	"service-adapter/spec/kit"
)

// Certificates contains PEM texts as BOSH generates them: the certificate of an authority, and a server's certificate
// with its key. During a rotation, CA contains two authorities.
type Certificates struct{ CA, Certificate, Key string }

// NewCertificates generates an authority and the certificate of a server with these names. Both are valid for an hour.
func NewCertificates(t kit.T, names ...string) Certificates {
	t.Helper()
	return NewCredHub(t, time.Hour, names...).Leaf()
}

// A CredHub contains the versions of a certificate authority and of a server's certificate. It behaves as CredHub does
// with certificates.concatenate_cas: two versions of the authority may be current, one that signs and one that is
// transitional, which means that it is only trusted.
type CredHub struct {
	lifetime time.Duration
	names    []string
	// signing is the version of the authority that signs. The transitional version is trusted, and nil if only one
	// version is current.
	signing, transitional *authority
	// signer is the version of the authority that signed the current version of the server's certificate.
	signer           *authority
	certificate, key string
}

// An authority is a version of a certificate authority. All versions have the same name, and each has its own key.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         string
}

// NewCredHub generates an authority, and a certificate for a server with these names. Both are valid for the lifetime,
// which may be negative to create expired certificates.
func NewCredHub(t kit.T, lifetime time.Duration, names ...string) *CredHub {
	t.Helper()
	c := &CredHub{lifetime: lifetime, names: names}
	c.signing = newAuthority(t, lifetime)
	c.RegenerateLeaf(t)
	return c
}

// Leaf returns the server's certificate as CredHub inserts it into a manifest: CA is the authority that signed it,
// followed by the other version of the authority while two are current.
func (c *CredHub) Leaf() Certificates {
	ca := c.signer.pem
	if c.transitional != nil {
		trusted := c.transitional
		if c.signer != c.signing {
			trusted = c.signing
		}
		ca = strings.TrimSpace(ca) + "\n" + strings.TrimSpace(trusted.pem) + "\n"
	}
	return Certificates{CA: ca, Certificate: c.certificate, Key: c.key}
}

// Authority returns the certificate of the version of the authority that signs.
func (c *CredHub) Authority() string { return c.signing.pem }

// AddTransitional generates a version of the authority that is trusted and does not sign yet, as CredHub's endpoint
// regenerate does with set_as_transitional.
func (c *CredHub) AddTransitional(t kit.T) {
	t.Helper()
	c.transitional = newAuthority(t, c.lifetime)
}

// MoveTransitional exchanges the roles of the signing version and the transitional version, as CredHub's endpoint
// update_transitional_version does with the id of the old version.
func (c *CredHub) MoveTransitional() { c.signing, c.transitional = c.transitional, c.signing }

// DropTransitional retires the transitional version, as CredHub's endpoint update_transitional_version does without an
// id.
func (c *CredHub) DropTransitional() { c.transitional = nil }

// RegenerateLeaf generates a new version of the server's certificate, which the signing version of the authority signs.
func (c *CredHub) RegenerateLeaf(t kit.T) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("generating a key: %s", err)
	}
	leaf := &x509.Certificate{
		SerialNumber: serialNumber(t), Subject: pkix.Name{CommonName: c.names[0]}, DNSNames: c.names,
		NotAfter: c.signing.certificate.NotAfter,
		// The servers of a cluster are also clients of each other.
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, c.signing.certificate, &key.PublicKey, c.signing.key)
	keyDER, keyErr := x509.MarshalECPrivateKey(key)
	if err = errors.Join(err, keyErr); err != nil {
		t.Fatalf("generating a certificate: %s", err)
	}
	c.signer, c.certificate, c.key = c.signing, encode("CERTIFICATE", der), encode("EC PRIVATE KEY", keyDER)
}

// newAuthority generates a version of an authority that is valid for the lifetime.
func newAuthority(t kit.T, lifetime time.Duration) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("generating a key: %s", err)
	}
	template := &x509.Certificate{
		SerialNumber: serialNumber(t), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(lifetime),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatalf("generating an authority: %s", err)
	}
	certificate, err := x509.ParseCertificate(der) // contains the id of its key, to which signed certificates refer
	if err != nil {
		t.Fatalf("parsing an authority: %s", err)
	}
	return &authority{certificate: certificate, key: key, pem: encode("CERTIFICATE", der)}
}

// serialNumber generates a unique serial number, because clients reject two certificates of one issuer with the same
// number.
func serialNumber(t kit.T) *big.Int {
	t.Helper()
	const bits = 100
	number, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), bits))
	if err != nil {
		t.Fatalf("generating a serial number: %s", err)
	}
	return number
}

// encode returns a PEM block of a kind such as "CERTIFICATE".
func encode(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}
