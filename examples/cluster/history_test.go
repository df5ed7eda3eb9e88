package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
)

// An operation is one of a client's on a key: it writes or reads a value. The empty
// value is that of a key that is not there.
type operation struct {
	write bool
	value string // of a write
}

// register is what a key is promised to be: each operation takes place at one moment
// between its call and its return.
var register = porcupine.Model{
	Init: func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		if op := input.(operation); op.write {
			return true, op.value
		}
		return output == state, state
	},
	DescribeOperation: func(input, output any) string {
		if op := input.(operation); op.write {
			return fmt.Sprintf("write %q", op.value)
		}
		return fmt.Sprintf("read %q", output)
	},
}

// A recorder has the history of each key.
type recorder struct {
	begin time.Time

	mu      sync.Mutex
	keys    map[string][]porcupine.Operation
	reads   int // answered
	writes  int // acknowledged
	unknown int // writes that may take place at any time, or not at all
}

func newRecorder() *recorder {
	return &recorder{begin: time.Now(), keys: map[string][]porcupine.Operation{}}
}

// do does an operation and records it. It returns what do does.
func (r *recorder) do(client int, key string, op operation, do func() (value string, err error)) error {
	call := time.Since(r.begin)
	value, err := do()
	o := porcupine.Operation{ClientId: client, Input: op, Call: int64(call), Output: value, Return: int64(time.Since(r.begin))}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil && op.write:
		r.writes++
	case err == nil:
		r.reads++
	case op.write:
		r.unknown++
		o.Return = math.MaxInt64
	default:
		return err // a read that was not answered says nothing
	}
	r.keys[key] = append(r.keys[key], o)
	return err
}

// check checks the history of each key.
func (r *recorder) check(t *testing.T) {
	t.Helper()
	for key, operations := range r.keys {
		result, info := porcupine.CheckOperationsVerbose(register, operations, patience)
		if result == porcupine.Ok {
			continue
		}
		for _, o := range operations {
			t.Logf("%s: client %d, %d to %d: %s", key, o.ClientId, o.Call, o.Return, register.DescribeOperation(o.Input, o.Output))
		}
		_ = info
		require.Equal(t, porcupine.Ok, result, "the history of %s", key)
	}
}

// randomOperation returns one for a client that has made that many. No two write the
// same value.
func randomOperation(random *rand.Rand, client, number int) operation {
	switch random.IntN(10) {
	case 0:
		return operation{write: true} // a DELETE
	case 1, 2, 3, 4:
		return operation{true, fmt.Sprintf("%d of client %d", number, client)}
	}
	return operation{}
}

// The checker sees what it is for.
func TestRecorder(t *testing.T) {
	t.Parallel()
	write := func(call, end int64, value string) porcupine.Operation {
		return porcupine.Operation{Input: operation{true, value}, Call: call, Output: "", Return: end}
	}
	read := func(call, end int64, value string) porcupine.Operation {
		return porcupine.Operation{Input: operation{}, Call: call, Output: value, Return: end}
	}
	for name, test := range map[string]struct {
		holds   bool
		history []porcupine.Operation
	}{
		"one after the other":  {true, []porcupine.Operation{write(0, 1, "a"), read(2, 3, "a"), write(4, 5, ""), read(6, 7, "")}},
		"stale":                {false, []porcupine.Operation{write(0, 1, "a"), write(2, 3, "b"), read(4, 5, "a")}},
		"undone":               {false, []porcupine.Operation{write(0, 1, "a"), write(2, 3, "b"), read(4, 5, "b"), read(6, 7, "a")}},
		"given up and done":    {true, []porcupine.Operation{write(0, math.MaxInt64, "a"), write(2, 3, "b"), read(4, 5, "b"), read(6, 7, "a")}},
		"given up, done twice": {false, []porcupine.Operation{write(0, math.MaxInt64, "a"), read(1, 2, "a"), write(2, 3, "b"), read(4, 5, "b"), read(6, 7, "a")}},
	} {
		require.Equal(t, test.holds, porcupine.CheckOperations(register, test.history), name)
	}
}
