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
	const six = `\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)`
	require.Equal(t, []int{requests / 2, clients, requests / 4, clients, requests / 4, clients}, number(`all`+six), "%s", out)

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
		got := number(name + `\s+` + state + `\s+\d+\.\d\d %` + six)
		require.Equal(t, []int{want[0][name], want[1][name], want[2][name]}, []int{got[1], got[3], got[5]}, "clients of %s\n%s", name, out)
	}
	moved := 0
	for i := range clients {
		if homes[1][i] != homes[2][i] {
			moved++
		}
	}
	stopped := want[0]["backend-2"]
	require.Equal(t, []int{stopped, stopped}, number(`clients moved, backend-2 stopped\s+(\d+)\s+\(fewest possible (\d+)\)`))
	require.Equal(t, []int{moved, want[2]["backend-4"]}, number(`clients moved, backend-4 added\s+(\d+)\s+\(fewest possible (\d+)\)`))
	require.Equal(t, []int{0}, number(`clients moved without a reason\s+(\d+)`))
	failed := number(`failed requests\s+(\d+)\s+\((\d+) attempts`)
	require.Zero(t, failed[0])
	require.NotZero(t, failed[1], "the stopped backend left nothing to repeat")
	require.Regexp(t, `(?m)^one lookup\s+\d+\.\d ns`, out)
}

// Interrupted, the demonstration ends at once, and not well.
func TestDemo_Interrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, run(ctx, nil, io.Discard, io.Discard), context.Canceled)
}
