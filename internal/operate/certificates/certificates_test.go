package certificates_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/engine/statestore"
	"service-adapter/internal/operate/certificates"
	"service-adapter/internal/value"
	"service-adapter/spec/kit/servers"
)

const day = 24 * time.Hour

// newSurvey returns a survey that looks 60 days ahead.
func newSurvey() *certificates.Survey {
	return certificates.New(certificates.Options{Now: time.Now(), ExpiresWithin: 60 * day})
}

// binding returns a complete binding of the instance i1 with these credentials. Bindings are created in the order of
// their ids.
func binding(id string, credentials map[string]any) *lifecycle.Stored {
	return &lifecycle.Stored{
		Entry: lifecycle.Entry{
			Identity: lifecycle.Identity{
				Kind: lifecycle.Binding, ID: id, InstanceID: "i1", Deployment: "service-instance_i1",
				Service: "db", Plan: "small",
			},
			Condition: lifecycle.Complete, Times: lifecycle.Times{CreatedAt: "2026-01-01T00:00:0" + id[1:] + "Z"},
		},
		State: &statestore.State{Outputs: credentials},
	}
}

// surveyed returns the only instance after bindings were added. They have the ids b1, b2 and so on.
func surveyed(credentials ...map[string]any) *certificates.Instance {
	GinkgoHelper()
	survey := newSurvey()
	for i, one := range credentials {
		survey.Add(binding("b"+string(rune('1'+i)), one))
	}
	Expect(survey.Instances()).To(HaveLen(1))
	return survey.Instances()[0]
}

// others returns the ids of the bindings that have another authority than the newest one.
func others(instance *certificates.Instance) (ids []string) {
	for _, one := range instance.Bindings {
		if one.OtherAuthority {
			ids = append(ids, one.ID)
		}
	}
	return ids
}

// parse returns the first certificate in a text.
func parse(text string) *x509.Certificate {
	GinkgoHelper()
	block, _ := pem.Decode([]byte(text))
	Expect(block).NotTo(BeNil())
	parsed, err := x509.ParseCertificate(block.Bytes)
	Expect(err).NotTo(HaveOccurred())
	return parsed
}

var _ = Describe("The certificates of a binding", func() {
	It("are found under any key, with what they say and the authority that signed them", func() {
		credhub := servers.NewCredHub(GinkgoT(), 30*day+time.Hour, "db.internal")
		leaf := credhub.Leaf()
		one := surveyed(map[string]any{
			"uri": "db://host", "port": 5432,
			"tls": map[string]any{"list": []any{"text before " + leaf.Certificate + leaf.Key}},
			"z":   "x\n" + leaf.CA,
		}).Bindings[0]
		Expect(one.Error).To(BeEmpty())
		Expect(one.Certificates).To(HaveLen(2))
		found, authority := one.Certificates[0], one.Certificates[1]
		Expect(found.Key).To(Equal("tls/list/0"))
		Expect(found.Subject).To(Equal("CN=db.internal"))
		Expect(found.Issuer).To(Equal("CN=authority"))
		Expect(found.Expiry).To(Equal(parse(leaf.Certificate).NotAfter))
		Expect(found.DaysLeft).To(Equal(30))
		Expect(found.Due).To(BeTrue())
		Expect(found.IsAuthority).To(BeFalse())
		Expect(found.Fingerprint).To(MatchRegexp("^[0-9a-f]{64}$"))
		Expect(authority.Key).To(Equal("z"))
		Expect(authority.IsAuthority).To(BeTrue())
		Expect(found.Authority).To(Equal(authority.Fingerprint))
		Expect(authority.Authority).To(Equal(authority.Fingerprint))
	})

	It("name the key of an authority that is not among them", func() {
		credhub := servers.NewCredHub(GinkgoT(), 90*day, "db.internal")
		one := surveyed(map[string]any{"cert": credhub.Leaf().Certificate}).Bindings[0].Certificates[0]
		Expect(one.Authority).To(MatchRegexp("^key id [0-9a-f]{40}$"))
		Expect(one.Due).To(BeFalse())
		Expect(one.DaysLeft).To(Equal(89))
	})

	It("are expired with a negative number of days", func() {
		one := surveyed(map[string]any{"ca": servers.NewCredHub(GinkgoT(), -time.Hour, "x").Leaf().CA})
		Expect(one.Bindings[0].Certificates[0].DaysLeft).To(Equal(-1))
		Expect(one.Due()).To(Equal(1))
	})

	It("may be on one line with \\n", func() {
		text := strings.ReplaceAll(servers.NewCredHub(GinkgoT(), day, "x").Leaf().CA, "\n", `\n`)
		Expect(surveyed(map[string]any{"json": `{"ca":"` + text + `"}`}).Bindings[0].Certificates).To(HaveLen(1))
	})

	It("do not include private keys, which are not decoded", func() {
		key := "-----BEGIN RSA PRIVATE KEY-----\nnot base64: &\n-----END RSA PRIVATE KEY-----\n"
		ca := servers.NewCredHub(GinkgoT(), day, "x").Leaf().CA
		one := surveyed(map[string]any{"key": key, "both": key + ca + key}).Bindings[0]
		Expect(one.Error).To(BeEmpty())
		Expect(one.Certificates).To(HaveLen(1))
	})

	It("do not include a private key after a certificate without an end", func() {
		leaf := servers.NewCredHub(GinkgoT(), day, "x").Leaf()
		half := leaf.Certificate[:len(leaf.Certificate)/2]
		one := surveyed(map[string]any{"text": half + "\n" + leaf.Key + leaf.CA}).Bindings[0]
		Expect(one.Error).To(Equal("a certificate in text cannot be read: its PEM block has no end"))
		Expect(one.Certificates).To(HaveLen(1))
		Expect(one.Certificates[0].IsAuthority).To(BeTrue())
	})

	DescribeTable("are an error of the binding if they cannot be read", func(
		damage func(text string) string, want string,
	) {
		credhub := servers.NewCredHub(GinkgoT(), day, "x")
		leaf := credhub.Leaf()
		instance := surveyed(map[string]any{"good": leaf.CA, "bad": damage(leaf.Certificate) + leaf.Key})
		Expect(instance.Bindings[0].Error).To(HavePrefix("a certificate in bad cannot be read: " + want))
		Expect(instance.Bindings[0].Error).NotTo(ContainSubstring("\n"))
		Expect(instance.Bindings[0].Certificates).To(HaveLen(1))
		Expect(instance.Failed()).To(BeTrue())
	},
		Entry("without an end", func(text string) string { return text[:len(text)/2] }, "its PEM block has no end"),
		Entry("without base64", func(text string) string { return strings.Replace(text, "\nMII", "\n*II", 1) },
			"its PEM block is malformed"),
		Entry("without a certificate", func(string) string {
			return "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
		}, "x509: "),
	)
})

var _ = Describe("The bindings of an instance", func() {
	It("are compared with the newest one through a rotation of the authority", func() {
		credhub := servers.NewCredHub(GinkgoT(), 90*day, "x")
		bind := func() map[string]any { return map[string]any{"ca": credhub.Leaf().CA} }
		before := bind()
		Expect(others(surveyed(before, bind()))).To(BeEmpty())
		credhub.AddTransitional(GinkgoT())
		both := bind()
		instance := surveyed(before, before, both)
		Expect(others(instance)).To(Equal([]string{"b1", "b2"}))
		Expect(instance.Groups).To(HaveLen(2))
		Expect(instance.Groups[0].Newest).To(BeTrue())
		Expect(instance.Groups[0].Bindings).To(Equal([]string{"b3"}))
		Expect(instance.Groups[0].Trusted).To(HaveLen(2))
		Expect(instance.Groups[1].Bindings).To(Equal([]string{"b1", "b2"}))
		Expect(instance.Groups[1].Trusted).To(HaveLen(1))
		credhub.MoveTransitional()
		credhub.RegenerateLeaf(GinkgoT())
		Expect(others(surveyed(before, both, bind()))).To(Equal([]string{"b1"}))
		credhub.DropTransitional()
		after := bind()
		Expect(others(surveyed(before, both, after))).To(Equal([]string{"b1"}))
		Expect(others(surveyed(after, before))).To(Equal([]string{"b1"}), "an older authority may be the newest one's")
	})

	It("that contain the authority of the newest one may also contain one that expires", func() {
		credhub := servers.NewCredHub(GinkgoT(), 30*day, "x")
		old := credhub.Authority()
		current := servers.NewCredHub(GinkgoT(), 90*day, "x").Authority()
		instance := surveyed(map[string]any{"ca": old + current}, map[string]any{"ca": current})
		Expect(others(instance)).To(BeEmpty())
		Expect(instance.Due()).To(BeZero())
		superseded := instance.Bindings[0].Certificates
		Expect([]bool{superseded[0].Superseded, superseded[1].Superseded}).To(Equal([]bool{true, false}))
		Expect(instance.Expiries()).To(Equal(map[string]time.Time{"binding": parse(current).NotAfter}))
		instance = surveyed(map[string]any{"ca": old + current}, map[string]any{"ca": old})
		Expect(instance.Due()).To(Equal(1), "the newest binding contains it")
		instance = surveyed(map[string]any{"ca": old}, map[string]any{"ca": current})
		Expect(instance.Due()).To(Equal(1), "the binding lacks the other one")
		Expect(instance.Expiries()).To(Equal(map[string]time.Time{"binding": parse(old).NotAfter}))
	})

	It("need an own certificate of the authority that signed the newest one's", func() {
		credhub := servers.NewCredHub(GinkgoT(), 90*day, "x")
		bind := func() map[string]any {
			leaf := credhub.Leaf()
			return map[string]any{"ca": leaf.CA, "cert": leaf.Certificate}
		}
		credhub.AddTransitional(GinkgoT())
		old := bind()
		credhub.MoveTransitional()
		credhub.RegenerateLeaf(GinkgoT())
		instance := surveyed(old, bind())
		Expect(others(instance)).To(Equal([]string{"b1"}))
		Expect(instance.Groups[0].Trusted).To(Equal(instance.Groups[1].Trusted))
		Expect(instance.Groups[0].SignedBy).NotTo(Equal(instance.Groups[1].SignedBy))
	})

	It("without certificates are compared with nothing", func() {
		ca := servers.NewCredHub(GinkgoT(), 90*day, "x").Leaf().CA
		instance := surveyed(map[string]any{"ca": ca}, map[string]any{"uri": "x"})
		Expect(others(instance)).To(BeEmpty())
		Expect(instance.Groups).To(HaveLen(1))
	})
})

var _ = Describe("A survey", func() {
	It("contains only the selected instances", func() {
		for _, options := range []certificates.Options{{IDs: []string{"i2"}}, {Service: "other"}, {Plan: "large"}} {
			survey := certificates.New(options)
			survey.Add(binding("b1", nil))
			Expect(survey.Instances()).To(BeEmpty())
		}
	})

	It("reports what cannot be read, and instances that do not exist", func() {
		survey := certificates.New(certificates.Options{IDs: []string{"i1", "i2"}})
		survey.Add(&lifecycle.Stored{Entry: lifecycle.Entry{
			Identity:  lifecycle.Identity{Kind: lifecycle.Binding, ID: "b9", Workspace: "b-b9"},
			Condition: lifecycle.Unreadable, Error: "damaged",
		}})
		survey.Add(&lifecycle.Stored{Entry: lifecycle.Entry{
			Identity:  lifecycle.Identity{Kind: lifecycle.Instance, ID: "i1", Workspace: "i-i1"},
			Condition: lifecycle.Unreadable, Error: "cut off",
		}})
		survey.AddSelected(false)
		Expect(survey.Unreadable).To(Equal([]certificates.Binding{{ID: "b9", Error: "damaged"}}))
		all := survey.Instances()
		Expect(value.Convert(all, func(one *certificates.Instance) string { return one.Error })).To(Equal([]string{
			"cut off", "the state backend contains neither the instance nor a binding of it",
		}))
	})

	It("contains the outputs of instances", func() {
		survey := newSurvey()
		ca := servers.NewCredHub(GinkgoT(), day, "x").Leaf().CA
		stored := binding("b1", map[string]any{"ca": ca})
		stored.Kind, stored.ID, stored.InstanceID = lifecycle.Instance, "i1", ""
		survey.Add(stored)
		survey.Add(binding("b1", map[string]any{"ca": ca}))
		instance := survey.Instances()[0]
		Expect(instance.Outputs).To(HaveLen(1))
		Expect(instance.Due()).To(Equal(1), "the same certificate counts once")
	})
})

// serve accepts TLS connections with a certificate, and returns the address. negotiate is called with each connection
// before the handshake, and reports whether the handshake follows.
func serve(leaf servers.Certificates, config *tls.Config, negotiate func(net.Conn) bool) string {
	GinkgoHelper()
	pair, err := tls.X509KeyPair([]byte(leaf.Certificate), []byte(leaf.Key))
	Expect(err).NotTo(HaveOccurred())
	config.Certificates = []tls.Certificate{pair}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { _ = listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			if negotiate(connection) {
				_ = tls.Server(connection, config).Handshake()
			}
			_ = connection.Close()
		}
	}()
	return listener.Addr().String()
}

var _ = Describe("A comparison", func() {
	// compared returns, for a binding with each version of an authority and one with neither, whether it is trusted.
	compared := func(reference *certificates.Reference, old, current string) []any {
		survey := newSurvey()
		survey.Add(binding("b1", map[string]any{"ca": old}))
		survey.Add(binding("b2", map[string]any{"ca": current}))
		survey.Add(binding("b3", map[string]any{"ca": old + current}))
		survey.Add(binding("b4", map[string]any{"uri": "x"}))
		survey.Compare(reference)
		var results []any
		for _, one := range survey.Instances()[0].Bindings {
			if one.Trusted == nil {
				results = append(results, nil)
			} else {
				results = append(results, *one.Trusted)
			}
		}
		Expect(survey.Instances()[0].Server).To(HaveLen(map[bool]int{true: 1}[reference.IsServer()]))
		return results
	}
	old := func() string { return servers.NewCredHub(GinkgoT(), 90*day, "x").Leaf().CA }

	It("with a server finds the bindings that verify its certificate", func(ctx context.Context) {
		credhub := servers.NewCredHub(GinkgoT(), 90*day, "db.internal")
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			for _, auth := range []tls.ClientAuthType{tls.NoClientCert, tls.RequireAnyClientCert} {
				config := &tls.Config{MaxVersion: version, ClientAuth: auth}
				address := serve(credhub.Leaf(), config, func(net.Conn) bool { return true })
				reference, err := certificates.Dial(ctx, address)
				Expect(err).NotTo(HaveOccurred())
				Expect(compared(reference, old(), credhub.Authority())).To(Equal([]any{false, true, true, nil}))
			}
		}
	})

	It("with a server of PostgreSQL asks for TLS first", func(ctx context.Context) {
		credhub := servers.NewCredHub(GinkgoT(), 90*day, "db.internal")
		address := serve(credhub.Leaf(), &tls.Config{MinVersion: tls.VersionTLS12}, func(connection net.Conn) bool {
			packet := make([]byte, 8)
			_, _ = connection.Read(packet)
			if string(packet) != "\x00\x00\x00\x08\x04\xd2\x16\x2f" {
				return false
			}
			_, err := connection.Write([]byte("S"))
			return err == nil
		})
		reference, err := certificates.Dial(ctx, address)
		Expect(err).NotTo(HaveOccurred())
		Expect(compared(reference, old(), credhub.Authority())).To(Equal([]any{false, true, true, nil}))
	})

	// greet sends a greeting of MySQL's protocol with these capabilities, and returns the packet that follows.
	greet := func(connection net.Conn, capabilities uint16) string {
		payload := "\x0a8.4.2\x00" + "\x01\x00\x00\x00" + "12345678" + "\x00" +
			string([]byte{byte(capabilities), byte(capabilities >> 8)}) + "more"
		_, _ = connection.Write([]byte(string(rune(len(payload))) + "\x00\x00\x00" + payload))
		packet := make([]byte, 36)
		length, _ := io.ReadFull(connection, packet)
		return string(packet[:length])
	}

	It("with a server of MySQL answers its greeting", func(ctx context.Context) {
		credhub := servers.NewCredHub(GinkgoT(), 90*day, "db.internal")
		address := serve(credhub.Leaf(), &tls.Config{MinVersion: tls.VersionTLS12}, func(connection net.Conn) bool {
			// The length, the number of the packet, CLIENT_SSL and CLIENT_PROTOCOL_41, the size, the character set.
			return greet(connection, 0xffff) == "\x20\x00\x00\x01\x00\x0a\x00\x00\xff\xff\x00\x00\x2d"+
				strings.Repeat("\x00", 23)
		})
		reference, err := certificates.Dial(ctx, address)
		Expect(err).NotTo(HaveOccurred())
		Expect(compared(reference, old(), credhub.Authority())).To(Equal([]any{false, true, true, nil}))
	})

	It("with a server of MySQL without TLS sends nothing in its protocol", func(ctx context.Context) {
		received := make(chan string, 2)
		leaf := servers.NewCertificates(GinkgoT(), "x")
		address := serve(leaf, &tls.Config{MinVersion: tls.VersionTLS12}, func(connection net.Conn) bool {
			received <- greet(connection, 0xf7ff)
			return false
		})
		_, err := certificates.Dial(ctx, address)
		Expect(err).To(MatchError(ContainSubstring("for its certificate with TLS: ")))
		Eventually(received).Should(Receive(HavePrefix("\x16"))) // a handshake
		Eventually(received).Should(Receive(BeEmpty()))
	})

	It("with a server of PostgreSQL that rejects TLS sends no further data", func(ctx context.Context) {
		received := make(chan string, 2)
		leaf := servers.NewCertificates(GinkgoT(), "x")
		address := serve(leaf, &tls.Config{MinVersion: tls.VersionTLS12}, func(connection net.Conn) bool {
			packet := make([]byte, 8)
			_, _ = connection.Read(packet)
			if packet[0] != 0 {
				return false // not PostgreSQL's protocol
			}
			_, _ = connection.Write([]byte("N"))
			rest, _ := io.ReadAll(connection)
			received <- string(rest)
			return false
		})
		_, err := certificates.Dial(ctx, address)
		Expect(err).To(MatchError(And(ContainSubstring("for its certificate with TLS: "),
			ContainSubstring("with the request for TLS of PostgreSQL or MySQL: the server does not use TLS"))))
		Eventually(received).Should(Receive(BeEmpty()))
	})

	DescribeTable("with a server is an error", func(ctx context.Context, address func() string, want string) {
		_, err := certificates.Dial(ctx, address())
		Expect(err).To(MatchError(ContainSubstring(want)))
	},
		Entry("without a port", func() string { return "localhost" }, `"localhost" must be HOST:PORT`),
		Entry("that does not listen", func() string {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			Expect(err).NotTo(HaveOccurred())
			Expect(listener.Close()).To(Succeed())
			return listener.Addr().String()
		}, "connection refused"),
		Entry("without TLS", func() string {
			leaf := servers.NewCertificates(GinkgoT(), "x")
			return serve(leaf, &tls.Config{MinVersion: tls.VersionTLS12}, func(connection net.Conn) bool {
				_, _ = connection.Write([]byte("N hello, this is a server of another protocol"))
				return false
			})
		}, "for its certificate with TLS: "),
	)

	It("with a file finds the bindings that contain all authorities in it", func() {
		credhub := servers.NewCredHub(GinkgoT(), 90*day, "x")
		first := credhub.Authority()
		credhub.AddTransitional(GinkgoT())
		both := credhub.Leaf().CA
		credhub.MoveTransitional()
		path := filepath.Join(GinkgoT().TempDir(), "ca.pem")
		for text, want := range map[string][]any{
			first: {true, false, true, nil}, credhub.Authority(): {false, true, true, nil},
			both: {false, false, true, nil},
		} {
			Expect(os.WriteFile(path, []byte(text), 0o600)).To(Succeed())
			reference, err := certificates.ReadAuthorities(path)
			Expect(err).NotTo(HaveOccurred())
			Expect(compared(reference, first, credhub.Authority())).To(Equal(want))
		}
	})

	DescribeTable("with a file is an error", func(text, want string) {
		path := filepath.Join(GinkgoT().TempDir(), "ca.pem")
		Expect(os.WriteFile(path, []byte(text), 0o600)).To(Succeed())
		_, err := certificates.ReadAuthorities(path)
		Expect(err).To(MatchError(ContainSubstring("ca.pem: a certificate cannot be read: " + want)))
	},
		Entry("without certificates", "-----BEGIN EC PRIVATE KEY-----\n", "it contains no certificate in PEM"),
		Entry("that is cut off", "-----BEGIN CERTIFICATE-----\nAAAA", "its PEM block has no end"),
		Entry("with an invalid certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", "x509: "),
	)

	It("with a missing file is an error", func() {
		_, err := certificates.ReadAuthorities("/missing.pem")
		Expect(err).To(MatchError(os.ErrNotExist))
	})
})
