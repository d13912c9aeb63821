package workspace_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/statestore"
	"service-adapter/internal/engine/workspace"
)

// writeFixture writes a file and creates its directory.
func writeFixture(path string, text []byte) {
	GinkgoHelper()
	Expect(os.MkdirAll(filepath.Dir(path), 0o700)).To(Succeed())
	Expect(os.WriteFile(path, text, 0o600)).To(Succeed())
}

var _ = Describe("a lock in s3 of a run that may have died before it stored a state", Ordered, func() {
	const lockID = "12345678-1234-1234-1234-123456789012"
	var (
		s     site
		began time.Time
	)

	BeforeAll(func(ctx context.Context) {
		s = newSite()
		s.store = newStore(ctx, "s3")
		began = time.Now().Add(-time.Hour).Round(time.Second)
	})

	// The run of this machine that may have left a lock began an hour ago, and an errand may take two hours.
	DescribeTable("is released only if no live run can hold it",
		func(ctx context.Context, who string, created func() time.Time, released bool) {
			options := s.options()
			options.StaleLock = func(string) time.Duration { return 2 * time.Hour }
			engine, err := workspace.New(options)
			Expect(err).NotTo(HaveOccurred())
			holder, err := json.Marshal(map[string]any{
				"adapter": opentofu.Process{PID: os.Getpid(), Start: 1}, "left": []time.Time{began},
			})
			Expect(err).NotTo(HaveOccurred())
			writeFixture(filepath.Join(s.cache, "runs", "i-1.json"), holder)
			lock, err := json.Marshal(map[string]any{
				"ID": lockID, "Operation": "OperationTypeApply", "Who": who, "Version": tofuVersion,
				"Created": created(),
			})
			Expect(err).NotTo(HaveOccurred())
			object := s.store.object(lockObject("i-1"))
			writeFixture(object, lock)
			// Without a tag in its metadata, the server does not notice the object.
			metadata := strings.Replace(object, "/buckets/", "/metadata/", 1)
			writeFixture(filepath.Join(metadata, "meta", "etag"), []byte("tag"))

			space := open(ctx, engine, "i-1")
			_, err = space.State(ctx, installation())
			Expect(err).NotTo(HaveOccurred())
			Expect(space.Close()).To(Succeed())
			if released {
				Expect(object).NotTo(BeAnExistingFile())
			} else {
				Expect(object).To(BeARegularFile())
			}
		},
		Entry("taken when that run began", statestore.UserAtHost(),
			func() time.Time { return began.Add(2 * time.Second) }, true),
		Entry("taken when that run began, by another host", "vcap@elsewhere",
			func() time.Time { return began.Add(2 * time.Second) }, false),
		Entry("taken before that run", statestore.UserAtHost(),
			func() time.Time { return began.Add(-time.Second) }, false),
		Entry("taken long after that run began, by an adapter in another container", statestore.UserAtHost(),
			func() time.Time { return began.Add(time.Minute) }, false),
		Entry("of another host, whose errand began earlier than a request may take", "vcap@elsewhere",
			func() time.Time { return time.Now().Add(-90 * time.Minute) }, false),
		Entry("of another host, taken before an errand may have begun", "vcap@elsewhere",
			func() time.Time { return time.Now().Add(-3 * time.Hour) }, true),
	)
})
