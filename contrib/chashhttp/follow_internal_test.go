package chashhttp

import (
	"context"
	"math"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
)

// The time to the next list is Interval or, after failures, twice as long each time from Retry
// on, up to Interval; and it is a tenth shorter or longer.
func TestFollowOptions_Pause(t *testing.T) {
	o := FollowOptions{Interval: 30 * time.Second, Retry: time.Second}
	for failures, want := range []time.Duration{30, 1, 2, 4, 8, 16, 30, 30} {
		want *= time.Second
		require.Equal(t, want, o.pause(failures, 0.5))
		require.Equal(t, want-want/10, o.pause(failures, 0))
		require.Equal(t, want+want/10, o.pause(failures, 1))
	}
	require.Equal(t, 30*time.Second, o.pause(math.MaxInt, 0.5))
	o.Interval, o.Retry = math.MaxInt64, 1<<61
	require.Positive(t, o.pause(1000, 1))
	require.Positive(t, o.pause(0, 1))
	o = FollowOptions{Interval: time.Second, Retry: time.Minute}
	require.Equal(t, time.Second, o.pause(1, 0.5))
}

// Failures are counted in a row.
func TestFollower_Failures(t *testing.T) {
	table, err := chash.NewMaglev[*url.URL](nil)
	require.NoError(t, err)
	fails := false
	f := &Follower{table: table, opts: FollowOptions{Timeout: time.Minute}}
	f.source = SourceFunc(func(context.Context) ([]chash.Backend[*url.URL], error) {
		if fails {
			return nil, ErrNoAddress
		}
		return nil, nil
	})
	for _, want := range []int{0, 1, 2, 0, 1} {
		fails = want > 0
		require.Equal(t, fails, f.Refresh(t.Context()) != nil)
		require.Equal(t, want, f.failures)
	}
}
