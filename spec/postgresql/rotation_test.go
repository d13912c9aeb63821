package postgresql_test

import (
	"context"

	"service-adapter/spec/kit"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// The specs do what cf bind-service --strategy multiple does: they create a new binding of the same app and then delete
// the old one.
var _ = DescribeTable("an app moves from one binding to another without an error",
	func(ctx context.Context, newInstance func(ctx context.Context) *site) {
		s := newInstance(ctx)
		old := s.Credentials(ctx, "bind-old", nil)
		Expect(sql(ctx, old["uri"], "CREATE SCHEMA app; CREATE TABLE app.t (n serial PRIMARY KEY); "+
			"CREATE FUNCTION app.f() RETURNS int LANGUAGE sql AS 'SELECT 1'; INSERT INTO app.t "+
			"DEFAULT VALUES")).To(BeEmpty())
		current := s.Credentials(ctx, "bind-new", nil)
		Expect(current["username"]).NotTo(Equal(old["username"]))

		By("working with the new binding all the time")
		stop, stopped := make(chan struct{}), make(chan error, 1)
		go func() {
			for {
				_, err := sql(ctx, current["uri"],
					"INSERT INTO app.t DEFAULT VALUES; SELECT app.f(); SELECT count(*) FROM app.t")
				select {
				case <-stop:
					stopped <- err
					return
				default:
				}
				if err != nil {
					stopped <- err
					return
				}
			}
		}()
		Expect(s.DeleteBinding(ctx, "bind-old").Exit).To(Equal(0))
		close(stop)
		Eventually(stopped).Should(Receive(BeNil()))

		By("changing objects that the old binding created")
		_, err := sql(ctx, old["uri"], "SELECT 1")
		Expect(err).To(MatchError(ContainSubstring("authentication failed")))
		Expect(sql(ctx, current["uri"], "ALTER TABLE app.t ADD COLUMN more text; CREATE OR REPLACE FUNCTION "+
			"app.f() RETURNS int LANGUAGE sql AS 'SELECT 2'; "+
			"SELECT app.f(); DROP SCHEMA app CASCADE")).To(Equal("2"))
		Expect(s.DeleteBinding(ctx, "bind-new").Exit).To(Equal(0))
		Expect(s.roles(ctx)).To(BeEmpty())
	},
	Entry("of postgresql", kit.Slow(), func(ctx context.Context) *site { return newSite(ctx, "") }),
	Entry("of postgresql-database", kit.Slow(), func(ctx context.Context) *site {
		s := newShared("")
		s.DeployManifest(ctx, nil)
		return s
	}),
)
