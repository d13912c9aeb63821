// Package ctxio makes readers end with a context, so that a long copy can be interrupted.
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
