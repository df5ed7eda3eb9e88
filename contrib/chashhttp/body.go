package chashhttp

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
)

// A body is that of a request which may be sent more than once. Each attempt is lent
// it; what an attempt has not begun to read can be lent to the next.
type body struct {
	source io.ReadCloser                 // what the next attempt is lent, nil without a body
	reopen func() (io.ReadCloser, error) // another from its beginning, nil if there is none
	loan   *loan                         // to the attempt under way, nil without a body
}

// openBody returns the body of a request. It is read at once, and kept, if the
// request is idempotent, cannot reopen it, and says that it has at most keep bytes.
// One of unknown length is not kept: its client may want an answer before it sends
// the rest. On an error the body is closed, or will be.
func openBody(req *http.Request, keep int64) (body, error) {
	switch {
	case req.Body == nil || req.Body == http.NoBody:
		return body{}, nil
	case req.GetBody != nil || req.ContentLength <= 0 || req.ContentLength > keep || !idempotent(req):
		return body{source: req.Body, reopen: req.GetBody}, nil
	}
	kept, err := readBody(req)
	if err != nil {
		return body{}, err
	}
	reopen := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(kept)), nil }
	source, _ := reopen()
	return body{source: source, reopen: reopen}, nil
}

// readBody reads the body of a request and closes it. If the request is canceled it
// does so in a goroutine that ends when the body lets it: a Close need not interrupt a
// Read, so that neither could be waited for.
func readBody(req *http.Request) ([]byte, error) {
	// ReadFrom looks for the end with MinRead bytes to spare.
	kept := bytes.NewBuffer(make([]byte, 0, req.ContentLength+bytes.MinRead))
	done := make(chan error, 1)
	go func() {
		_, err := kept.ReadFrom(io.LimitReader(req.Body, req.ContentLength+1))
		if err == nil && int64(kept.Len()) != req.ContentLength {
			err = fmt.Errorf("its length is not %d, which ContentLength says", req.ContentLength)
		}
		closeErr := req.Body.Close()
		done <- cmp.Or(err, closeErr)
	}()
	var err error
	select {
	case err = <-done:
	case <-req.Context().Done(): // perhaps since a server found that the client is gone
		err = context.Cause(req.Context())
	//lint:ignore SA1019 an http.Client sets it
	case <-req.Cancel:
		err = context.Canceled
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRequestBody, err)
	}
	return kept.Bytes(), nil
}

// lend gives the body to an attempt, and has the watch told of what becomes of it.
func (b *body) lend(out *http.Request, w *watch) {
	if b.source == nil {
		return
	}
	b.loan = &loan{source: b.source, watch: w, length: out.ContentLength}
	out.Body = b.loan
	out.GetBody = b.reopen
}

// unread reports whether the attempt has not begun to read the body.
func (b *body) unread() bool { return b.loan == nil || b.loan.state.Load() != used }

// broken reports whether the body failed while the attempt read it.
func (b *body) broken() bool { return b.loan != nil && b.loan.broken.Load() }

// repeatable reports whether the next attempt can have the whole body.
func (b *body) repeatable() bool { return b.unread() || b.reopen != nil }

// rewind takes the body back from an attempt that has failed and prepares it for the
// next one. On an error there is none.
func (b *body) rewind() error {
	if b.loan == nil || b.loan.revoke() {
		b.loan = nil
		return nil
	}
	if b.reopen == nil {
		return errBodyUsed
	}
	source, err := b.reopen()
	if err != nil {
		return err
	}
	b.source, b.loan = source, nil
	return nil
}

// settle leaves the body to the attempt, after which there is none, or closes it if
// no attempt has it.
func (b *body) settle() {
	switch {
	case b.loan != nil:
		b.loan.settle()
	case b.source != nil:
		b.source.Close()
	}
}

// The states of a loan.
const (
	lent    = iota // neither read nor closed
	shut           // closed by the attempt, unread; source is open
	used           // the attempt's for good
	revoked        // no longer the attempt's
)

// A loan is a body in the hands of one attempt. A transport closes a body also where
// it found no connection to send it over, and may do so, or even read, in another
// goroutine after it has returned. So a Close reaches the source only if the source
// was read before or there is no next attempt, and whether it was read is settled
// by one atomic step.
type loan struct {
	source io.ReadCloser
	watch  *watch
	length int64 // as the request says, not above 0 if it does not
	passed int64 // of that, through Read
	state  atomic.Int32
	closed atomic.Bool // by the attempt
	broken atomic.Bool // before that, a Read failed or the length was another
}

var errBodyUsed = errors.New("chashhttp: body was read by an attempt that failed")

// Read implements io.Reader.
func (l *loan) Read(p []byte) (int, error) {
	if !l.state.CompareAndSwap(lent, used) && l.state.Load() != used {
		return 0, http.ErrBodyReadAfterClose
	}
	l.watch.waiting.Add(1)
	n, err := l.source.Read(p)
	l.watch.sign()
	l.watch.waiting.Add(-1)
	l.passed += int64(n)
	failed := err != nil && err != io.EOF
	wrong := l.length > 0 && (l.passed > l.length || err == io.EOF && l.passed < l.length)
	// A read that is cut short by a Close says nothing of the source.
	if (failed || wrong) && !l.closed.Load() {
		l.broken.Store(true)
	}
	return n, err
}

// Close implements io.Closer.
func (l *loan) Close() error {
	l.closed.Store(true)
	if l.state.CompareAndSwap(lent, shut) || l.state.Load() != used {
		return nil
	}
	return l.source.Close()
}

// revoke takes an unread body back and reports whether it was one.
func (l *loan) revoke() bool {
	return l.state.CompareAndSwap(lent, revoked) || l.state.CompareAndSwap(shut, revoked)
}

// settle leaves the body to the attempt, and closes what it has closed already.
func (l *loan) settle() {
	if !l.state.CompareAndSwap(lent, used) && l.state.CompareAndSwap(shut, used) {
		l.source.Close()
	}
}
