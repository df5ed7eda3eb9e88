package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
)

// A channel stands in for gRPC's, so that a policy is measured without it. Connections
// are READY as soon as they are asked for, if at all.
type channel struct {
	balancer.ClientConn
	policy   balancer.Balancer
	builder  balancer.Builder
	config   string
	connects bool

	mu    sync.Mutex
	state balancer.State
}

type conn struct {
	balancer.SubConn
	channel  *channel
	listener func(balancer.SubConnState)
}

func newChannel(c contestant, connects bool) *channel {
	ch := &channel{builder: balancer.Get(c.policy), config: c.config, connects: connects}
	ch.policy = ch.builder.Build(ch, balancer.BuildOptions{})
	return ch
}

func (c *channel) update(endpoints []resolver.Endpoint) error {
	config, err := c.builder.(balancer.ConfigParser).ParseConfig([]byte(c.config))
	if err != nil {
		return err
	}
	return c.policy.UpdateClientConnState(balancer.ClientConnState{
		ResolverState: resolver.State{Endpoints: endpoints}, BalancerConfig: config,
	})
}

func (c *channel) NewSubConn(_ []resolver.Address, opts balancer.NewSubConnOptions) (balancer.SubConn, error) {
	return &conn{channel: c, listener: opts.StateListener}, nil
}

func (c *channel) UpdateState(s balancer.State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state = s
}

func (c *channel) picker() balancer.Picker {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.Picker
}

func (c *channel) ResolveNow(resolver.ResolveNowOptions) {}

func (sc *conn) Connect() {
	if sc.channel.connects {
		go func() {
			sc.listener(balancer.SubConnState{ConnectivityState: connectivity.Connecting})
			sc.listener(balancer.SubConnState{ConnectivityState: connectivity.Ready})
		}()
	}
}

func (sc *conn) Shutdown() {}

func (sc *conn) RegisterHealthListener(f func(balancer.SubConnState)) {
	go f(balancer.SubConnState{ConnectivityState: connectivity.Ready})
}

// measure returns the rows of times.
func measure(s scale) ([]row, error) {
	var picks, first, change [][]time.Duration
	for range contestants {
		picks, first, change = append(picks, nil), append(first, nil), append(change, nil)
	}
	for range s.rounds {
		for i, c := range contestants {
			pick, err := timePick(c)
			if err != nil {
				return nil, err
			}
			one, two, err := timeUpdates(c, s.updates)
			if err != nil {
				return nil, err
			}
			picks[i], first[i], change[i] = append(picks[i], pick), append(first[i], one), append(change[i], two)
		}
	}
	rows := []row{
		{what: "time of a pick, 10 servers, key in the metadata"},
		{what: fmt.Sprintf("time of the first update, %d endpoints", s.updates)},
		{what: fmt.Sprintf("time of an update that removes one of %d", s.updates)},
	}
	for i, times := range [][][]time.Duration{picks, first, change} {
		for _, t := range times {
			rows[i].values = append(rows[i].values, rounded(slices.Min(t)))
		}
	}
	return rows, nil
}

func rounded(d time.Duration) string {
	if d < 10*time.Microsecond {
		return strconv.Itoa(int(d)) + " ns"
	}
	return strconv.FormatFloat(d.Seconds()*1000, 'f', 1, 64) + " ms"
}

// timePick returns the time of one pick of many.
func timePick(c contestant) (time.Duration, error) {
	ch := newChannel(c, true)
	defer ch.policy.Close()
	if err := ch.update(endpoints(names(10)...)); err != nil {
		return 0, err
	}
	infos := make([]balancer.PickInfo, 1024)
	for i, key := range keys(len(infos)) {
		ctx := metadata.AppendToOutgoingContext(context.Background(), "x-key", key)
		infos[i] = balancer.PickInfo{Ctx: ctx}
	}
	for began := time.Now(); !allPicked(ch, infos); time.Sleep(time.Millisecond) {
		if time.Since(began) > patience {
			return 0, fmt.Errorf("%s: picks are not ready", c.title)
		}
	}
	const picks = 1 << 17
	picker, began := ch.picker(), time.Now()
	for i := range picks {
		if _, err := picker.Pick(infos[i%len(infos)]); err != nil {
			return 0, err
		}
	}
	return time.Since(began) / picks, nil
}

func allPicked(ch *channel, infos []balancer.PickInfo) bool {
	all := true
	for _, info := range infos {
		if _, err := ch.picker().Pick(info); err != nil {
			all = false
		}
	}
	return all
}

// timeUpdates returns the times of the first update of so many endpoints, and of
// another one without the last.
func timeUpdates(c contestant, n int) (first, change time.Duration, err error) {
	ch := newChannel(c, false)
	defer ch.policy.Close()
	all := endpoints(names(n)...)
	began := time.Now()
	if err := ch.update(all); err != nil {
		return 0, 0, err
	}
	first = time.Since(began)
	began = time.Now()
	err = ch.update(all[:n-1])
	return first, time.Since(began), err
}
