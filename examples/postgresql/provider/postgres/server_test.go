package postgres_test

import (
	"context"
	"net"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/terraform-provider-pgaccess/postgres"
	"service-adapter/terraform-provider-pgaccess/spec/server"
)

var _ = Describe("a connection", func() {
	read := func(ctx context.Context, s postgres.Server) error {
		_, err := s.ReadDatabase(ctx, "postgres")
		return err
	}

	DescribeTable("is established",
		func(ctx context.Context, change func(*postgres.Server)) {
			s := administrator()
			change(&s)
			Expect(read(ctx, s)).To(Succeed())
		},
		Entry("without TLS", func(s *postgres.Server) { s.SSLMode, s.CA = postgres.SSLDisable, "" }),
		Entry("with any certificate", func(s *postgres.Server) { s.SSLMode, s.CA = postgres.SSLRequire, "" }),
		Entry("with a certificate of the authority", func(s *postgres.Server) { s.SSLMode = postgres.SSLVerifyCA }),
		Entry("with a certificate of the host", func(s *postgres.Server) {
			s.SSLMode, s.Hosts = postgres.SSLVerifyFull, []string{"localhost"}
		}),
		Entry("with the first reachable host of several", func(s *postgres.Server) {
			s.Hosts = []string{"host.invalid", "127.0.0.1"}
		}),
	)

	DescribeTable("that fails reports the reason on one line without secrets:",
		func(ctx context.Context, change func(*postgres.Server), text string) {
			s := administrator()
			change(&s)
			err := read(ctx, s)
			here := net.JoinHostPort(s.Hosts[0], strconv.Itoa(s.Port))
			Expect(err).To(MatchError(HavePrefix(strings.ReplaceAll(text, "HERE", here))))
			Expect(err.Error()).NotTo(Or(ContainSubstring("\n"), ContainSubstring(s.Password)))
		},
		Entry("no server listens", func(s *postgres.Server) { s.Port = closedPort() },
			"cannot reach PostgreSQL at HERE: connection refused"),
		Entry("no such host", func(s *postgres.Server) { s.Hosts = []string{"host.invalid"} },
			"cannot reach PostgreSQL at HERE: the host name cannot be resolved: "),
		Entry("the server does not respond", func(s *postgres.Server) {
			s.Port, s.ConnectTimeout = silentPort(), 50*time.Millisecond
		}, "cannot reach PostgreSQL at HERE: timed out"),
		Entry("a wrong password", func(s *postgres.Server) { s.Password = "wrong" },
			`password authentication failed for user "admin" at HERE`),
		Entry("no such database", func(s *postgres.Server) { s.Database = "nowhere" },
			`the database does not exist: "nowhere" at HERE`),
		Entry("another host's certificate", func(s *postgres.Server) { s.SSLMode = postgres.SSLVerifyFull },
			"cannot reach PostgreSQL at HERE: the server's certificate cannot be trusted: "),
		Entry("a certificate of another authority", func(s *postgres.Server) { s.CA = otherCA },
			"cannot reach PostgreSQL at HERE: the server's certificate cannot be trusted: "+
				"x509: certificate signed by unknown authority"),
		Entry("no authority", func(s *postgres.Server) { s.CA = "no PEM" },
			"ca_certificate does not contain a certificate in PEM format"),
		Entry("an unknown mode", func(s *postgres.Server) { s.SSLMode = "prefer" },
			`sslmode "prefer" is not one of disable, require, verify-ca, verify-full`),
	)

	It("needs a host", func(ctx context.Context) {
		s := administrator()
		s.Hosts = nil
		Expect(read(ctx, s)).To(MatchError("no host of the PostgreSQL server is configured"))
	})

	It("needs an administrator", func(ctx context.Context) {
		s := administrator()
		s.User = ""
		Expect(read(ctx, s)).To(MatchError("no administrator of the PostgreSQL server is configured"))
	})

	It("ignores functions and operators of users", func(ctx context.Context) {
		database := newDatabase(ctx)
		s, one := administrator(), member(database, "one")
		Expect(s.CreateRole(ctx, one)).To(Succeed())
		// The argument types match exactly, so this function would be preferred to PostgreSQL's own function even
		// without the search path below.
		Expect(as(ctx, one, `CREATE FUNCTION public.has_database_privilege(text, name, text)
			RETURNS bool LANGUAGE plpgsql AS
			$$ BEGIN RAISE EXCEPTION 'fooled'; END $$`)).To(Succeed())
		exec(ctx, database, `ALTER ROLE `+server.Admin+` SET search_path = public, pg_catalog`)
		DeferCleanup(func(ctx context.Context) { exec(ctx, database, `ALTER ROLE `+server.Admin+` RESET search_path`) })
		Expect(s.CreateRole(ctx, member(database, "two"))).To(Succeed())
	})
})

var _ = Describe("names and passwords", func() {
	DescribeTable("that PostgreSQL would change are rejected", func(name string) {
		Expect(postgres.CheckIdentifier(name)).NotTo(Succeed())
	}, Entry("empty", ""), Entry("long", strings.Repeat("ä", 32)), Entry("reserved", "pg_x"), Entry("NUL", "a\x00b"))

	It("may have any other form", func() {
		Expect(postgres.CheckIdentifier(strings.Repeat(`"`, 63))).To(Succeed())
		Expect(postgres.CheckPassword(postgres.NewPassword())).To(Succeed())
		Expect(postgres.NewPassword()).NotTo(Equal(postgres.NewPassword()))
		Expect(postgres.CheckPassword("pässword")).NotTo(Succeed())
		Expect(postgres.CheckPassword("")).NotTo(Succeed())
	})
})

// otherCA is an authority that has signed no certificate of the server.
const otherCA = `-----BEGIN CERTIFICATE-----
MIIBdjCCAR2gAwIBAgIUFSGZWPCNRFCdCXbT1O9um7pYsRwwCgYIKoZIzj0EAwIw
EDEOMAwGA1UEAwwFb3RoZXIwIBcNMjYxMTIxMTQ1NjEyWhgPMjEyNjEwMjgxNDU2
MTJaMBAxDjAMBgNVBAMMBW90aGVyMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE
Lye5pJeV7qVVpnQTC4zcNjiDnWX+HVl/lHhWHdRybY+Nh07b/TwKwbJs1q6jEmQU
S4IhZHSsSeIsDLxyKjHEc6NTMFEwHQYDVR0OBBYEFPwJrMyCWF8WXk5x3X1JII1C
hV5FMB8GA1UdIwQYMBaAFPwJrMyCWF8WXk5x3X1JII1ChV5FMA8GA1UdEwEB/wQF
MAMBAf8wCgYIKoZIzj0EAwIDRwAwRAIgFpUHVe37Feq/AkbV4sBMp79xvKJw/ZjS
opECjmWJ+MECICo+Xy+q0p5a5znqC4eGDHoFq2aqblSJuIsyN3xLq6J+
-----END CERTIFICATE-----
`

// listening returns a port of a listener that never responds, and a function that closes it.
func listening() (int, func() error) {
	GinkgoHelper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	return listener.Addr().(*net.TCPAddr).Port, listener.Close
}

func silentPort() int {
	port, stop := listening()
	DeferCleanup(stop)
	return port
}

func closedPort() int {
	port, stop := listening()
	Expect(stop()).To(Succeed())
	return port
}
