// Package ctxio makes what heeds no context end with one: a long copy can be interrupted, and an answer is not waited for for ever.
package ctxio

import (
	"context"
	"fmt"
	"io"
)

// Reader returns a reader that reads from another one until the context ends.
func Reader(ctx context.Context, from io.Reader) io.Reader { return &reader{ctx, from} }

type reader struct {
	ctx  context.Context //nolint:containedctx // one reader is one copy
	from io.Reader
}

// Read reads, unless the context has ended.
func (r *reader) Read(buffer []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, fmt.Errorf("reading: %w", err)
	}
	return r.from.Read(buffer)
}

// Await waits for an answer until the context ends. What is asked goes on then, and nobody gets its answer.
func Await[T any](ctx context.Context, ask func() (T, error)) (T, error) {
	type answer struct {
		found T
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		found, err := ask()
		answers <- answer{found, err}
	}()
	select {
	case a := <-answers:
		return a.found, a.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}
