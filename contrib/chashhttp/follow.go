package chashhttp

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/url"
	"sync"
	"time"

	"github.com/chash-go/chash"
)

// The defaults of FollowOptions.
const (
	DefaultFollowInterval = 30 * time.Second
	DefaultFollowRetry    = time.Second
	DefaultFollowTimeout  = 10 * time.Second
)

// FollowOptions are the options of a Follower. Zero means the default. No field may
// be below 0.
type FollowOptions struct {
	// Interval is the time from one list to the next, up to a tenth shorter or longer by
	// chance, so that processes do not ask in step. net.Resolver does not say how long an
	// answer of DNS is valid: take the TTL of the records. The default is
	// DefaultFollowInterval.
	Interval time.Duration

	// Retry is the time after a failure, twice as long after the next in a row, and so on
	// up to Interval. The default is DefaultFollowRetry.
	Retry time.Duration

	// Timeout is how long a Source has for a list. The default is DefaultFollowTimeout.
	Timeout time.Duration

	// OnResult, if not nil, is called after each list with what Refresh returns, by one
	// goroutine at a time. It must not call Refresh or Close.
	OnResult func(err error)
}

// A ListTable is the part of a *chash.Maglev[*url.URL] or a *chash.Ring[*url.URL]
// that a Follower uses.
type ListTable interface {
	Backend(name string) (chash.Backend[*url.URL], bool)
	Reconcile(backends []chash.Backend[*url.URL]) error
}

// A Follower keeps the backends of a table equal to the list of a Source, by the
// table's Reconcile. Backends that stay keep their health. If there is no list, or a
// backend in it has no address, the table keeps the last good list. Make a Follower
// with Follow, and Close it. It is safe for concurrent use, and must not be copied.
type Follower struct {
	table  ListTable
	source Source
	opts   FollowOptions
	cancel context.CancelFunc
	done   chan struct{}

	mu       sync.Mutex // held while a list is asked for and taken over
	failures int        // in a row
}

// Follow gives the table the first list, and then one list after the other until
// Close. If there is no first list, it returns the error of Refresh, and the table
// stays as it was. Other errors are ErrNilTable, ErrNilSource and ErrInvalidOption.
func Follow(ctx context.Context, table ListTable, source Source, opts FollowOptions) (*Follower, error) {
	switch {
	case isNil(table):
		return nil, ErrNilTable
	case isNil(source):
		return nil, ErrNilSource
	}
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	f := &Follower{table: table, source: source, opts: opts, done: make(chan struct{})}
	if err := f.Refresh(ctx); err != nil {
		return nil, err
	}
	life, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	go f.run(life)
	return f, nil
}

func (o FollowOptions) withDefaults() (FollowOptions, error) {
	for _, d := range []struct {
		name  string
		value *time.Duration
		usual time.Duration
	}{
		{"Interval", &o.Interval, DefaultFollowInterval},
		{"Retry", &o.Retry, DefaultFollowRetry},
		{"Timeout", &o.Timeout, DefaultFollowTimeout},
	} {
		switch {
		case *d.value < 0:
			return o, fmt.Errorf("%w: %s is %v, and must be above 0", ErrInvalidOption, d.name, *d.value)
		case *d.value == 0:
			*d.value = d.usual
		}
	}
	return o, nil
}

// run asks for lists until ctx ends.
func (f *Follower) run(ctx context.Context) {
	defer close(f.done)
	for {
		f.mu.Lock()
		wait := f.opts.pause(f.failures, rand.Float64())
		f.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
			_ = f.Refresh(ctx) // OnResult is told
		}
	}
}

// pause returns the time to the next list after some failures in a row. chance is from 0 to 1.
func (o FollowOptions) pause(failures int, chance float64) time.Duration {
	const longest = math.MaxInt64 / 4 // so that nothing overflows
	most := min(o.Interval, longest)
	wait := most
	if failures > 0 {
		wait = min(o.Retry, most)
		for ; failures > 1 && wait < most; failures-- {
			wait = min(2*wait, most)
		}
	}
	return wait + time.Duration((2*chance-1)*float64(wait)/10)
}

// Refresh gives the table a new list now, for example when a file has changed. If it
// fails, the table stays as it was. The error is ErrSource with the error of the
// Source, a BackendError with ErrNoAddress for a backend without an address, or an
// error of Reconcile. Refresh waits for a list that is being asked for. It works
// after Close too.
func (f *Follower) Refresh(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.take(ctx)
	if err != nil {
		f.failures++
	} else {
		f.failures = 0
	}
	if f.opts.OnResult != nil {
		f.opts.OnResult(err)
	}
	return err
}

// take takes a list over. The caller holds mu.
func (f *Follower) take(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, f.opts.Timeout)
	defer cancel()
	list, err := f.source.List(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSource, err)
	}
	list = append([]chash.Backend[*url.URL](nil), list...) // which is the source's
	for i := range list {
		b := &list[i]
		if !reachable(b.Value) {
			return &BackendError{b.Name, b.Value, ErrNoAddress}
		}
		// The URL that the table has stays in it if it says the same, so that a list without
		// news changes nothing.
		if old, found := f.table.Backend(b.Name); found && old.Value != nil && old.Value.String() == b.Value.String() {
			b.Value = old.Value
		}
	}
	return f.table.Reconcile(list)
}

// Close ends the lists. It interrupts the list that is being asked for and waits for
// it. The table keeps the last list. Close can be called more than once. The error is
// always nil.
func (f *Follower) Close() error {
	f.cancel()
	<-f.done
	return nil
}
