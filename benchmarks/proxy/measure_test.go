package main

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const printed = `Running 3s test @ http://127.0.0.1:1/
  1 threads and 32 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     2.59ms    1.67ms  24.48ms   79.35%
    Req/Sec    12.95k   743.08    14.50k    70.00%
  Latency Distribution
     50%  980.00us
     75%    3.26ms
     90%    4.63ms
     99%    8.31ms
  38680 requests in 3.00s, 42.87MB read
Requests/sec:  12886.84
Transfer/sec:     14.28MB
`

func TestParse(t *testing.T) {
	r, requests, err := parse(printed)
	require.NoError(t, err)
	require.Equal(t, result{throughput: 12886.84, p50: 980 * time.Microsecond, p99: 8310 * time.Microsecond}, r)
	require.Equal(t, 38680, requests)
	_, _, err = parse(printed + "  Non-2xx or 3xx responses: 7\n")
	require.ErrorContains(t, err, "responses: 7")
	_, _, err = parse("")
	require.Error(t, err)
}

func TestMedian(t *testing.T) {
	require.Equal(t, 2.0, median([]float64{3, 1, 2}))
	require.Equal(t, 2.5, median([]float64{4, 1, 2, 3}))
}

// TestMain lets the test binary play the roles.
func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		play(role)
		return
	}
	os.Exit(m.Run())
}

// Each proxy that is installed serves one turn, without an error.
func TestRun(t *testing.T) {
	if _, err := exec.LookPath("wrk"); err != nil {
		t.Skip("there is no wrk")
	}
	if testing.Short() {
		t.Skip("it takes some seconds")
	}
	require.NoError(t, run(t.Context(), setup{rounds: 1, time: time.Second, connections: 4, body: 100}))
}
