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
// server, with the key under which it is stored, its authority, and whether it is due or superseded. Only an
// authority's own certificate in a binding can be superseded: the newest binding no longer contains it, although the
// binding has all authorities of the newest one. It is not due then. The Content is shared with equal certificates of
// the same survey, and must not be nil.
type Certificate struct {
	// Key is the path of the text that contains the certificate, such as "ca_cert" or "tls/ca". It is "" for a
	// certificate that a server presented.
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

// A Content contains the fields of a parsed X.509 certificate, such as its subject, expiry and fingerprint.
// Certificates with the same bytes share one Content in a survey, so that Contents of one survey can be compared by
// their pointers.
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
	// IsAuthority reports whether the certificate is that of an authority: it may sign others, or its issuer is its
	// own subject.
	IsAuthority bool `json:"is_authority"`

	parsed *x509.Certificate
}

// A scanner finds and parses PEM certificates in values, and determines which are due and who signed them. It keeps
// parsed certificates and checked signatures, because all bindings of an instance usually contain the same
// certificates. newScanner returns one; the zero value cannot be used. A scanner is not safe for concurrent use.
type scanner struct {
	now        time.Time
	within     time.Duration
	contents   map[[sha256.Size]byte]*Content
	signatures map[[2]*Content]bool // by the certificates of the authority and of what it signed
}

// newScanner returns a scanner. The scanner considers a certificate due if it expires before now plus within, so also
// if it has expired. now is the current time, from which the days until an expiry are counted.
func newScanner(now time.Time, within time.Duration) *scanner {
	return &scanner{
		now: now, within: within, contents: map[[sha256.Size]byte]*Content{}, signatures: map[[2]*Content]bool{},
	}
}

// scan returns the certificates in all texts of a value, such as the outputs of a template, in the order of value.Walk
// and of their positions in each text. A certificate is a PEM block CERTIFICATE. v must be normalised: nested
// map[string]any and []any with scalars. The Key of each certificate is the path of its text, such as "tls/ca", and its
// Authority is determined among the certificates of this value. If blocks are malformed or certificates cannot be
// parsed, scan returns the others together with an error that names the keys of their texts. The result is nil if there
// are none.
func (s *scanner) scan(v any) ([]Certificate, error) {
	var certificates []Certificate
	var failed []error
	value.Walk(v, func(path string, leaf any) bool {
		text, _ := leaf.(string)
		blocks, err := certificateBlocks(text)
		for _, block := range blocks {
			content, parseErr := s.content(block)
			if parseErr == nil {
				due := s.isDue(content.Expiry)
				certificates = append(certificates, Certificate{Key: path, Content: content, Due: due})
			}
			err = errors.Join(err, parseErr)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("a certificate in %s cannot be read: %w", path, err))
		}
		return true
	})
	s.setAuthorities(certificates)
	return certificates, errors.Join(failed...)
}

// The lines that begin and end a certificate in PEM, and the beginning of a line that begins any block.
const (
	beginBlock       = "-----BEGIN "
	beginCertificate = beginBlock + "CERTIFICATE-----"
	endCertificate   = "-----END CERTIFICATE-----"
)

// certificateBlocks returns the content, in DER, of each PEM block CERTIFICATE in a text, in their order. The text may
// contain other text before, between and after the blocks. Blocks of other types, such as private keys, are skipped and
// not decoded. A line break in a block may be written as the two characters \n, as in JSON. blocks is nil if there are
// none, which is not an error. If a block has no end or is not valid PEM, the other blocks are returned together with
// an error, which describes the last such block and does not contain the text. The content of a block is not parsed.
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

// content parses the certificate in der and returns its fields. It keeps the result, and returns the same pointer for
// the same bytes. It returns nil and an error if the certificate cannot be parsed.
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

// isDue reports whether a certificate with this expiry is due: whether it has expired, or expires before the end of the
// time that the survey looks ahead.
func (s *scanner) isDue(expiry time.Time) bool { return expiry.Before(s.now.Add(s.within)) }

// daysUntil returns the number of whole days of 24 hours from now until expiry, rounded down as the Director does it.
// The result is 0 in the last 24 hours before the expiry, and negative after it.
func daysUntil(expiry, now time.Time) int {
	const day = 24 * time.Hour
	return int(math.Floor(float64(expiry.Sub(now)) / float64(day)))
}

// setAuthorities sets Authority of each element of certificates, which are stored or presented together. If one of them
// is the certificate of the authority that signed the element, perhaps the element itself, Authority is the fingerprint
// of that certificate. Otherwise it is "key id HEX" with the id of the authority's key, or the name of the issuer if
// the element does not contain that id.
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

// signed reports whether authority is the certificate of an authority whose key signed the certificate signed; both may
// be the same certificate. It returns false if authority is not an authority, if its name is not that of the issuer, or
// if the signature is not valid or cannot be checked. It keeps the result, so that each signature is checked only once.
func (s *scanner) signed(authority, signed *Content) bool {
	if !authority.IsAuthority || string(authority.parsed.RawSubject) != string(signed.parsed.RawIssuer) {
		return false
	}
	pair := [2]*Content{authority, signed}
	result, exists := s.signatures[pair]
	if !exists {
		certificate := signed.parsed
		result = authority.parsed.CheckSignature(
			certificate.SignatureAlgorithm, certificate.RawTBSCertificate, certificate.Signature) == nil
		s.signatures[pair] = result
	}
	return result
}
