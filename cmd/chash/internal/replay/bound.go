package replay

import (
	"github.com/chash-go/chash"
	"github.com/chash-go/chash/cmd/chash/internal/mapping"
)

// A Bound is how loads are bounded in the simulation, and what is in flight.
type Bound struct {
	Factor   float64 // see chash.WithLoadFactor
	Floor    float64 // see chash.WithLoadFloor
	InFlight int     // requests at one time
}

// Bounds is what one way to bound loads does on one mapping.
type Bounds struct {
	After     bool    `json:"after"` // of the mapping after the change
	Name      string  `json:"name"`
	Requests  int64   `json:"requests"`       // simulated
	Elsewhere float64 `json:"elsewhere"`      // share of them that did not go home
	Peak      float64 `json:"peak_in_flight"` // most in flight on one backend, by its fair share of all in flight
	Largest   float64 `json:"largest_load"`   // most requests on one backend, by its fair share
}

// The stretches of the log that are simulated: the first chunks, and then one in some.
// Each stretch is whole chunks, and goes from one request to the next in order.
const (
	firstStretches = 4
	stretchEvery   = 16
)

// A simulation takes a lease for each request and gives it back when InFlight more
// requests have come: so that many are in flight at any time. It begins anew with each
// stretch. The first InFlight requests of a stretch only fill the backends: they do not
// count, other than at the beginning of the log.
//
// So a result depends on the log alone, and not on which worker had which chunk.
type simulation struct {
	bound Bound
	runs  []*boundRun
	first bool
	seen  int
}

// A boundRun is one way to bound loads on one mapping.
type boundRun struct {
	name     string
	after    bool
	mapping  *mapping.Mapping
	bounded  bool
	floor    float64
	fair     []float64 // of each backend, of all requests
	counts   []int64
	homes    int64
	requests int64
	peak     float64

	now      *mapping.Mapping
	leases   []chash.Lease[int]
	values   []int
	at       int
	inFlight []int
}

func newSimulation(b Bound, mappings []*mapping.Mapping) *simulation {
	s := &simulation{bound: b}
	for i, m := range mappings {
		fair := make([]float64, len(m.Backends)+1)
		if loads, err := m.Loads(); err == nil {
			byName := map[string]float64{}
			for _, l := range loads {
				byName[l.Name] = l.Fair
			}
			for i, backend := range m.Backends {
				fair[i] = byName[backend.Name]
			}
		}
		for _, way := range []struct {
			name    string
			bounded bool
			floor   float64
		}{{"no bound", false, 0}, {"bounded", true, 0}, {"bounded, with the floor", true, b.Floor}} {
			s.runs = append(s.runs, &boundRun{
				name: way.name, after: i == 1, mapping: m, bounded: way.bounded, floor: way.floor, fair: fair,
				counts: make([]int64, len(fair)), leases: make([]chash.Lease[int], b.InFlight), values: make([]int, b.InFlight),
				inFlight: make([]int, len(fair)),
			})
		}
	}
	return s
}

// begin reports whether a chunk is a stretch, and begins it.
func (s *simulation) begin(number int) bool {
	if number >= firstStretches && number%stretchEvery != 0 {
		return false
	}
	s.first, s.seen = number == 0, 0
	for _, r := range s.runs {
		r.begin(s.bound)
	}
	return true
}

func (r *boundRun) begin(b Bound) {
	r.now = r.mapping.Clone() // which has no leases
	// Both are checked before a replay begins.
	_ = r.now.SetLoadFactor(b.Factor)
	_ = r.now.SetLoadFloor(r.floor)
	r.at = 0
	clear(r.inFlight)
	for i := range r.values {
		r.values[i] = -1
	}
}

// request is the next request of the stretch.
func (s *simulation) request(key []byte) {
	counts := s.first || s.seen >= s.bound.InFlight
	s.seen++
	for _, r := range s.runs {
		r.request(key, counts)
	}
}

func (r *boundRun) request(key []byte, counts bool) {
	at := r.at
	if r.at++; r.at == len(r.values) {
		r.at = 0
	}
	if old := r.values[at]; old >= 0 {
		r.inFlight[old]--
		r.leases[at].Release()
	}
	r.values[at] = -1
	home, err := r.now.GetBytes(key)
	if err != nil {
		return
	}
	value := home
	if r.bounded {
		if r.leases[at], err = r.now.AcquireBytes(key); err != nil {
			return
		}
		value = r.leases[at].Value
	}
	r.values[at] = value
	r.inFlight[value]++
	if !counts {
		return
	}
	r.requests++
	r.counts[value]++
	if value == home {
		r.homes++
	}
	if fair := r.fair[value]; fair > 0 {
		r.peak = max(r.peak, float64(r.inFlight[value])/(fair*float64(len(r.values))))
	}
}

// end gives back what is in flight.
func (s *simulation) end() {
	for _, r := range s.runs {
		for i, value := range r.values {
			if value >= 0 && r.bounded {
				r.leases[i].Release()
			}
		}
	}
}

// outcome adds up what simulations have.
func outcome(simulations []*simulation) []Bounds {
	var all []Bounds
	for i, first := range simulations[0].runs {
		b := Bounds{After: first.after, Name: first.name}
		counts := make([]int64, len(first.counts))
		homes := int64(0)
		for _, s := range simulations {
			r := s.runs[i]
			b.Requests += r.requests
			b.Peak = max(b.Peak, r.peak)
			homes += r.homes
			for j, n := range r.counts {
				counts[j] += n
			}
		}
		if b.Requests > 0 {
			b.Elsewhere = 1 - float64(homes)/float64(b.Requests)
			for j, n := range counts {
				if first.fair[j] > 0 {
					b.Largest = max(b.Largest, float64(n)/(first.fair[j]*float64(b.Requests)))
				}
			}
		}
		all = append(all, b)
	}
	return all
}
