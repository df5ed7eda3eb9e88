package chashhttp

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
)

// A Key of a body reads the beginning of it, and puts it back: the backend gets the
// whole. It waits until so much has come. Where the request has no GetBody, it puts
// another Body into the request that is handed to it, which a Transport makes a copy for;
// whoever calls such a Key sends on that very request.

// BodyPrefix returns a Key that is the first n bytes of the body, or all if there are
// fewer. A request without a body has no key. For an n of 0 or below, no request has
// one.
func BodyPrefix(n int) Key {
	return func(r *http.Request) string { return string(peekBody(r, n)) }
}

// BodyField returns a Key that is a field of the body, a JSON object: a text, a
// number as it is written, true or false. Dots lead into objects, as in "user.id". At
// most the first limit bytes of the body are read. If the field is not within them,
// or they are not JSON, the request has no key. Of fields with one name, the first
// counts. Keep the limit small: that much of each request's body stays in memory
// until it is sent.
func BodyField(field string, limit int) Key {
	names := strings.Split(field, ".")
	return func(r *http.Request) string {
		start := peekBody(r, limit)
		if len(start) == 0 {
			return ""
		}
		decoder := json.NewDecoder(bytes.NewReader(start))
		decoder.UseNumber()
		return findField(decoder, names, len(start) == limit)
	}
}

// findField reads a value, and returns the scalar to which names lead in it. Where the
// text is cut off, a number at its end may have been.
func findField(d *json.Decoder, names []string, cut bool) string {
	for depth, name := range names {
		if open, err := d.Token(); err != nil || open != json.Delim('{') {
			return ""
		}
		if !enterField(d, name) {
			return ""
		}
		if depth == len(names)-1 {
			return scalar(d, cut)
		}
	}
	return ""
}

// enterField reads the fields of an object up to the value of one.
func enterField(d *json.Decoder, name string) bool {
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return false
		}
		if key == name {
			return true
		}
		if !skipValue(d) {
			return false
		}
	}
	return false
}

// skipValue reads one value.
func skipValue(d *json.Decoder) bool {
	for depth := 0; ; {
		token, err := d.Token()
		if err != nil {
			return false
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return true
		}
	}
}

// scalar reads a value, and returns it if it is not an object, an array or null.
func scalar(d *json.Decoder, cut bool) string {
	token, err := d.Token()
	if err != nil {
		return ""
	}
	switch value := token.(type) {
	case string:
		return value
	case bool:
		if value {
			return "true"
		}
		return "false"
	case json.Number:
		if cut && !d.More() { // more digits may follow
			if rest, _ := io.ReadAll(d.Buffered()); len(bytes.TrimSpace(rest)) == 0 {
				return ""
			}
		}
		return value.String()
	}
	return ""
}

// peekBody returns the first n bytes of a request's body, fewer if there are fewer.
func peekBody(r *http.Request, n int) []byte {
	switch {
	case n <= 0 || r.Body == nil || r.Body == http.NoBody:
		return nil
	case r.GetBody != nil:
		fresh, err := r.GetBody()
		if err != nil {
			return nil
		}
		defer fresh.Close()
		start, _ := io.ReadAll(io.LimitReader(fresh, int64(n)))
		return start
	}
	peeked, ok := r.Body.(*peekedBody)
	if !ok {
		peeked = &peekedBody{source: r.Body}
		r.Body = peeked
	}
	return peeked.peek(r.Context(), n)
}

// A peekedBody is a body of which the beginning was read, and is read again from memory.
type peekedBody struct {
	source io.ReadCloser
	start  []byte // what was read of source and not yet of the body
	err    error  // after that
}

// peek returns the first n bytes, or what there is. If the request is canceled, nobody
// waits for a body that is slow to come, and nothing more is read of it.
func (b *peekedBody) peek(ctx context.Context, n int) []byte {
	missing := n - len(b.start)
	if missing <= 0 || b.err != nil {
		return b.start[:min(n, len(b.start))]
	}
	read := make(chan []byte, 1)
	var err error
	go func() {
		var more []byte
		more, err = io.ReadAll(io.LimitReader(b.source, int64(missing)))
		if err == nil && len(more) < missing {
			err = io.EOF
		}
		read <- more
	}()
	select {
	case more := <-read:
		b.start, b.err = append(b.start, more...), err
	case <-ctx.Done():
		b.err = context.Cause(ctx)
	}
	return b.start[:min(n, len(b.start))]
}

// Read implements io.Reader.
func (b *peekedBody) Read(p []byte) (int, error) {
	if len(b.start) > 0 {
		n := copy(p, b.start)
		b.start = b.start[n:]
		return n, nil
	}
	if b.err != nil {
		return 0, b.err
	}
	return b.source.Read(p)
}

// Close implements io.Closer.
func (b *peekedBody) Close() error { return b.source.Close() }
