package chashgrpc

import (
	"github.com/chash-go/chash"
	"google.golang.org/grpc/balancer"
)

// Stats returns what a policy's mapping says of itself.
func Stats(b balancer.Balancer) chash.Stats {
	p := b.(*policy)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mapping.(interface{ Stats() chash.Stats }).Stats()
}
