package journal_test

import (
	"bytes"
	"context"
	"testing"

	"service-adapter/internal/journal"
	"service-adapter/internal/redact"
)

// TestReleaseRunsAllTasks shows that a task that is added while Release runs the others is run, and that the lines of
// all tasks are written in their order, before Release returns.
func TestReleaseRunsAllTasks(t *testing.T) {
	var out bytes.Buffer
	secrets := &redact.Secrets{}
	secrets.Add("s3cret-value")
	log := journal.New(&out, secrets)
	write := func(line string) {
		if _, err := log.Write([]byte(line + "\n")); err != nil {
			t.Error(err)
		}
	}
	log.Hold()
	write("held back s3cret-value")
	log.After(t.Context(), func(ctx context.Context) {
		write("first task")
		log.After(ctx, func(context.Context) { write("task of a task") })
	})
	if out.Len() > 0 {
		t.Errorf("before Release, the journal has written %q", out.String())
	}
	log.Release(t.Context())
	write("afterwards")
	want := "held back " + redact.Mask + "\nfirst task\ntask of a task\nafterwards\n"
	if out.String() != want {
		t.Errorf("the journal has written %q, and not %q", out.String(), want)
	}
}
