package provider_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/terraform-provider-pgaccess/spec/server"
)

const databases = "SELECT count(*) FROM pg_database WHERE datname = $1"

// resources returns a database and a role for it. The lines are added to the role.
func resources(name, lines string) string {
	return fmt.Sprintf(`
resource "pgaccess_database" "d" {
  name  = %[1]q
  owner = "%[1]s_owner"
}
resource "pgaccess_role" "r" {
  name     = "%[1]s_login"
  group    = pgaccess_database.d.owner
  database = pgaccess_database.d.name
  marker   = %[1]q
  %[2]s
}`, name, lines)
}

var _ = Describe("the provider", func() {
	It("creates, changes, reads and drops a database and a role", func(ctx context.Context) {
		m := newModule()
		Expect(m.apply(ctx, resources("life", ""))).To(BeEmpty())
		attributes := m.attributes("pgaccess_role.r")
		Expect(attributes).To(And(HaveKeyWithValue("connection_limit", -1.0), HaveKeyWithValue("valid_until", BeNil())))
		password := attributes["password"].(string)
		Expect(password).To(MatchRegexp("^[A-Z0-9]{26}$"))
		login := func(password string) error {
			conn, err := connect(ctx, "life_login", password, "life")
			if err == nil {
				err = conn.Close(ctx)
			}
			return err
		}
		Expect(login(password)).To(Succeed())

		By("changing it")
		Expect(m.apply(ctx, resources("life", `connection_limit = 3
			valid_until = "2049-12-31T23:59:59+02:00"`))).To(BeEmpty())
		Expect(m.attributes("pgaccess_role.r")).To(
			And(HaveKeyWithValue("connection_limit", 3.0), HaveKeyWithValue("password", password)))
		Expect(ask[int](ctx, "postgres", "SELECT rolconnlimit FROM pg_roles WHERE rolname = 'life_login'")).To(Equal(3))
		Expect(m.run(ctx, "plan", "-input=false")).To(ContainSubstring("No changes"),
			"the same instant in another time zone")
		Expect(m.apply(ctx, resources("life", `password = "a 'given' one"`))).To(BeEmpty())
		Expect(login(password)).NotTo(Succeed())
		Expect(login("a 'given' one")).To(Succeed())

		By("detecting changes that were made without it")
		do(ctx, "ALTER ROLE life_login CONNECTION LIMIT 7 VALID UNTIL '2048-01-01'")
		Expect(m.run(ctx, "plan", "-input=false")).To(ContainSubstring("1 to change"))
		Expect(m.tofu(ctx, "apply", "-json", "-auto-approve", "-input=false")).To(BeEmpty())

		By("dropping it")
		Expect(m.destroy(ctx)).To(BeEmpty())
		Expect(ask[int](ctx, "postgres", databases, "life")).To(BeZero())
		Expect(ask[int](ctx, "postgres", "SELECT count(*) FROM pg_roles WHERE rolname LIKE 'life%'")).To(BeZero())
	})

	It("creates missing objects again", func(ctx context.Context) {
		m := newModule()
		Expect(m.apply(ctx, resources("gone", ""))).To(BeEmpty())
		do(ctx, "DROP DATABASE gone WITH (FORCE)")
		do(ctx, "DROP ROLE gone_login")
		Expect(m.apply(ctx, resources("gone", ""))).To(BeEmpty())
		Expect(ask[int](ctx, "postgres", databases, "gone")).To(Equal(1))
		do(ctx, "DROP DATABASE gone WITH (FORCE)")
		do(ctx, "DROP ROLE gone_login")
		Expect(m.destroy(ctx)).To(BeEmpty())
	})

	It("imports a database that was created without it", func(ctx context.Context) {
		m := newModule()
		do(ctx, "CREATE DATABASE hand")
		Expect(m.apply(ctx, resources("hand", ""))).To(
			ConsistOf(ContainSubstring(`database "hand" exists and belongs to "admin"`)))
		m.run(ctx, "import", "-input=false", "pgaccess_database.d", "hand")
		Expect(m.attributes("pgaccess_database.d")).To(
			And(HaveKeyWithValue("name", "hand"), HaveKeyWithValue("owner", server.Admin)))
		Expect(m.apply(ctx, resources("hand", ""))).To(BeEmpty())
		Expect(ask[string](ctx, "postgres",
			"SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = 'hand'")).To(Equal("hand_owner"))
		Expect(m.destroy(ctx)).To(BeEmpty())
	})

	It("plans and validates without the server, "+
		"and reports in one sentence that the server cannot be reached", func(ctx context.Context) {
		m := newModule()
		m.port = "1"
		m.write(resources("far", ""))
		Expect(m.run(ctx, "validate", "-json")).To(ContainSubstring(`"valid": true`))
		Expect(m.tofu(ctx, "plan", "-json", "-input=false")).To(BeEmpty())
		Expect(m.apply(ctx, resources("far", ""))).To(
			Equal([]string{"cannot reach PostgreSQL at localhost:1: connection refused"}))
		Expect(m.attributes("pgaccess_database.d")).To(BeNil())
	})

	DescribeTable("rejects", func(ctx context.Context, change func(*module), lines, message string) {
		m := newModule()
		change(m)
		m.write(resources("bad", lines))
		Expect(m.tofu(ctx, "plan", "-json", "-input=false")).To(ContainElement(message))
	},
		Entry("a password that is not ASCII", func(*module) {}, `password = "ä"`,
			"a password may only contain printable ASCII characters"),
		Entry("a limit below -1", func(*module) {}, `connection_limit = -2`,
			"-2 is not a number from -1 to 2147483647"),
		Entry("a text that is not a time", func(*module) {}, `valid_until = "tomorrow"`,
			`"tomorrow" is not a time such as 2030-12-31T23:59:59Z`),
		Entry("a port out of range", func(m *module) { m.port = "70000" }, "",
			"70000 is not a number from 1 to 65535"),
		Entry("an unknown sslmode", func(m *module) { m.port += "\n sslmode = \"prefer\"" }, "",
			`"prefer" is not one of disable, require, verify-ca, verify-full`),
		Entry("an empty host", func(m *module) { m.host = "" }, "", "a host must not be empty"),
	)
})
