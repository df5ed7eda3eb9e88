package chashhttp

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var testRules = rules{threshold: 3, ratio: 0.5, out: time.Second, maxOut: 5 * time.Second, returnTime: 10 * time.Second}

// clock is a time that tests move.
type clock struct{ time.Time }

func (c *clock) after(d time.Duration) time.Time {
	c.Time = c.Add(d)
	return c.Time
}

func newClock() *clock { return &clock{time.Unix(1e9, 0)} }

func TestRecord_Row(t *testing.T) {
	t.Parallel()
	c, r := newClock(), new(record)
	fail := func(d time.Duration) bool {
		mark, _ := r.fail(c.after(d), c.Time, true, &testRules)
		return mark
	}
	require.False(t, fail(0))
	require.False(t, fail(time.Second))
	r.pass(c.after(0), &testRules)
	require.False(t, fail(0))
	require.False(t, fail(rowTime))
	require.False(t, fail(rowTime+1), "more than a minute after the one before")
	require.False(t, fail(0))
	require.True(t, fail(0))
}

func TestRecord_Ratio(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		results string // . passes, x fails, e fails early; one every tenth of a second
		want    int    // the result after which it is marked, 0 for never
	}{
		"every second":              {"x.x.x.x.x.x", 11},
		"below the share":           {"x..x..x..x..x..x..x..x", 0},
		"a quiet beginning":         {"......................x.x.x.x.x.x", 33},
		"two of three, in pairs":    {"xx.xx.xx.xx.", 10},
		"early failures":            {"e.e.e.e.e.e.e.e.e.e.e.e", 0},
		"in a row":                  {"..xxx", 5},
		"too few results":           {"xx.xx.xx", 0},
		"early ones are in the row": {"xex", 3},
	} {
		c, r, marked := newClock(), new(record), 0
		for i, result := range test.results {
			now := c.after(time.Second / 10)
			if result == '.' {
				r.pass(now, &testRules)
				continue
			}
			if mark, _ := r.fail(now, now, result == 'e', &testRules); mark && marked == 0 {
				marked = i + 1
			}
		}
		require.Equal(t, test.want, marked, name)
	}
}

func TestRecord_BackOff(t *testing.T) {
	t.Parallel()
	c, r := newClock(), new(record)
	flap := func(healthy time.Duration) time.Duration {
		wait := r.eject(c.after(healthy), 0, &testRules)
		r.restore(c.after(wait), true)
		return wait
	}
	for _, want := range []time.Duration{1, 2, 3, 4, 5, 5, 5} {
		require.Equal(t, want*time.Second, flap(0))
	}
	require.Equal(t, 5*time.Second, flap(9*time.Second), "no good behaviour yet")
	require.Equal(t, 4*time.Second, flap(50*time.Second), "eight times out, five are forgiven")
	require.Equal(t, time.Second, flap(1000*time.Second), "all are")
	require.Equal(t, 2*time.Second, flap(0))
	require.Equal(t, 3*time.Second+3*time.Second/5, r.eject(c.Time, 1, &testRules), "a fifth by chance")
	require.Equal(t, 3*time.Second, r.eject(c.Time, 0, &testRules), "one that is out is not counted again")
}

// A look at whether there is anything to remember forgives nothing by itself.
func TestRecord_IdleChangesNothing(t *testing.T) {
	t.Parallel()
	c := newClock()
	r := &record{times: 2, since: c.Time, last: c.Time}
	slow := testRules
	slow.out = 10 * time.Second
	now := c.after(forgiving*slow.out + time.Second) // one is forgiven
	for range 3 {
		require.False(t, r.idle(now, &slow))
	}
	require.True(t, r.idle(c.after(forgiving*slow.out), &slow), "both are")
}

// Flapping for an hour is seldom in: what the back-off is for.
func TestRecord_FlappingIsSeldomIn(t *testing.T) {
	t.Parallel()
	c, r, in := newClock(), new(record), 0
	rules := rules{threshold: 1, ratio: 1, out: time.Second, maxOut: time.Minute, returnTime: time.Second}
	for end := c.Add(time.Hour); c.Before(end); in++ {
		r.restore(c.after(r.eject(c.Time, 0.5, &rules)), true)
	}
	require.Less(t, in, 130)
}

func TestRecord_Return(t *testing.T) {
	t.Parallel()
	c, r := newClock(), new(record)
	admit := func() bool {
		admitted, _ := r.admit(c.Time, &testRules)
		return admitted
	}
	require.True(t, admit(), "one that was never out has no guests")
	r.eject(c.Time, 0, &testRules)
	r.restore(c.after(time.Second), true)
	began := c.Time
	require.True(t, admit())
	require.False(t, admit(), "one at a time")
	r.leave()
	r.pass(c.Time, &testRules)
	require.True(t, admit())
	require.True(t, admit())
	require.False(t, admit(), "two at a time after a success")

	mark, _ := r.fail(c.Time, began.Add(-1), false, &testRules)
	require.False(t, mark, "it began before the return")
	mark, _ = r.fail(c.Time, c.Time, false, &testRules)
	require.True(t, mark, "the first failure of a return")
	r.eject(c.Time, 0, &testRules)
	mark, out := r.fail(c.Time, c.Time, false, &testRules)
	require.False(t, mark)
	require.True(t, out)

	r.restore(c.after(time.Second), true)
	for range returned {
		require.True(t, r.watched(c.Time, &testRules))
		r.pass(c.Time, &testRules)
	}
	for range 100 {
		require.True(t, admit(), "it is back")
	}
	mark, _ = r.fail(c.Time, c.Time, false, &testRules)
	require.False(t, mark)

	r.eject(c.Time, 0, &testRules)
	r.restore(c.after(time.Second), true)
	c.after(testRules.returnTime)
	require.True(t, admit())
	require.True(t, admit(), "the time of the return is over")
	require.False(t, r.watched(c.Time, &testRules))

	r.eject(c.Time, 0, &testRules)
	r.restore(c.Time, false)
	require.True(t, admit())
	require.True(t, admit(), "somebody else has brought it back")
}

// A record is forgotten when there is nothing to remember.
func TestRecords_Sweep(t *testing.T) {
	t.Parallel()
	c, r := newClock(), newRecords(testRules)
	for i := range 1000 {
		server := address{host: string(rune('a' + i))}
		rec := r.of(server, c.Time)
		rec.fail(c.Time, c.Time, false, &testRules)
		c.after(time.Minute)
	}
	require.Less(t, len(r.servers), 70)
	out := r.of(address{host: "out"}, c.Time)
	out.eject(c.Time, 0, &testRules)
	r.sweep(c.after(24 * time.Hour))
	require.Len(t, r.servers, 1)
}
