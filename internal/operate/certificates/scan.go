package certificates

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"service-adapter/internal/value"
)

// A Certificate is a certificate in the credentials of a binding, in the outputs of an instance or in the chain of a
// server.
type Certificate struct {
	// Key is the path of the text that contains the certificate, such as "ca_cert" or "tls/ca". It is "" for a
	// certificate that a server presented or that a file contains.
	Key string `json:"key,omitempty"`
	*Content
	// Authority identifies the authority that signed the certificate: its Fingerprint if its certificate is in the same
	// credentials, outputs or chain, and otherwise "key id HEX", or the distinguished name of the issuer if the
	// certificate does not contain the id of the authority's key.
	Authority string `json:"authority_fingerprint"`
	// Due reports whether the certificate expires within the time that the survey looks ahead, or has expired. A
	// superseded certificate is not due.
	Due bool `json:"due"`
	// Superseded reports that the certificate is that of an authority in a binding that also contains all authorities
	// of the newest binding, which does not contain this one.
	Superseded bool `json:"superseded,omitempty"`
}

// A Content contains the fields of a certificate. Certificates with the same bytes share one Content in a survey.
type Content struct {
	// Subject and Issuer are distinguished names in the form of RFC 2253.
	Subject string `json:"subject"`
	Issuer  string `json:"issuer"`
	// Expiry is the time at which the certificate expires, and DaysLeft is the number of whole days until then. It is
	// negative after that time.
	Expiry   time.Time `json:"expiry"`
	DaysLeft int       `json:"days_left"`
	// Fingerprint is the SHA-256 digest of the certificate in lower-case hexadecimal digits.
	Fingerprint string `json:"fingerprint"`
	// IsAuthority reports whether the certificate is that of an authority: it may sign others, or it has signed itself.
	IsAuthority bool `json:"is_authority"`

	parsed *x509.Certificate
}

// A scanner finds certificates in values. It parses equal certificates and checks equal signatures only once, because
// all bindings of an instance usually contain the same certificates.
type scanner struct {
	now        time.Time
	within     time.Duration
	contents   map[[sha256.Size]byte]*Content
	signatures map[[2]*Content]bool // by the certificates of the authority and of what it signed
}

// newScanner returns a scanner that considers certificates due if they expire before the duration within after now has
// passed.
func newScanner(now time.Time, within time.Duration) *scanner {
	return &scanner{
		now: now, within: within, contents: map[[sha256.Size]byte]*Content{}, signatures: map[[2]*Content]bool{},
	}
}

// scan returns the certificates in all texts of a value, in the order of value.Walk and of their places in each text.
// The value must be normalised. The error names the keys of the texts that contain a certificate that cannot be read;
// the others are returned with it. The result is nil if there are none.
func (s *scanner) scan(v any) ([]Certificate, error) {
	var found []Certificate
	var failed []error
	value.Walk(v, func(path string, leaf any) bool {
		text, _ := leaf.(string)
		blocks, err := certificateBlocks(text)
		for _, block := range blocks {
			content, parseErr := s.content(block)
			if parseErr == nil {
				found = append(found, Certificate{Key: path, Content: content, Due: s.isDue(content.Expiry)})
			}
			err = errors.Join(err, parseErr)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("a certificate in %s cannot be read: %w", path, err))
		}
		return true
	})
	s.setAuthorities(found)
	return found, errors.Join(failed...)
}

// The lines that begin and end a certificate in PEM, and the beginning of a line that begins any block.
const (
	beginBlock       = "-----BEGIN "
	beginCertificate = beginBlock + "CERTIFICATE-----"
	endCertificate   = "-----END CERTIFICATE-----"
)

// certificateBlocks returns the content, in DER, of each block CERTIFICATE of PEM in a text, which may contain other
// text before, between and after the blocks. Blocks of other types, such as private keys, are skipped and not decoded.
// A line break may be written as the two characters \n, as in JSON. The error reports that a block has no end, or is
// not PEM; the other blocks are returned with it. It does not contain the text.
func certificateBlocks(text string) (blocks [][]byte, err error) {
	for {
		start := strings.Index(text, beginCertificate)
		if start < 0 {
			return blocks, err
		}
		body := text[start+len(beginCertificate):]
		end, next := strings.Index(body, endCertificate), strings.Index(body, beginBlock)
		switch {
		case next >= 0 && (end < 0 || next < end): // another block begins before this one ends
			err, text = errors.New("its PEM block has no end"), body[next:]
		case end < 0:
			return blocks, errors.New("its PEM block has no end")
		default:
			text = body[end+len(endCertificate):]
			lines := beginCertificate + strings.NewReplacer(`\r`, "", `\n`, "\n").Replace(body[:end]) + endCertificate
			if block, _ := pem.Decode([]byte(lines)); block != nil {
				blocks = append(blocks, block.Bytes)
			} else {
				err = errors.New("its PEM block is malformed")
			}
		}
	}
}

// content returns the content of a certificate in DER. It returns the same pointer for the same bytes. It returns an
// error if the certificate cannot be parsed.
func (s *scanner) content(der []byte) (*Content, error) {
	digest := sha256.Sum256(der)
	if content := s.contents[digest]; content != nil {
		return content, nil
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	content := &Content{
		Subject: parsed.Subject.String(), Issuer: parsed.Issuer.String(), Expiry: parsed.NotAfter.UTC(),
		DaysLeft: daysUntil(parsed.NotAfter, s.now), Fingerprint: hex.EncodeToString(digest[:]),
		IsAuthority: parsed.IsCA || string(parsed.RawSubject) == string(parsed.RawIssuer), parsed: parsed,
	}
	s.contents[digest] = content
	return content, nil
}

// isDue reports whether a certificate with this expiry has expired or expires within the time that the survey looks
// ahead.
func (s *scanner) isDue(expiry time.Time) bool { return expiry.Before(s.now.Add(s.within)) }

// daysUntil returns the number of whole days from now until the expiry, rounded down as the Director does it, so that
// it is negative after the expiry.
func daysUntil(expiry, now time.Time) int {
	const day = 24 * time.Hour
	return int(math.Floor(float64(expiry.Sub(now)) / float64(day)))
}

// setAuthorities sets Authority of each element of certificates, which are stored or presented together. Only these are
// searched for the certificate of a signing authority. See Certificate.Authority for the values.
func (s *scanner) setAuthorities(certificates []Certificate) {
	for i := range certificates {
		one := &certificates[i]
		signer := slices.IndexFunc(certificates, func(other Certificate) bool {
			return s.signed(other.Content, one.Content)
		})
		switch {
		case signer >= 0:
			one.Authority = certificates[signer].Fingerprint
		case len(one.parsed.AuthorityKeyId) > 0:
			one.Authority = "key id " + hex.EncodeToString(one.parsed.AuthorityKeyId)
		default:
			one.Authority = one.Issuer
		}
	}
}

// signed reports whether the key of a certificate of an authority signed another certificate, or the certificate
// itself.
func (s *scanner) signed(authority, signed *Content) bool {
	if !authority.IsAuthority || string(authority.parsed.RawSubject) != string(signed.parsed.RawIssuer) {
		return false
	}
	pair := [2]*Content{authority, signed}
	result, known := s.signatures[pair]
	if !known {
		certificate := signed.parsed
		result = authority.parsed.CheckSignature(
			certificate.SignatureAlgorithm, certificate.RawTBSCertificate, certificate.Signature) == nil
		s.signatures[pair] = result
	}
	return result
}
