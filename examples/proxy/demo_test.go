package main

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
)

// raceDetector is whether the race detector is on.
var raceDetector = false

func TestDemo(t *testing.T) {
	if testing.Short() || raceDetector {
		t.Skip("it takes long: TestDemo_Small does the same with fewer requests")
	}
	cmd, stderr := asProcess(t.Context()) // without flags
	out, err := cmd.Output()
	require.NoError(t, err, "%s%s", out, stderr)
	checkDemo(t, string(out), 20000, 2000)
}

func TestDemo_Small(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	err := run(t.Context(), []string{"-demo", "-demo-requests=2000", "-demo-clients=200", "-table-size=1009", "-seed=5"}, &out, io.Discard)
	require.NoError(t, err, "%s", &out)
	checkDemo(t, out.String(), 2000, 200, chash.WithTableSize(1009), chash.WithSeed(5))
}

// checkDemo checks that the facts of the demonstration are in its output.
func checkDemo(t *testing.T, out string, requests, clients int, opts ...chash.MaglevOption) {
	t.Helper()
	number := func(pattern string) []int {
		t.Helper()
		found := regexp.MustCompile(`(?m)^\s*` + pattern).FindStringSubmatch(out)
		require.NotNil(t, found, "no %s in\n%s", pattern, out)
		numbers := make([]int, len(found)-1)
		for i := range numbers {
			_, err := fmt.Sscan(found[i+1], &numbers[i])
			require.NoError(t, err)
		}
		return numbers
	}
	const three = `\s+(\d+)\s+(\d+)\s+(\d+)`
	require.Equal(t, []int{clients, clients, clients}, number(`all clients`+three), "%s", out)
	require.Equal(t, []int{requests / 2, requests / 4, requests / 4}, number(`requests`+three), "%s", out)
	require.Regexp(t, `(?m)^ +three backends +backend-2 stopped +backend-4 added +at the end *$`, out)
	for i := 1; i < 10; i++ {
		require.Contains(t, out, fmt.Sprintf("   %d requests sent\n", i*requests/10))
	}

	// What each backend's clients must be, and who must move.
	table := newTable(t, []string{"backend-1", "backend-2", "backend-3"}, opts...)
	var want [3]map[string]int
	var homes [3][]string
	for phase := range want {
		switch phase {
		case 1:
			require.NoError(t, table.SetState("backend-2", chash.Unhealthy))
		case 2:
			require.NoError(t, table.Add(chash.Named("backend-4")...))
		}
		want[phase] = map[string]int{}
		for i := range clients {
			home, err := table.Get(fmt.Sprintf("client-%04d", i))
			require.NoError(t, err)
			want[phase][home]++
			homes[phase] = append(homes[phase], home)
		}
	}
	for i, state := range []string{"healthy", "unhealthy", "healthy", "healthy"} {
		name := fmt.Sprintf("backend-%d", i+1)
		counts, from := three, 0
		if i == 3 { // it is not there before
			counts, from = `\s+-\s+-\s+(\d+)`, 2
		}
		got := number(`clients at ` + name + counts + `\s+` + state)
		require.Equal(t, []int{want[0][name], want[1][name], want[2][name]}[from:], got, "clients of %s\n%s", name, out)
	}
	moved := 0
	for i := range clients {
		if homes[1][i] != homes[2][i] {
			moved++
		}
	}
	stopped := want[0]["backend-2"]
	require.Equal(t, []int{stopped, want[2]["backend-4"]}, number(`clients that had to move\s+-\s+(\d+)\s+(\d+)`))
	require.Equal(t, []int{stopped, moved}, number(`clients that moved\s+-\s+(\d+)\s+(\d+)`))
	require.Equal(t, []int{0, 0, 0}, number(`moved without a reason`+three))
	require.Equal(t, []int{0, 0, 0}, number(`failed requests`+three))
	require.NotZero(t, number(`The proxy sent (\d+) requests again`)[0], "the stopped backend left nothing to repeat")
	require.Regexp(t, `(?m)^One lookup in the table took \d+\.\d ns\.$`, out)
	require.Contains(t, out, "As it must be: no request failed")
}

// Interrupted, the demonstration ends at once, and not well.
func TestDemo_Interrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, run(ctx, nil, io.Discard, io.Discard), context.Canceled)
}
