package director_test

import (
	"context"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/director"
)

var _ = Describe("The running tasks of a Director", func() {
	running := func(ctx context.Context, status int, body string) ([]director.Task, []string, error) {
		s := newSite("uaa")
		s.replaced["GET /tasks"] = says(status, body)
		client, err := director.New(s.config())
		Expect(err).NotTo(HaveOccurred())
		tasks, err := client.RunningTasks(ctx)
		return tasks, s.requests, err
	}

	It("are all unfinished tasks, of every type", func(ctx context.Context) {
		tasks, requests, err := running(ctx, http.StatusOK, `[
			{"id":12,"state":"queued","description":"create deployment","timestamp":1447033291,"started_at":null,
			 "result":null,"user":"broker","deployment":"service-instance_i1","context_id":"c"},
			{"id":11,"state":"processing","description":"create release","deployment":null}]`)
		Expect(err).NotTo(HaveOccurred())
		Expect(tasks).To(Equal([]director.Task{
			{ID: 12, State: "queued", Deployment: "service-instance_i1"}, {ID: 11, State: "processing"},
		}))
		Expect(requests).To(HaveLen(3))
		Expect(requests[2]).To(Equal("GET /tasks?state=queued,processing,cancelling&verbose=2"))
	})

	It("may be none", func(ctx context.Context) {
		tasks, _, err := running(ctx, http.StatusOK, "[]")
		Expect(err).NotTo(HaveOccurred())
		Expect(tasks).To(BeEmpty())
	})

	DescribeTable("cause an error if the response is not a list", func(
		ctx context.Context, status int, body, message string,
	) {
		_, _, err := running(ctx, status, body)
		Expect(err).To(MatchError(HaveSuffix(" for its running tasks: " + message)))
	},
		Entry("for a client without permission", 401, `{"description":"Require one of the scopes: bosh.admin"}`,
			"it answered 401 Unauthorized: Require one of the scopes: bosh.admin"),
		Entry("with a page", 502, "<html>", "it answered 502 Bad Gateway"),
		Entry("with null", 200, "null", "the answer is not a list"),
		Entry("with another kind of value", 200, `{"tasks":[]}`, "the answer is not the expected JSON"),
	)
})
