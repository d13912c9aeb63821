package tofu

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
)

// TakeOver makes the workspace that State read one's own: whoever reserved it, perhaps on another machine and still alive, cannot apply
// it any more, and what is done from now on cannot end as somebody else's success. It waits for a run that holds the lock. The error is
// ErrExists when the state was changed since it was read; then nothing is changed here. What the workspace tracks stays the same.
func (w *Workspace) TakeOver(ctx context.Context, i Installation) error {
	if err := w.refuseOlder(i); err != nil {
		return w.failed("taking over", err)
	}
	base, err := w.begin(ctx, i)
	if err != nil {
		return w.failed("taking over", err)
	}
	nonce := rand.Text()
	if err := w.replaceNonce(ctx, base, nonce); err != nil {
		return w.failed("taking over", err)
	}
	w.nonce = nonce
	if w.state != nil {
		w.state.Nonce = nonce
	}
	return nil
}

// replaceNonce stores the state with another nonce, which then is that of no reservation. The push is refused when the state was
// changed since it was pulled.
func (w *Workspace) replaceNonce(ctx context.Context, base *Prepared, nonce string) error {
	text, state, err := w.pullText(ctx, base)
	switch {
	case err != nil:
		return err
	case state == nil || state.Nonce != w.nonce || w.state != nil && state.Complete != w.state.Complete:
		return ErrExists
	}
	// A nonce is random, so nothing else in the state is the same.
	pushErr := w.rewrite(ctx, base, bytes.ReplaceAll(text, []byte(w.nonce), []byte(nonce)))
	var held *LockError
	if pushErr == nil || errors.As(pushErr, &held) || ctx.Err() != nil {
		return pushErr
	}
	// The state, not the text of the error, tells why.
	after, now, err := w.pullText(ctx, base)
	switch {
	case err != nil:
		return errors.Join(pushErr, err)
	case now != nil && now.Nonce == nonce:
		return nil
	case !bytes.Equal(after, text):
		return ErrExists
	default:
		return pushErr
	}
}

// pullText reads the state, and its text.
func (w *Workspace) pullText(ctx context.Context, base *Prepared) ([]byte, *State, error) {
	text, err := w.run(ctx, base, lookPlace, nil, "state", "pull", "-no-color")
	if err != nil {
		return nil, nil, err
	}
	state, err := parseState(text)
	return text, state, err
}
