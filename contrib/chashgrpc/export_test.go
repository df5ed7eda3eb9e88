package chashgrpc

import (
	"github.com/chash-go/chash"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
)

// Stats returns what a policy's mapping says of itself.
func Stats(b balancer.Balancer) chash.Stats {
	p := b.(*policy)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mapping.Stats()
}

// SetPicker makes all endpoints of a policy READY with a picker of the test's.
func SetPicker(b balancer.Balancer, picker balancer.Picker) {
	p := b.(*policy)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.endpoints {
		e.link.Store(newReadyLink(picker))
	}
}

// Aggregate returns the state of a channel whose endpoints have those states.
func Aggregate(states ...connectivity.State) connectivity.State {
	var count counts
	for _, s := range states {
		count[s]++
	}
	return count.aggregate()
}

// Targets returns the number of targets that have a Handle.
func Targets() int {
	registry.mu.Lock()
	defer registry.mu.Unlock()
	return len(registry.at)
}

// Patience is until when an RPC waits for a connection.
var Patience = patience

// Unlimited is a connectWait without a limit.
const Unlimited = unlimited
