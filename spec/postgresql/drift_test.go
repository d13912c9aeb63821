package postgresql_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/spec/kit"
	"service-adapter/spec/kit/broker"
)

var _ = Describe("The command drift", func() {
	It("reports each role that has drifted, and no other", kit.Slow(), func(ctx context.Context) {
		s := newSite(ctx, "")
		ids := []string{"same-1", "limit", "expiry", "dropped", "taken", "same-2"}
		for _, id := range ids {
			s.Credentials(ctx, id, nil)
		}
		states := func() (all []string) {
			for _, id := range ids {
				text, err := os.ReadFile(filepath.Join(s.StateDir(), "workspaces", "b-"+id, "terraform.tfstate"))
				Expect(err).NotTo(HaveOccurred())
				all = append(all, string(text))
			}
			return all
		}
		before := states()
		for _, statement := range []string{
			`ALTER ROLE "b-limit" CONNECTION LIMIT 7`, `ALTER ROLE "b-expiry" VALID UNTIL '2048-01-01'`,
			`REVOKE "` + s.owner + `" FROM "b-dropped"; DROP OWNED BY "b-dropped"; DROP ROLE "b-dropped"`,
			`COMMENT ON ROLE "b-taken" IS 'mine'`, `CREATE ROLE "b-nobodys" LOGIN`,
		} {
			database := "postgres"
			if statement[:6] == "REVOKE" {
				database = s.database // this database contains the objects of the role
			}
			Expect(administrate(ctx, database, statement)).To(Succeed(), statement)
		}
		DeferCleanup(administrate, "postgres", `DROP ROLE "b-nobodys"`)
		got, err := s.Run(ctx, "", "bindings", "drift", "--all", "--json")
		Expect(err).NotTo(HaveOccurred())
		Expect(got.Exit).To(Equal(1), got.Stderr)
		const role = "drifted pgaccess_role.binding "
		Expect(got.Compared(false)).To(Equal(map[string]string{
			"same-1": "current", "same-2": "current", "limit": role + "changed[connection_limit]",
			"expiry":  role + "changed[valid_until]",
			"dropped": role + "gone[]", "taken": role + "gone[]",
		}))
		Expect(states()).To(Equal(before))

		Expect(administrate(ctx, "postgres",
			fmt.Sprintf(`COMMENT ON ROLE "b-taken" IS 'pgaccess: binding %s'`, "taken"))).To(Succeed())
		for _, id := range ids {
			Expect(s.DeleteBinding(ctx, id).Exit).To(Equal(0), id)
		}
		Expect(s.Workspaces()).To(BeEmpty())
	})

	It("reports a database that has drifted, which a plan shows and an apply restores",
		kit.Slow(), func(ctx context.Context) {
			s := newShared("")
			s.DeployManifest(ctx, nil)
			run := func(exit int, arguments ...string) broker.Answer {
				GinkgoHelper()
				got, err := s.Run(ctx, "", arguments...)
				Expect(err).NotTo(HaveOccurred())
				Expect(got.Exit).To(Equal(exit), got.Stderr)
				return got
			}
			run(0, "instance", "drift", s.ID)
			Expect(run(0, "instance", "apply", s.ID,
				"--dry-run").Stdout).To(Equal("instance " + s.ID + ": is up to date\n"))
			limit := s.limit(ctx)
			Expect(administrate(ctx, "postgres", `ALTER DATABASE "`+s.database+`" CONNECTION LIMIT 3`)).To(Succeed())
			databases := s.databases(ctx)
			Expect(run(1, "instance", "drift", "--all", "--json").Compared(false)).To(
				Equal(map[string]string{s.ID: "drifted pgaccess_database.database changed[connection_limit]"}))
			Expect(run(0, "instance", "apply", s.ID, "--dry-run").Stdout).To(
				Equal("instance " + s.ID + ": would be applied: pgaccess_database.database change " +
					"(connection_limit)\n"))
			Expect(s.databases(ctx)).To(Equal(databases))
			run(0, "instance", "apply", s.ID)
			Expect(s.limit(ctx)).To(Equal(limit))
			run(0, "instance", "drift", s.ID)

			Expect(administrate(ctx, "postgres", `DROP DATABASE "`+s.database+`" WITH (FORCE)`)).To(Succeed())
			Expect(run(1, "instance", "drift", s.ID,
				"--json").Compared(false)).To(
				Equal(map[string]string{s.ID: "drifted pgaccess_database.database gone[]"}))
			run(0, "instance", "destroy", s.ID)
			Expect(s.Workspaces()).To(BeEmpty())
			Expect(administrate(ctx, "postgres", `DROP ROLE "`+s.owner+`"`)).To(Succeed())
		})
})
