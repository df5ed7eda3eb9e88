package mapping

import (
	"math"
	"slices"
	"strings"

	"github.com/chash-go/chash"
)

// A Load is what a backend has of the key space at this moment.
type Load struct {
	Name  string  `json:"name"`
	State string  `json:"state"`
	Share float64 `json:"share"` // of the key space, from 0 to 1
	Fair  float64 `json:"fair"`  // what its weight asks for
	Ratio float64 `json:"ratio"` // Share / Fair, or 0 where Fair is 0
}

// Loads returns the load of each backend, sorted by name. The keys of those that are
// unhealthy count for the backends that lookups return for them. Of backends that share
// a place, the one that answers has all of its share.
func (m *Mapping) Loads() ([]Load, error) {
	shares, err := m.liveShares()
	if err != nil {
		return nil, err
	}
	backends := m.Structure.Backends()
	answers := leaders(backends)
	total := 0.0
	for _, weight := range answers {
		total += weight
	}
	loads := make([]Load, len(backends))
	for i, b := range backends {
		l := Load{Name: b.Name, State: b.State.String(), Share: shares[b.Name]}
		if weight := answers[b.Name]; weight > 0 {
			l.Fair = weight / total
			l.Ratio = l.Share / l.Fair
		}
		loads[i] = l
	}
	return loads, nil
}

// liveShares returns the exact shares, of what lookups return.
func (m *Mapping) liveShares() (map[string]float64, error) {
	shares := map[string]float64{}
	for _, s := range m.Shares() {
		shares[s.Name] = s.Share
	}
	healed := m.Clone()
	anyone := false
	for _, b := range m.Structure.Backends() {
		if b.State == chash.Unhealthy {
			anyone = true
			if err := healed.SetState(b.Name, chash.Healthy); err != nil {
				return nil, err
			}
		}
	}
	if !anyone {
		return shares, nil
	}
	d, err := healed.Diff(m)
	if err != nil {
		return nil, err
	}
	for _, flow := range d.Flows {
		shares[flow.From] -= flow.Share
		shares[flow.To] += flow.Share
	}
	return shares, nil
}

// leaders returns the backends that lookups return, one for each place, with their
// weights.
func leaders(backends []chash.Backend[int]) map[string]float64 {
	first := map[string]chash.Backend[int]{} // by hash key
	for _, b := range backends {
		if b.State != chash.Healthy {
			continue
		}
		key := b.HashKey
		if key == "" {
			key = b.Name
		}
		best, found := first[key]
		if !found || b.Weight > best.Weight || b.Weight == best.Weight && b.Name < best.Name {
			first[key] = b
		}
	}
	weights := map[string]float64{}
	for _, b := range first {
		weights[b.Name] = float64(b.Weight)
	}
	return weights
}

// Evenness is how far shares are from what weights ask for.
type Evenness struct {
	Least  float64 `json:"least_share"`   // smallest share by its fair one
	Most   float64 `json:"largest_share"` // largest share by its fair one
	StdDev float64 `json:"std_dev"`       // of the same ratio
}

// EvennessOf returns that of loads, over those that have a fair share. It is 0 of none.
func EvennessOf(loads []Load) Evenness {
	var ratios []float64
	for _, l := range loads {
		if l.Fair > 0 {
			ratios = append(ratios, l.Ratio)
		}
	}
	if len(ratios) == 0 {
		return Evenness{}
	}
	mean := 0.0
	for _, r := range ratios {
		mean += r / float64(len(ratios))
	}
	variance := 0.0
	for _, r := range ratios {
		variance += (r - mean) * (r - mean) / float64(len(ratios))
	}
	return Evenness{slices.Min(ratios), slices.Max(ratios), math.Sqrt(variance)}
}

// Fewest returns the share of the key space that any scheme with fair shares moves, from
// the loads before to those after.
func Fewest(before, after []Load) float64 {
	had := map[string]float64{}
	for _, l := range before {
		had[l.Name] = l.Fair
	}
	gained := 0.0
	for _, l := range after {
		gained += max(0, l.Fair-had[l.Name])
	}
	return gained
}

// SortLoads sorts loads by share, the largest first, then by name.
func SortLoads(loads []Load) {
	slices.SortFunc(loads, func(a, b Load) int {
		switch {
		case a.Share > b.Share:
			return -1
		case a.Share < b.Share:
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
}
