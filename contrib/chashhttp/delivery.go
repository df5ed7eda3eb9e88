package chashhttp

import "net/http"

// A delivery is one request on its way through its attempts.
type delivery struct {
	t      *Transport
	req    *http.Request
	body   body
	key    string
	route  route
	blamed bool // a backend has been blamed for what became of the request once sent
}

// run sends the request until it is answered or may not be sent once more.
func (d *delivery) run() (*http.Response, error) {
	at, err := d.route.next()
	if err != nil {
		d.body.settle()
		return nil, err
	}
	fresh := false // no connection is taken that may be stale
	for sent := 1; ; {
		a, o := d.t.send(d.req, &d.body, at.backend, fresh || sent == d.t.maxAttempts)
		a.key = d.key
		if o.unused && d.body.rewind() == nil {
			d.t.resent.Add(1)
			fresh = true
			a.release()
			continue
		}
		d.account(a, &at, o)
		if !o.again || sent == d.t.maxAttempts || !d.advance(&at) {
			d.body.settle()
			return d.result(a, &at, o)
		}
		sent++
		discard(o.resp)
		a.release()
	}
}

// account takes in what an outcome says of the health of its backend. Where the request
// was sent, it says so once: a request that no backend survives would else be counted
// against each that it meets.
func (d *delivery) account(a *attempt, at *hop, o outcome) {
	switch {
	case o.err == nil && at.marked:
		d.t.health.revive(a.backend)
	case o.err == nil:
		d.t.health.passed(a.backend)
	case o.failed && o.unsent:
		d.t.health.failed(a.backend, o.err, a.watch.began, false)
	case (o.failed || o.late) && !d.blamed:
		d.blamed = true
		d.t.health.failed(a.backend, o.err, a.watch.began, o.late)
	}
}

// advance prepares the attempt at the next backend, and reports whether there is one.
func (d *delivery) advance(at *hop) bool {
	next, err := d.route.next()
	if err != nil {
		return false
	}
	if !d.t.spend() || d.body.rewind() != nil {
		next.end()
		return false
	}
	d.t.retries.Add(1)
	at.end()
	*at = next
	return true
}

// result returns what the caller gets.
func (d *delivery) result(a *attempt, at *hop, o outcome) (*http.Response, error) {
	if o.resp != nil {
		at.leave()
		a.lease = at.lease
		return a.hand(o.resp), nil
	}
	at.end()
	a.release()
	return nil, &BackendError{d.t.health.names.of(a.backend), a.backend, o.err}
}

// spend takes one retry out of the budget and reports whether it was there.
func (t *Transport) spend() bool {
	if !t.budget.withdraw() {
		t.overBudget.Add(1)
		return false
	}
	return true
}
