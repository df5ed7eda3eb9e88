package main

import (
	"bytes"
	"context"
	"encoding/gob"
	"fmt"
	"net/http"

	"github.com/chash-go/chash"
)

const (
	ringHeader = "Chash-Ring" // the ring by which a node sends a message to another

	pullPath  = "/internal/pull"  // a pullRequest, for a pullAnswer
	applyPath = "/internal/apply" // entries, for the latest version that their keys have then
)

// The messages between nodes. They are served while the view is that of the sender,
// and does not change.
type (
	pullRequest struct {
		Ranges   []chash.Range
		KeysOnly bool // and versions, without the values
	}
	pullAnswer struct {
		Entries []entry
		Missing []piece // of which the asked node may not have everything
	}
)

// call sends a message to another node and reads its answer. Messages are gobs,
// which keep any string as it is. They carry the sender's view, and are refused by
// a node that has another one.
func (n *node) call(ctx context.Context, client *http.Client, v *view, name, path string, in, out any) error {
	to, found := v.ring.Backend(name)
	if !found {
		return fmt.Errorf("%w called %q", errNoNode, name)
	}
	var body bytes.Buffer
	if err := gob.NewEncoder(&body).Encode(in); err != nil {
		return err
	}
	status, answer, err := do(ctx, client, http.MethodPost, "http://"+to.Value.addr+path, http.Header{ringHeader: {v.id}}, body.Bytes())
	if err != nil {
		return err
	}
	switch status {
	case http.StatusOK:
		return gob.NewDecoder(bytes.NewReader(answer)).Decode(out)
	case http.StatusConflict:
		return fmt.Errorf("%w: %s", errOtherView, name)
	}
	return fmt.Errorf("%s: %d %s", name, status, bytes.TrimSpace(answer))
}

// handle returns the handler of a message. The view does not change while serve
// runs, so what that does is done by a view that both nodes have.
func handle[In, Out any](n *node, serve func(In) Out) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in In
		if err := gob.NewDecoder(r.Body).Decode(&in); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		n.mu.RLock()
		agreed := n.view.id == r.Header.Get(ringHeader)
		var out Out
		if agreed {
			out = serve(in)
		}
		n.mu.RUnlock()
		if !agreed {
			http.Error(w, errOtherView.Error(), http.StatusConflict)
			return
		}
		_ = gob.NewEncoder(w).Encode(out) // fails only if the other node has gone
	}
}
