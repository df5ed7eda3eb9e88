package chashhttp

import (
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// An answer is the body of a response in the hands of the caller. Its end, which is
// when it was read to its end or closed, is that of the attempt.
type answer struct {
	io.ReadCloser
	attempt *attempt
	ended   atomic.Bool
	moved   atomic.Bool // the caller has ended it since its key has moved
}

// An upgraded answer is the connection after an upgrade, which can be written to.
type upgraded struct {
	*answer
	io.Writer
}

// CloseWrite closes the connection for writing, if that is possible for one side.
func (u upgraded) CloseWrite() error {
	if half, ok := u.answer.ReadCloser.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return http.ErrNotSupported
}

// hand returns the response as the caller gets it.
func (a *attempt) hand(resp *http.Response) *http.Response {
	if resp.Body == nil || resp.Body == http.NoBody { // nil as stand-ins of an http.RoundTripper leave it
		a.release()
		return resp
	}
	a.answer = answer{ReadCloser: resp.Body, attempt: a}
	if w, ok := resp.Body.(io.Writer); ok {
		resp.Body = upgraded{&a.answer, w}
	} else {
		resp.Body = &a.answer
	}
	a.t.moves.add(a)
	return resp
}

// release ends an attempt for good: nothing of it is waited for any more.
func (a *attempt) release() {
	if a.cancel != nil { // else it was not sent
		a.cancel(nil)
	}
	if a.lease != nil {
		a.lease.Release()
	}
}

// Read implements io.Reader.
func (b *answer) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.end(err)
	}
	return n, err
}

// Close implements io.Closer.
func (b *answer) Close() error {
	err := b.ReadCloser.Close()
	b.end(io.EOF)
	return err
}

// end ends the answer, for whatever reason comes first. Where it broke off and nobody
// wanted that, the backend has failed.
func (b *answer) end(err error) {
	if b.ended.Swap(true) {
		return
	}
	a := b.attempt
	if err != io.EOF && !b.moved.Load() && !gaveUp(a.req) {
		a.t.health.failed(a.backend, err, a.watch.began, false)
	}
	a.t.moves.remove(a)
	a.release()
}

// discard lets go of an answer that the caller does not get. One that is short is
// read, so that its connection can serve again, but nobody waits for one that is slow.
func discard(resp *http.Response) {
	const (
		short = 4 << 10
		slow  = 250 * time.Millisecond
	)
	if resp == nil || resp.Body == nil { // as stand-ins of an http.RoundTripper leave it
		return
	}
	if resp.ContentLength <= short { // also -1, for one that does not say
		late := time.AfterFunc(slow, func() { resp.Body.Close() }) // which ends a Read
		_, _ = io.CopyN(io.Discard, resp.Body, short)
		late.Stop()
	}
	resp.Body.Close()
}
