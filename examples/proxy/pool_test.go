package main

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashhttp"
)

// The transport marks a backend in the table and tells the pool afterwards. Whatever
// happens in between, the checks find out at last, and a backend that passes them gets
// its keys back.
func TestPool_Fell(t *testing.T) {
	for name, test := range map[string]struct {
		between func(t *testing.T, p *pool, b *backend)
		want    chash.State // when the pool has been told
	}{
		"nothing": {func(*testing.T, *pool, *backend) {}, chash.Unhealthy},
		"a check": {func(_ *testing.T, p *pool, b *backend) { p.checked(b, true) }, chash.Unhealthy},
		"another of that name": {func(t *testing.T, p *pool, b *backend) {
			replace(t, p, b)
		}, chash.Healthy},
		// The transport looked before, and marked after.
		"another of that name, which was marked": {func(t *testing.T, p *pool, b *backend) {
			replace(t, p, b)
			require.NoError(t, p.table.SetState("b", chash.Unhealthy))
		}, chash.Unhealthy},
		"a drain": {func(t *testing.T, p *pool, _ *backend) { require.NoError(t, p.drain("b")) }, chash.Draining},
	} {
		t.Run(name, func(t *testing.T) {
			p := newTestPool(t)
			b := p.backends["b"]

			marked := chashhttp.Change{Name: "b", URL: b.url, State: chash.Unhealthy}
			require.NoError(t, p.table.SetState("b", chash.Unhealthy))
			test.between(t, p, b)
			p.fell(marked)
			require.Equal(t, test.want, stateOf(p, "b"))

			for range p.up {
				p.checked(p.backends["b"], true)
			}
			if test.want == chash.Draining {
				require.NoError(t, p.undrain("b"))
			}
			require.Equal(t, chash.Healthy, stateOf(p, "b"))
		})
	}
}

// newTestPool returns a pool of two backends, a and b, that have passed their checks.
func newTestPool(t *testing.T) *pool {
	t.Helper()
	c, err := parseFlags([]string{"-backend", "a=http://a", "-backend", "b=http://b"}, nil)
	require.NoError(t, err)
	p, err := newPool(c, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	for _, b := range p.list() {
		p.checked(b, true)
	}
	return p
}

// replace removes a backend and adds one that is like it and passed its first check.
func replace(t *testing.T, p *pool, b *backend) {
	t.Helper()
	require.NoError(t, p.remove(b.name))
	u := *b.url
	fresh := newBackend(spec{b.name, &u, 1})
	p.checked(fresh, true)
	require.NoError(t, p.add(fresh, 1))
}

func stateOf(p *pool, name string) chash.State {
	b, _ := p.table.Backend(name)
	return b.State
}
