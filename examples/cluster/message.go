package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"
)

const (
	askTimeout  = 500 * time.Millisecond // for a node's status
	peerTimeout = 3 * time.Second        // for a message; sooner a silent holder is not dropped
	bulkTimeout = 10 * time.Second       // for one with ranges

	toHeader = "Chash-To" // the birth of the peer that a message is for, if only for that

	askPath   = "/internal/ask"   // an askRequest, for an askAnswer
	storePath = "/internal/store" // a storeRequest
	fetchPath = "/internal/fetch" // a fetchRequest, for entries
	joinPath  = "/internal/join"  // a joinRequest
)

var (
	errRefused = errors.New("refused")
	errGone    = errors.New("that run of the node is over")
)

// messages are in MessagePack, which keeps any string as it is.
var messages = &codec.MsgpackHandle{WriteExt: true}

// all sends a message to peers, all at once, and returns when all have answered. The
// node itself serves it.
func all[In, Out any](ctx context.Context, n *node, to []peer, path string, in In, serve func(In) (Out, error)) ([]Out, error) {
	ctx, cancel := context.WithTimeout(ctx, peerTimeout)
	defer cancel()
	answers, errs := make([]Out, len(to)), make([]error, len(to))
	var calls sync.WaitGroup
	for i, p := range to {
		if p == n.self {
			answers[i], errs[i] = serve(in)
		} else {
			calls.Go(func() { answers[i], errs[i] = call[Out](ctx, n, p, path, in) })
		}
	}
	calls.Wait()
	return answers, errors.Join(errs...)
}

// call sends a message to a peer.
func call[Out any](ctx context.Context, n *node, to peer, path string, in any) (Out, error) {
	out, err := post[Out](ctx, n, to.addr, path, to.birth, in)
	if err != nil {
		err = fmt.Errorf("%s: %w", to.name, err)
	}
	return out, err
}

// post sends a message to an address.
func post[Out any](ctx context.Context, n *node, address, path, to string, in any) (out Out, err error) {
	var body []byte
	if err := codec.NewEncoderBytes(&body, messages).Encode(in); err != nil {
		return out, err
	}
	code, answer, err := do(ctx, n.client, http.MethodPost, "http://"+address+path, http.Header{toHeader: {to}}, body)
	switch {
	case err != nil:
		return out, err
	case code == http.StatusOK:
		err = codec.NewDecoderBytes(answer, messages).Decode(&out)
	case code == http.StatusForbidden:
		err = fmt.Errorf("%w: %s", errRefused, bytes.TrimSpace(answer))
	default:
		err = fmt.Errorf("%d %s", code, bytes.TrimSpace(answer))
	}
	return out, err
}

// handle returns the handler of a message.
func handle[In, Out any](n *node, serve func(In) (Out, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if to := r.Header.Get(toHeader); to != "" && to != n.self.birth {
			http.Error(w, errGone.Error(), http.StatusGone)
			return
		}
		var in In
		if err := codec.NewDecoder(r.Body, messages).Decode(&in); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		out, err := serve(in)
		switch {
		case errors.Is(err, errRefused):
			http.Error(w, err.Error(), http.StatusForbidden)
		case err != nil:
			http.Error(w, err.Error(), http.StatusConflict)
		default:
			_ = codec.NewEncoder(w, messages).Encode(out) // fails only if the other node has gone
		}
	}
}

// ask returns the status of a peer.
func (n *node) ask(ctx context.Context, p peer) (s status, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	_, body, err := do(ctx, n.client, http.MethodGet, "http://"+p.addr+"/status", nil, nil)
	if err == nil {
		err = json.Unmarshal(body, &s)
	}
	if err == nil && s.ID != p.id() {
		err = fmt.Errorf("%s: %w", p.name, errGone)
	}
	return s, err
}

// do sends a request and reads the whole answer. The header may be nil.
func do(ctx context.Context, client *http.Client, method, url string, header http.Header, body []byte) (code int, answer []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header = header
	resp, err := client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}
