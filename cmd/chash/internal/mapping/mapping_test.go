package mapping

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
)

func specs() []Spec {
	unlimited, one := Slack(math.Inf(1)), Slack(0.01)
	return []Spec{
		{Structure: Maglev, TableSize: 1009},
		{Structure: Maglev, TableSize: 1009, Slack: &one},
		{Structure: Maglev, TableSize: 1009, Slack: &unlimited, Seed: 3},
		{Structure: Ring, Replicas: 20},
		{Structure: Ring, Replicas: 40, Hash: HashXX},
	}
}

func randomBackends(random *rand.Rand) []Backend {
	backends := make([]Backend, 2+random.IntN(20))
	for i := range backends {
		backends[i] = Backend{Name: fmt.Sprintf("b-%d", i), Weight: uint32(random.IntN(4)), State: chash.State(random.IntN(3))}
		if random.IntN(5) == 0 {
			backends[i].HashKey = fmt.Sprintf("shared-%d", random.IntN(3))
		}
	}
	backends[0].State = chash.Healthy
	return backends
}

// TestLoads: the shares are those that keys see. They are exact, so that a million keys
// are near them: within five standard deviations.
func TestLoads(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	const keys = 50_000
	for round := range 12 {
		backends := randomBackends(random)
		spec := specs()[round%len(specs())]
		m, err := spec.Build(backends)
		require.NoError(t, err)
		loads, err := m.Loads()
		require.NoError(t, err)
		counts := map[string]int{}
		for i := range keys {
			value, err := m.Get(fmt.Sprintf("%d/%d", round, i))
			require.NoError(t, err)
			counts[m.Name(value)]++
		}
		share, fair := 0.0, 0.0
		for _, l := range loads {
			share, fair = share+l.Share, fair+l.Fair
			// The keys of an unhealthy slot count for one backend, and spread over all.
			deviation := math.Sqrt(max(l.Share, 0.001)/keys) + 0.3*math.Sqrt(max(l.Share, 0.001)/1009)
			require.InDelta(t, l.Share, float64(counts[l.Name])/keys, 5*deviation, "%s of %s", l.Name, spec)
			if l.Fair == 0 {
				require.Zero(t, counts[l.Name], "%s has no fair share", l.Name)
			}
		}
		require.InDelta(t, 1, share, 1e-9)
		require.InDelta(t, 1, fair, 1e-9)
	}
}

// TestEvenness: with all healthy it is what Stats says.
func TestEvenness(t *testing.T) {
	for _, spec := range specs() {
		m, err := spec.Build([]Backend{{Name: "a"}, {Name: "b", Weight: 3}, {Name: "c", Weight: 2}})
		require.NoError(t, err)
		loads, err := m.Loads()
		require.NoError(t, err)
		e, stats := EvennessOf(loads), m.Stats()
		require.InDelta(t, stats.MinShareRatio, e.Least, 1e-9)
		require.InDelta(t, stats.MaxShareRatio, e.Most, 1e-9)
	}
	require.Equal(t, Evenness{}, EvennessOf(nil))
	require.Equal(t, Evenness{0.5, 1.5, 0.5}, EvennessOf([]Load{{Fair: 1, Ratio: 0.5}, {Fair: 1, Ratio: 1.5}, {}}))
}

func TestFewest(t *testing.T) {
	before := []Load{{Name: "a", Fair: 0.5}, {Name: "b", Fair: 0.5}}
	after := []Load{{Name: "a", Fair: 0.25}, {Name: "b", Fair: 0.5}, {Name: "c", Fair: 0.25}}
	require.InDelta(t, 0.25, Fewest(before, after), 1e-12)
	require.InDelta(t, 0.25, Fewest(after, before), 1e-12)
}

func TestSpec(t *testing.T) {
	half, unlimited := Slack(0.5), Slack(math.Inf(1))
	for _, test := range []struct {
		spec       Spec
		name, line string
	}{
		{Spec{}, "maglev 65537", "chash.NewMaglev(backends)"},
		{Spec{TableSize: 13, Slack: &half, Seed: 4}, "maglev 13 slack 0.5 seed 4", "chash.NewMaglev(backends, chash.WithTableSize(13), chash.WithSlack(0.5), chash.WithSeed(4))"},
		{Spec{Slack: &unlimited}, "maglev 65537 no limit", "chash.NewMaglev(backends, chash.WithSlack(math.Inf(1)))"},
		{Spec{Structure: Ring, Replicas: 9, UnitWeight: 5, Hash: HashXX}, "ring 9 xxhash unit 5", "chash.NewRing(backends, chash.WithReplicas(9), chash.WithUnitWeight(5), chash.WithHash(xxhash.Sum64String))"},
		{Spec{Like: "nginx"}, "nginx", "chash.NewRing(backends, chashcompat.Nginx(order...))"},
		{Spec{Like: "envoy-maglev", TableSize: 13}, "envoy-maglev 13", "chash.NewMaglev(backends, chashcompat.EnvoyMaglev(order...), chash.WithTableSize(13))"},
	} {
		require.Equal(t, test.name, test.spec.String())
		require.Equal(t, test.line, test.spec.GoLine())
	}
	for _, bad := range []Spec{
		{Structure: "tree"}, {Replicas: 3}, {Hash: HashXX}, {UnitWeight: 2}, {Structure: Ring, TableSize: 13},
		{Structure: Ring, Slack: &half}, {Structure: Ring, Hash: "md5"}, {Like: "squid"}, {Like: "katran:3"},
		{Like: "envoy-ring-hash:many"},
	} {
		_, err := bad.Build([]Backend{{Name: "a"}})
		require.ErrorIs(t, err, ErrSpec, "%+v", bad)
	}
	for text, want := range map[string]Slack{"0": 0, "0.01": 0.01, "5%": 0.05, "inf": Slack(math.Inf(1))} {
		got, err := ParseSlack(text)
		require.NoError(t, err)
		require.InDelta(t, min(9, float64(want)), min(9, float64(got)), 1e-12)
	}
	for _, text := range []string{"", "-1", "NaN", "x", "%"} {
		_, err := ParseSlack(text)
		require.ErrorIs(t, err, ErrSpec, text)
	}
}

// TestLike_Builds: every system builds with names of its form, and places what is down as
// that system does.
func TestLike_Builds(t *testing.T) {
	names := map[string][]string{
		"cilium": {"10.0.0.1:80/TCP", "10.0.0.2:80/TCP"}, "katran": {"1", "2"}, "haproxy": {"s1", "s2"},
		"groupcache": {"http://10.0.0.1:80", "http://10.0.0.2:80"},
	}
	for name, system := range systems {
		t.Run(name, func(t *testing.T) {
			both := names[name]
			if both == nil {
				both = []string{"10.0.0.1:80", "10.0.0.2:80"}
			}
			like := name
			if name == "cilium" {
				like += ":JLfvgnHc2kaSUFaI"
			}
			m, err := Spec{Like: like}.Build([]Backend{{Name: both[0]}, {Name: both[1], State: chash.Unhealthy}})
			require.NoError(t, err)
			value, err := m.Get("key")
			require.NoError(t, err)
			require.Equal(t, both[0], m.Name(value))
			down := chash.Unhealthy
			if system.drains {
				down = chash.Draining
			}
			require.Equal(t, down, m.Backends[1].State)
		})
	}
}
