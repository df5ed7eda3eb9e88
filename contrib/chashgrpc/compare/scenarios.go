package main

import (
	"errors"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/resolver"
)

// A scenario returns a count for each of its lines.
type scenario struct {
	lines []string
	run   func(c contestant, s scale) ([]int, error)
	long  bool // half a minute for each contestant: it is left out of a short run
}

var scenarios = []scenario{
	{lines: []string{"RPCs astray at start-up, one of 5 connections takes 0.3 s"}, run: startUp},
	{lines: []string{"RPCs astray after idleness"}, run: idleness},
	{lines: []string{"RPCs astray while servers end connections after 0.3 s (GOAWAY)", "RPCs failed meanwhile"}, run: aging},
	{lines: []string{"RPCs failed when one of 5 servers is killed (kill -9)", "RPCs astray of the other servers' keys"}, run: killed},
	{lines: []string{"RPCs failed of 30 in 30 s with 1 s each, their server is stopped (SIGSTOP)"}, run: stopped, long: true},
	{lines: []string{"RPCs failed of 40 with 1 s each, one of 5 servers is silent"}, run: silent},
	{lines: []string{"keys moved between 9 servers by a tenth that comes or goes"}, run: moved},
	{lines: []string{"keys moved by endpoints whose two addresses change places"}, run: swapped},
	{lines: []string{"connections for RPCs of one key, of 40 servers"}, run: connections},
}

// home returns the servers of the keys when all is well.
func home(l *lab, c contestant, all []resolver.Endpoint, keys []string) ([]string, error) {
	client, err := l.connect(c, all)
	if err != nil {
		return nil, err
	}
	defer client.close()
	return client.settled(keys)
}

// differ counts the keys whose servers differ, of RPCs that did not fail.
func differ(got, want []string) (n int) {
	for i, name := range got {
		if name != "" && name != want[i] {
			n++
		}
	}
	return n
}

func failed(servers []string) (n int) {
	for _, name := range servers {
		if name == "" {
			n++
		}
	}
	return n
}

func startUp(c contestant, s scale) ([]int, error) {
	l, err := newLab(names(5))
	if err != nil {
		return nil, err
	}
	defer l.close()
	all, keys := endpoints(names(5)...), keys(s.keys)
	want, err := home(l, c, all, keys)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.delay["server-2"] = 300 * time.Millisecond
	l.mu.Unlock()
	client, err := l.connect(c, all)
	if err != nil {
		return nil, err
	}
	defer client.close()
	return []int{differ(client.callAll(keys, patience), want)}, nil
}

func idleness(c contestant, s scale) ([]int, error) {
	l, err := newLab(names(5))
	if err != nil {
		return nil, err
	}
	defer l.close()
	all, keys := endpoints(names(5)...), keys(s.keys)
	client, err := l.connect(c, all, grpc.WithIdleTimeout(50*time.Millisecond))
	if err != nil {
		return nil, err
	}
	defer client.close()
	want, err := client.settled(keys)
	if err != nil {
		return nil, err
	}
	for began := time.Now(); client.conn.GetState() != connectivity.Idle; time.Sleep(time.Millisecond) {
		if time.Since(began) > patience {
			return nil, errors.New("the channel does not become idle")
		}
	}
	return []int{differ(client.callAll(keys, patience), want)}, nil
}

func aging(c contestant, s scale) ([]int, error) {
	l, err := newLab(names(5), grpc.KeepaliveParams(keepalive.ServerParameters{
		MaxConnectionAge: 300 * time.Millisecond, MaxConnectionAgeGrace: patience,
	}))
	if err != nil {
		return nil, err
	}
	defer l.close()
	client, err := l.connect(c, endpoints(names(5)...))
	if err != nil {
		return nil, err
	}
	defer client.close()
	keys := keys(s.keys)
	want, err := majority(client, keys)
	if err != nil {
		return nil, err
	}
	counts := []int{0, 0}
	for began := time.Now(); time.Since(began) < s.aging; {
		got := client.callAll(keys, patience)
		counts[0] += differ(got, want)
		counts[1] += failed(got)
	}
	return counts, nil
}

// majority returns the server that each key has most of the time.
func majority(client *client, keys []string) ([]string, error) {
	seen := make([]map[string]int, len(keys))
	for range 9 {
		for i, name := range client.callAll(keys, patience) {
			if seen[i] == nil {
				seen[i] = map[string]int{}
			}
			seen[i][name]++
		}
	}
	want := make([]string, len(keys))
	for i := range keys {
		for name, n := range seen[i] {
			if n > 9/2 {
				want[i] = name
			}
		}
	}
	if slices.Contains(want, "") {
		return nil, errors.New("a key has no server most of the time")
	}
	return want, nil
}

func silent(c contestant, _ scale) ([]int, error) {
	l, err := newLab(names(5))
	if err != nil {
		return nil, err
	}
	defer l.close()
	if err := l.silence("server-2"); err != nil {
		return nil, err
	}
	client, err := l.connect(c, endpoints(names(5)...))
	if err != nil {
		return nil, err
	}
	defer client.close()
	return []int{failed(client.callAll(keys(40), time.Second))}, nil
}

func moved(c contestant, s scale) ([]int, error) {
	l, err := newLab(names(10))
	if err != nil {
		return nil, err
	}
	defer l.close()
	keys := keys(s.keys)
	ten, err := home(l, c, endpoints(names(10)...), keys)
	if err != nil {
		return nil, err
	}
	nine, err := home(l, c, endpoints(names(9)...), keys)
	if err != nil {
		return nil, err
	}
	others := 0
	for i := range keys {
		if ten[i] != nine[i] && ten[i] != "server-9" {
			others++
		}
	}
	return []int{others}, nil
}

func swapped(c contestant, s scale) ([]int, error) {
	l, err := newLab(names(10))
	if err != nil {
		return nil, err
	}
	defer l.close()
	keys := keys(s.keys)
	var pairs [2][]resolver.Endpoint
	for i, name := range names(10) {
		l.address[name+"-other"] = l.address[name]
		a, b := resolver.Address{Addr: names(10)[i]}, resolver.Address{Addr: name + "-other"}
		pairs[0] = append(pairs[0], resolver.Endpoint{Addresses: []resolver.Address{a, b}})
		pairs[1] = append(pairs[1], resolver.Endpoint{Addresses: []resolver.Address{b, a}})
	}
	before, err := home(l, c, pairs[0], keys)
	if err != nil {
		return nil, err
	}
	after, err := home(l, c, pairs[1], keys)
	if err != nil {
		return nil, err
	}
	return []int{differ(after, before)}, nil
}

func connections(c contestant, _ scale) ([]int, error) {
	l, err := newLab(names(40))
	if err != nil {
		return nil, err
	}
	defer l.close()
	client, err := l.connect(c, endpoints(names(40)...))
	if err != nil {
		return nil, err
	}
	defer client.close()
	one := slices.Repeat([]string{"user-0"}, 200)
	// Those that are asked for first may be made last.
	for last := int64(-1); last != l.dialled.Load(); {
		last = l.dialled.Load()
		client.callAll(one, patience)
	}
	return []int{int(l.dialled.Load())}, nil
}
