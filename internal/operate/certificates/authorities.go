package certificates

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"slices"
	"strings"
	"time"
)

// authorities returns two lists about the certificates of a binding. trusted are the fingerprints of its certificates
// of authorities. signedBy are the authorities that signed its other certificates, in the form of
// Certificate.Authority: a fingerprint, "key id HEX", or the name of the issuer. Both lists are sorted and without
// duplicates. A list is nil if the binding has no certificates of that kind.
func (b *Binding) authorities() (trusted, signedBy []string) {
	for _, certificate := range b.Certificates {
		if certificate.IsAuthority {
			trusted = append(trusted, certificate.Fingerprint)
		} else {
			signedBy = append(signedBy, certificate.Authority)
		}
	}
	slices.Sort(trusted)
	slices.Sort(signedBy)
	return slices.Compact(trusted), slices.Compact(signedBy)
}

// group sorts i.Bindings by the time of their creation and then by id, and sets i.Groups to the sets of bindings with
// equal authorities. The authorities of a binding are those whose own certificates it contains, and those that signed
// its other certificates. Groups are sorted by their newest bindings, the newest first, and the ids in a group by the
// time of creation, the oldest first. Bindings without certificates are in no group.
//
// group also sets OtherAuthority of each binding with certificates: it is true if the binding lacks an authority of the
// newest binding. In a binding that lacks none, group marks each authority's own certificate that the newest binding
// does not contain as superseded and not due. Other certificates in the binding are not changed, even if such an
// authority signed them. The binding that counts as the newest is the newest one with certificates.
func (i *Instance) group() {
	slices.SortFunc(i.Bindings, func(a, b Binding) int {
		return cmp.Or(cmp.Compare(a.CreatedAt, b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	i.Groups = nil
	indexes := map[string]int{} // of Groups, by the authorities
	for at := range slices.Backward(i.Bindings) {
		binding := &i.Bindings[at]
		if len(binding.Certificates) == 0 {
			continue
		}
		trusted, signedBy := binding.authorities()
		key := strings.Join(trusted, ",") + ";" + strings.Join(signedBy, ",")
		index, exists := indexes[key]
		if !exists {
			index = len(i.Groups)
			indexes[key] = index
			i.Groups = append(i.Groups, Group{Trusted: trusted, SignedBy: signedBy, Newest: index == 0})
		}
		i.Groups[index].Bindings = append(i.Groups[index].Bindings, binding.ID)
		newest := &i.Groups[0]
		binding.OtherAuthority = !containsAll(trusted, newest.Trusted) || !containsAll(signedBy, newest.SignedBy)
		if !binding.OtherAuthority {
			binding.supersede(newest)
		}
	}
	for at := range i.Groups {
		slices.Reverse(i.Groups[at].Bindings) // oldest first, as in Bindings
	}
}

// supersede changes the binding: it marks its certificates of authorities that newest, the group of the newest binding,
// does not contain as superseded and not due. Certificates that are not those of authorities are not changed. The
// caller calls it only for a binding that has all authorities of newest.
func (b *Binding) supersede(newest *Group) {
	for at := range b.Certificates {
		certificate := &b.Certificates[at]
		if certificate.IsAuthority && !slices.Contains(newest.Trusted, certificate.Fingerprint) {
			certificate.Superseded, certificate.Due = true, false
		}
	}
}

// containsAll reports whether list contains every text in wanted, in any order. It returns true if wanted is empty.
// Duplicates in wanted do not matter.
func containsAll(list, wanted []string) bool {
	return !slices.ContainsFunc(wanted, func(text string) bool { return !slices.Contains(list, text) })
}

// A Reference is the real server, or the real authorities of a file, with which the bindings of a survey are compared;
// see Survey.Compare. Dial returns a Reference to a server, and ReadAuthorities one to authorities. The zero value is
// not a valid reference.
type Reference struct {
	// Name is the address of the server or the path of the file.
	Name string
	// chain are the certificates that the server presented, or nil. authorities are those of the file, or nil.
	chain, authorities []*x509.Certificate
}

// IsServer reports whether the reference is the certificate that a server presented. It returns false for the
// authorities of a file, and for the zero value.
func (r *Reference) IsServer() bool { return r.chain != nil }

// ReadAuthorities returns a reference to the authorities in the file of PEM certificates at path. The Name of the
// reference is path. In a comparison, a binding is trusted if it contains every certificate of the file; see
// Survey.Compare for the bindings that are not compared. The certificates are not verified, and are not required to
// be those of authorities. ReadAuthorities returns nil and an error if the file cannot be read, contains no
// certificate in PEM, or contains a malformed one.
func ReadAuthorities(path string) (*Reference, error) {
	text, err := os.ReadFile(path) //nolint:gosec // the user names the file
	if err != nil {
		return nil, fmt.Errorf("reading the authorities: %w", err)
	}
	blocks, err := certificateBlocks(string(text))
	if err == nil && len(blocks) == 0 {
		err = errors.New("it contains no certificate in PEM")
	}
	reference := &Reference{Name: path}
	for _, block := range blocks {
		parsed, parseErr := x509.ParseCertificate(block)
		reference.authorities = append(reference.authorities, parsed)
		err = errors.Join(err, parseErr)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: a certificate cannot be read: %w", path, err)
	}
	return reference, nil
}

// handshakeTimeout limits connecting to a server and its TLS handshake.
const handshakeTimeout = 10 * time.Second

// Dial connects to the TLS server at address and returns a reference to the certificates that the server presents: its
// own and those of intermediate authorities. The Name of the reference is address. In a comparison, a binding is
// trusted if the authorities in it verify the server's own certificate; the names in that are not compared with the
// host. The server must support TLS 1.2 or later.
//
// Dial sends only the TLS handshake. If that fails, Dial connects once more and first sends a request for TLS: that of
// MySQL's protocol if the first answer was not TLS, and otherwise that of PostgreSQL's.
//
// It returns an error if address does not have the form HOST:PORT, if the server cannot be reached, does not use TLS or
// presents a malformed certificate, if both attempts together take more than ten seconds, or if ctx ends.
func Dial(ctx context.Context, address string) (*Reference, error) {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return nil, fmt.Errorf("%q must be HOST:PORT: %w", address, err)
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	chain, err := presented(ctx, address, nil)
	if err != nil {
		// PostgreSQL closes a connection that does not begin with a packet of its own protocol. MySQL sends a greeting
		// first, which is not a record of TLS.
		var noRecord tls.RecordHeaderError
		request := requestPostgresTLS
		if errors.As(err, &noRecord) {
			request = requestMySQLTLS
		}
		fallback, fallbackErr := presented(ctx, address, request)
		if fallbackErr != nil {
			err = fmt.Errorf("%w; with the request for TLS of PostgreSQL or MySQL: %w", err, fallbackErr)
		} else {
			chain, err = fallback, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("asking %s for its certificate with TLS: %w", address, err)
	}
	return &Reference{Name: address, chain: chain}, nil
}

// presented connects to the server at address, HOST:PORT, calls request with the connection, and returns the
// certificates that the server presents in a TLS handshake, that of the server first, without verifying them. request
// asks for TLS in the server's own protocol; it may be nil. While request runs, only the deadline of ctx interrupts it,
// not a cancellation. presented closes the connection.
//
// If the handshake fails after the server presented its certificates, for example because the server requires a
// certificate of the client, presented returns them without an error. It returns an error if the server cannot be
// reached, if request fails, if the handshake fails or ctx ends before that point, or if a certificate is malformed.
func presented(ctx context.Context, address string, request func(net.Conn) error) ([]*x509.Certificate, error) {
	connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer connection.Close() //nolint:errcheck // nothing was written that could be lost
	if deadline, limited := ctx.Deadline(); limited {
		if err := connection.SetDeadline(deadline); err != nil {
			return nil, err
		}
	}
	if request != nil {
		if err := request(connection); err != nil {
			return nil, err
		}
	}
	host, _, _ := net.SplitHostPort(address) // the caller has checked the address
	var chain []*x509.Certificate
	client := tls.Client(connection, &tls.Config{
		ServerName: host, MinVersion: tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // nothing is sent; the caller verifies the certificate
		VerifyPeerCertificate: func(raw [][]byte, _ [][]*x509.Certificate) error {
			for _, der := range raw {
				parsed, err := x509.ParseCertificate(der)
				if err != nil {
					return err
				}
				chain = append(chain, parsed)
			}
			return nil
		},
	})
	if err := client.HandshakeContext(ctx); err != nil && len(chain) == 0 {
		return nil, err
	}
	return chain, nil
}

// requestPostgresTLS sends the request for TLS of PostgreSQL's protocol on a new connection and reads the answer, after
// which the caller begins the TLS handshake. It returns an error if the answer is any other than acceptance, because
// the server does not use TLS, or if the connection ends or its deadline passes before the answer. It does not close
// the connection.
func requestPostgresTLS(connection net.Conn) error {
	answer := make([]byte, 1)
	_, err := connection.Write([]byte{0, 0, 0, 8, 4, 210, 22, 47}) // the length, and the code 80877103
	if err == nil {
		_, err = io.ReadFull(connection, answer)
	}
	if err == nil && answer[0] != 'S' {
		err = errors.New("the server does not use TLS")
	}
	return err
}

// requestMySQLTLS reads the greeting of MySQL's protocol on a new connection and sends the request for TLS, an
// SSLRequest packet of protocol 4.1, after which the caller begins the TLS handshake. It returns an error if the server
// sends another greeting, or one that does not offer TLS, or if the connection ends or its deadline passes. It does not
// close the connection.
func requestMySQLTLS(connection net.Conn) error {
	const (
		protocol           = 10 // the first byte of every greeting since MySQL 3.21
		flagsAfterVersion  = 4 + 8 + 1
		useTLS, protocol41 = 1 << 11, 1 << 9
		utf8               = 45
		requestSize        = 32
	)
	header := make([]byte, 4) // the length in three bytes, and the number of the packet
	if _, err := io.ReadFull(connection, header); err != nil {
		return err
	}
	greeting := make([]byte, int(header[0])+int(header[1])<<8)
	if _, err := io.ReadFull(connection, greeting); err != nil {
		return err
	}
	version := bytes.IndexByte(greeting, 0) // the end of the server's version
	flags := version + 1 + flagsAfterVersion
	if len(greeting) < flags+2 || greeting[0] != protocol || greeting[flags+1]&(useTLS>>8) == 0 { // little-endian
		return errors.New("the server does not use TLS")
	}
	request := make([]byte, len(header)+requestSize)
	request[0], request[3] = requestSize, header[3]+1
	binary.LittleEndian.PutUint32(request[4:], useTLS|protocol41)
	binary.LittleEndian.PutUint32(request[8:], math.MaxUint16) // the size of packets
	request[12] = utf8
	_, err := connection.Write(request)
	return err
}

// Compare compares all bindings of the instances in the survey with a reference and sets their Trusted: for a server,
// whether the authorities in the binding verify the certificate of the server, and for a file, whether the binding
// contains all certificates of the file. A binding that contains no certificate of an authority is not compared, and
// its Trusted stays nil. Compare also sets Server of each instance: to the certificates that the server presented, and
// to nil for a file. reference must not be nil. Bindings that are added later, and those in s.Unreadable, are not
// compared.
func (s *Survey) Compare(reference *Reference) {
	var server []Certificate
	for _, certificate := range reference.chain {
		content, err := s.scanner.content(certificate.Raw)
		if err == nil { // it has been parsed before
			server = append(server, Certificate{Content: content, Due: s.scanner.isDue(content.Expiry)})
		}
	}
	s.scanner.setAuthorities(server)
	for _, instance := range s.instances {
		instance.Server = server
		for at := range instance.Bindings {
			binding := &instance.Bindings[at]
			if trusted, _ := binding.authorities(); len(trusted) > 0 {
				result := reference.trustedBy(binding.Certificates)
				binding.Trusted = &result
			}
		}
	}
}

// trustedBy compares certificates, those of one binding, with the reference. For a server, it reports whether the
// authorities among the certificates verify the certificate that the server presented, together with the intermediate
// certificates that the server presented, at the current time and without a comparison of names. For a file, it reports
// whether certificates contain all certificates of the file.
func (r *Reference) trustedBy(certificates []Certificate) bool {
	if !r.IsServer() {
		return !slices.ContainsFunc(r.authorities, func(wanted *x509.Certificate) bool {
			return !slices.ContainsFunc(certificates, func(one Certificate) bool { return one.parsed.Equal(wanted) })
		})
	}
	roots, intermediates := x509.NewCertPool(), x509.NewCertPool()
	for _, certificate := range certificates {
		if certificate.IsAuthority {
			roots.AddCert(certificate.parsed)
		}
	}
	for _, certificate := range r.chain[1:] {
		intermediates.AddCert(certificate)
	}
	_, err := r.chain[0].Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: intermediates, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	return err == nil
}
