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

// Certificates are PEM texts, as BOSH would make them: of an authority, and of a server with its key. During a rotation
// CA contains two authorities.
type Certificates struct{ CA, Certificate, Key string }

// NewCertificates makes certificates for a server with these names. They are valid for an hour.
func NewCertificates(t kit.T, names ...string) Certificates {
	t.Helper()
	return NewCredHub(t, time.Hour, names...).Leaf()
}

// A CredHub has the versions of a certificate authority and of a server's certificate that the authority signs, as a
// CredHub with certificates.concatenate_cas: two versions of the authority may be current, of which one signs and the
// other one is transitional, which means that it is trusted.
type CredHub struct {
	lifetime time.Duration
	names    []string
	// signing is the version of the authority that signs, and transitional the trusted one, or nil.
	signing, transitional *authority
	// signer is the version of the authority that signed the current version of the server's certificate.
	signer           *authority
	certificate, key string
}

// authority is a version of a certificate authority. Each has another key, and all have the same name.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         string
}

// NewCredHub makes an authority, and a certificate for a server with these names. Both are valid for a duration, which
// may be negative.
func NewCredHub(t kit.T, lifetime time.Duration, names ...string) *CredHub {
	t.Helper()
	c := &CredHub{lifetime: lifetime, names: names}
	c.signing = newAuthority(t, lifetime)
	c.RegenerateLeaf(t)
	return c
}

// Leaf returns the server's certificate as a manifest gets it: CA is the authority that signed it, followed by the
// other version of the authority while two are current.
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

// AddTransitional makes a version of the authority that is trusted and does not sign yet: regenerate with
// set_as_transitional.
func (c *CredHub) AddTransitional(t kit.T) {
	t.Helper()
	c.transitional = newAuthority(t, c.lifetime)
}

// MoveTransitional makes the version that signs the transitional one, and has the other one sign:
// update_transitional_version with the id of the old version.
func (c *CredHub) MoveTransitional() { c.signing, c.transitional = c.transitional, c.signing }

// DropTransitional makes the transitional version one that is not current: update_transitional_version without an id.
func (c *CredHub) DropTransitional() { c.transitional = nil }

// RegenerateLeaf makes a version of the server's certificate, which the current authority signs.
func (c *CredHub) RegenerateLeaf(t kit.T) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("making a key: %s", err)
	}
	leaf := &x509.Certificate{
		SerialNumber: serialNumber(t), Subject: pkix.Name{CommonName: c.names[0]}, DNSNames: c.names,
		NotAfter: c.signing.certificate.NotAfter,
		// servers of a cluster are clients of each other
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, c.signing.certificate, &key.PublicKey, c.signing.key)
	keyDER, keyErr := x509.MarshalECPrivateKey(key)
	if err = errors.Join(err, keyErr); err != nil {
		t.Fatalf("making a certificate: %s", err)
	}
	c.signer, c.certificate, c.key = c.signing, encode("CERTIFICATE", der), encode("EC PRIVATE KEY", keyDER)
}

// newAuthority makes a version of an authority that is valid for a duration.
func newAuthority(t kit.T, lifetime time.Duration) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("making a key: %s", err)
	}
	template := &x509.Certificate{
		SerialNumber: serialNumber(t), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(lifetime),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatalf("making an authority: %s", err)
	}
	certificate, err := x509.ParseCertificate(der) // with the id of its key, which the certificates that it signs name
	if err != nil {
		t.Fatalf("reading an authority: %s", err)
	}
	return &authority{certificate: certificate, key: key, pem: encode("CERTIFICATE", der)}
}

// serialNumber makes a serial number that no other certificate has: clients refuse two of one issuer.
func serialNumber(t kit.T) *big.Int {
	t.Helper()
	const bits = 100
	number, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), bits))
	if err != nil {
		t.Fatalf("making a serial number: %s", err)
	}
	return number
}

// encode returns a PEM block.
func encode(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}
