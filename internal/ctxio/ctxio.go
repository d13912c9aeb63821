// Package ctxio lets a context end operations that do not take one: a long copy can be interrupted, and the wait for a
// blocking call is limited. It also returns why a context ended.
package ctxio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// Err returns nil if a context has not ended, and otherwise why it ended: its cause if that wraps the context's error,
// and the context's error otherwise. The result always satisfies errors.Is with the context's error.
func Err(ctx context.Context) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); errors.Is(cause, err) {
		return cause
	}
	return err
}

// Reader returns a reader that reads from the reader from until the context ends. After that, its Read returns an error
// that wraps the context's error, not its cause. A Read that already blocks in from is not interrupted. The errors of
// from are returned unchanged.
func Reader(ctx context.Context, from io.Reader) io.Reader { return &reader{ctx, from} }

// A reader is the io.Reader that the function Reader returns: an underlying reader and the context that ends the
// reading. The zero value cannot be used.
type reader struct {
	ctx  context.Context //nolint:containedctx // each reader serves a single copy
	from io.Reader
}

// Read reads from the underlying reader and returns its error unchanged, including io.EOF. If the context has ended,
// Read reads nothing and returns 0 and an error that wraps the context's error.
func (r *reader) Read(buffer []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, fmt.Errorf("reading: %w", err)
	}
	return r.from.Read(buffer)
}

// Await calls a function that takes no context, in a goroutine of its own, and returns its result and its error. If the
// context ends first, Await returns at once, with the zero value and the context's error, not its cause. The call then
// continues in the background, and its result is discarded. If the context has already ended, Await starts the call
// nevertheless, and may return its result.
func Await[T any](ctx context.Context, call func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	results := make(chan result, 1)
	go func() {
		value, err := call()
		results <- result{value, err}
	}()
	select {
	case r := <-results:
		return r.value, r.err
	case <-ctx.Done():
		var zero T
		return zero, ctx.Err()
	}
}

// ReadAll reads a stream to its end and returns its content. It returns the error of a read as it is, except io.EOF,
// which ends the stream without an error. If the context ends first, ReadAll returns an error that wraps the context's,
// even while a read waits for a terminal or a pipe. That read continues in the background, so the stream must not be
// used after that. The content that is returned with an error is nil or incomplete.
func ReadAll(ctx context.Context, from io.Reader) ([]byte, error) {
	return Await(ctx, func() ([]byte, error) { return io.ReadAll(Reader(ctx, from)) })
}

// ReadFile reads a whole file and returns its content, with the errors of os.ReadFile if it cannot be read. If the
// context ends first, for example while the file is a terminal or a pipe without a writer, ReadFile returns nil and the
// context's error, and the read continues in the background. If the context has already ended, ReadFile starts the read
// nevertheless, and returns either the context's error or the content and error of the read.
func ReadFile(ctx context.Context, path string) ([]byte, error) {
	return Await(ctx, func() ([]byte, error) {
		return os.ReadFile(path) //nolint:gosec // the caller says who names the file
	})
}
