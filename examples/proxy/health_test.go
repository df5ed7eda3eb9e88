package main

import (
	"strings"
	"testing"
)

func TestRecord(t *testing.T) {
	// A step is + for a check passed, - for one failed, ! for too many attempts
	// without an answer; after each, u means up and d down. Up takes 2, down 3.
	tests := []struct{ name, steps, want string }{
		{"the first passed", "+", "u"},
		{"the first failed", "-", "d"},
		{"two in a row after that", "-++", "ddu"},
		{"not in a row", "-+-+-++", "ddddddu"},
		{"three in a row", "+---", "uuud"},
		{"not three in a row", "+--+--+---", "uuuuuuuuud"},
		{"down and up", "+---++---", "uuudduuud"},
		{"attempts", "+!", "ud"},
		{"attempts, and back", "+!++", "uddu"},
		{"attempts begin a new count", "+---+!++", "uuuddddu"},
		{"attempts before a check", "!+", "dd"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var r record
			var got strings.Builder
			for i, step := range test.steps {
				before := r.up
				changed := false
				switch step {
				case '!':
					changed = r.fell()
				default:
					changed = r.checked(step == '+', 2, 3)
				}
				if changed != (r.up != before) {
					t.Errorf("step %d of %q reports %v, was up: %v, is up: %v", i, test.steps, changed, before, r.up)
				}
				got.WriteByte("du"[btoi(r.up)])
			}
			if got.String() != test.want {
				t.Errorf("steps %q = %q, want %q", test.steps, got.String(), test.want)
			}
		})
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
