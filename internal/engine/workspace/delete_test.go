package workspace_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("the deletion of a workspace in PostgreSQL", func() {
	It("is left to OpenTofu if the server rejects it once", func(ctx context.Context) {
		s := newSite()
		s.store = newStore(ctx, "pg")
		database := fmt.Sprintf("states%d", servedStores.stores)
		engine := s.engine()
		prepared := prepare(ctx, engine, oneEntry)
		space := open(ctx, engine, "b-1")
		DeferCleanup(space.Close)
		Expect(space.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
		Expect(space.Apply(ctx, prepared, s.vars())).To(Succeed())
		Expect(space.Destroy(ctx, prepared, s.vars())).To(Succeed())
		_, err := s.store.server.Query(ctx, database, `
			CREATE SEQUENCE deletions;
			CREATE FUNCTION reject() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
				IF nextval('public.deletions') = 1 THEN RAISE EXCEPTION 'not now'; END IF;
				RETURN OLD;
			END $$;
			CREATE TRIGGER reject BEFORE DELETE ON terraform_remote_state.states
				FOR EACH ROW EXECUTE FUNCTION reject()`)
		Expect(err).NotTo(HaveOccurred())

		Expect(space.Remove(ctx, installation())).To(Succeed())
		Expect(s.store.contents()).To(BeEmpty())
		Expect(s.store.server.Query(ctx, database, "SELECT last_value FROM deletions")).To(Equal([]string{"2"}))
	})
})
