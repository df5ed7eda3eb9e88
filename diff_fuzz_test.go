package chash_test

import (
	"math/rand/v2"
	"testing"

	"github.com/chash-go/chash"
)

// FuzzDiff compares any two sets of backends, on either structure: counts and
// ranges are those that brute force over the twins finds, and nothing changes.
func FuzzDiff(f *testing.F) {
	f.Add([]byte{})
	rng := rand.New(rand.NewPCG(0, 0))
	for kind := range byte(2) {
		for size := range byte(3) {
			for hash := range byte(8) {
				tape := []byte{kind, size, hash}
				for range 100 {
					tape = append(tape, byte(rng.Uint32()))
				}
				f.Add(tape)
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		tape := fuzzTape(data)
		ring := tape.next(2) == 1
		before := fuzzTwin(&tape, ring)
		after := before.clone()
		make := func(w *twin) structure {
			var backends []chash.Backend[string]
			for _, name := range fuzzNames[:8] {
				b := chash.Backend[string]{Name: name, Value: "value of " + name, Weight: 1}
				switch tape.next(8) {
				case 0:
					continue
				case 1:
					b.State = chash.Unhealthy
				case 2:
					b.State = chash.Draining
				case 3:
					b.Weight = uint32(1 + tape.next(7))
				case 4:
					b.HashKey = fuzzNames[tape.next(8)]
				case 5:
					b.HashKey, b.State = fuzzNames[tape.next(8)], chash.State(tape.next(2))
				}
				backends = append(backends, b)
			}
			if w.set(backends) != nil { // a table that is too small
				backends = nil
				w.set(nil)
			}
			s, err := w.build(backends)
			if err != nil {
				t.Fatalf("constructor with %+v: %v", backends, err)
			}
			return s
		}
		s, next := make(before), make(after)
		log := func(what string, err error) {
			if err != nil {
				t.Fatalf("ring=%t, size %d, seed %d, hash %t, from %+v to %+v: %s: %v",
					ring, before.size, before.seed, before.hash != nil, before.list(), after.list(), what, err)
			}
		}
		d, err := diffOf(s, next)
		log("Diff", err)
		log("Diff", differInDiff(d, before, after))
		if ring {
			r, next := s.(ringOf[string]).Ring, next.(ringOf[string]).Ring
			log("ranges before", before.differInRanges(r))
			log("ranges after", after.differInRanges(next))
			d, err := r.Diff(next)
			log("Diff", err)
			log("moves", differInMoves(d, before, after))
		}
		log("the first after Diff", before.differ(s, nil, before.hashes()))
		log("the second after Diff", after.differ(next, nil, after.hashes()))
	})
}
