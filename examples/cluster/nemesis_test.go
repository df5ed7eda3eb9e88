//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A cluster is nodes as processes, in namespaces of a network if there is one.
type cluster struct {
	network *network
	nodes   []*member
}

// A member is one of the nodes, through all its runs.
type member struct {
	number int
	name   string
	addr   string // the same in all runs
	client *http.Client
	run    *program
}

func newCluster(t *testing.T, w *network, count int) *cluster {
	t.Helper()
	c := &cluster{network: w}
	for i := range count {
		m := &member{number: i, name: string(rune('a' + i))}
		transport := &http.Transport{MaxIdleConnsPerHost: 16}
		if w != nil {
			m.addr, transport.DialContext = w.address(i)+":8080", w.dialer(i)
		} else {
			m.addr = freeAddress(t)
		}
		m.client = &http.Client{Transport: transport}
		t.Cleanup(m.client.CloseIdleConnections)
		c.nodes = append(c.nodes, m)
	}
	return c
}

// launch starts runs of some nodes, at once, which join the others.
func (c *cluster) launch(t *testing.T, starting ...*member) {
	t.Helper()
	var join []string
	for _, m := range c.nodes {
		if m.run != nil && !slices.Contains(starting, m) {
			join = append(join, m.addr)
		}
	}
	for _, m := range starting {
		args := []string{"-name=" + m.name, "-addr=" + m.addr, "-join=" + strings.Join(join, ",")}
		if c.network != nil {
			m.run = startCommand(t, c.network.command(m.number, append([]string{os.Args[0]}, args...)...)...)
		} else {
			m.run = startProgram(t, args...)
		}
	}
}

// kill kills nodes, and signal sends them another signal.
func (c *cluster) kill(t *testing.T, nodes ...*member) {
	t.Helper()
	c.signal(t, syscall.SIGKILL, nodes...)
	for _, m := range nodes {
		m.run.exit(t)
		m.run = nil
	}
}

func (c *cluster) signal(t *testing.T, s syscall.Signal, nodes ...*member) {
	t.Helper()
	for _, m := range nodes {
		require.NoError(t, m.run.cmd.Process.Signal(s))
	}
}

// part cuts nodes off, or stops them where there is no network to be cut. rejoin ends it.
func (c *cluster) part(t *testing.T, nodes ...*member) {
	t.Helper()
	if c.network == nil {
		c.signal(t, syscall.SIGSTOP, nodes...)
		return
	}
	c.network.cut(t, numbers(nodes)...)
}

func (c *cluster) rejoin(t *testing.T, nodes ...*member) {
	t.Helper()
	if c.network == nil {
		c.signal(t, syscall.SIGCONT, nodes...)
		return
	}
	c.network.heal(t, numbers(nodes)...)
}

func numbers(nodes []*member) (numbers []int) {
	for _, m := range nodes {
		numbers = append(numbers, m.number)
	}
	return numbers
}

// settle waits until each of the nodes says that they are the members, and that all
// data are where they belong.
func (c *cluster) settle(t *testing.T, nodes ...*member) {
	t.Helper()
	var names []string
	for _, m := range nodes {
		names = append(names, m.name)
	}
	slices.Sort(names)
	require.Eventually(t, func() bool {
		var last []status
		for _, m := range nodes {
			var s status
			_, body, err := do(t.Context(), m.client, http.MethodGet, "http://"+m.addr+"/status", nil, nil)
			if err == nil {
				err = json.Unmarshal(body, &s)
			}
			last = append(last, s)
			if err != nil || !s.Settled || s.Version != last[0].Version || !slices.Equal(s.Members, names) {
				return false
			}
		}
		return true
	}, patience, 20*time.Millisecond, "%v settle", names)
}

// write writes a value to keys through a node, all at once, until each write is
// acknowledged.
func (c *cluster) write(t *testing.T, m *member, keys int, value string) {
	t.Helper()
	errs := make([]error, keys)
	var writing sync.WaitGroup
	for i := range keys {
		writing.Go(func() {
			for begin := time.Now(); time.Since(begin) < patience; {
				if _, errs[i] = operate(m.client, m.addr, fmt.Sprint("key-", i), operation{true, value}, patience); errs[i] == nil {
					return
				}
			}
		})
	}
	writing.Wait()
	require.NoError(t, errors.Join(errs...), "%q", value)
}

// read reads keys through a node and checks their value.
func (c *cluster) read(t *testing.T, m *member, keys int, want string) {
	t.Helper()
	for i := range keys {
		value, err := operate(m.client, m.addr, fmt.Sprint("key-", i), operation{}, patience)
		require.NoError(t, err)
		require.Equal(t, want, value, "key-%d at %s", i, m.name)
	}
}

// A node is stopped. What clients wrote meanwhile stays when it goes on, although it
// has requests in its sockets that others have given up; and it does not answer with
// what it had.
func TestPause(t *testing.T) {
	t.Parallel()
	const keys = 60
	c := newCluster(t, nil, 3)
	a, b := c.nodes[0], c.nodes[1]
	c.launch(t, a)
	c.settle(t, a)
	c.launch(t, c.nodes[1:]...)
	c.settle(t, c.nodes...)
	c.write(t, b, keys, "first")
	c.signal(t, syscall.SIGSTOP, a)
	c.write(t, b, keys, "old")
	c.write(t, b, keys, "new")
	asked := make([]net.Conn, keys)
	for i := range asked {
		var err error
		asked[i], err = net.Dial("tcp", a.addr)
		require.NoError(t, err)
		defer asked[i].Close()
		_, err = fmt.Fprintf(asked[i], "GET %skey-%d HTTP/1.1\r\nHost: %s\r\n\r\n", keyPath, i, a.addr)
		require.NoError(t, err)
	}
	c.signal(t, syscall.SIGCONT, a)
	for i, conn := range asked {
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		if answer.StatusCode != http.StatusServiceUnavailable {
			require.Equal(t, "new", string(body), "key-%d", i)
		}
	}
	c.settle(t, c.nodes...)
	for _, m := range c.nodes {
		c.read(t, m, keys, "new")
	}
}

// Two of five nodes are cut off. Those acknowledge nothing more, the others go on, and
// when the network is back the two are members again and have what was written.
func TestPartition(t *testing.T) {
	t.Parallel()
	const keys = 40
	c := newCluster(t, newNetwork(t, 5), 5)
	c.launch(t, c.nodes[0])
	c.settle(t, c.nodes[0])
	c.launch(t, c.nodes[1:]...)
	c.settle(t, c.nodes...)
	few, most := c.nodes[:2], c.nodes[2:] // the founder among the few
	c.write(t, few[0], keys, "before")
	c.part(t, few...)
	c.write(t, most[0], keys, "after")
	c.settle(t, most...)
	for i := range keys {
		// However long a client of theirs waits: here it is short, for the test's sake.
		_, err := operate(few[0].client, few[0].addr, fmt.Sprint("key-", i), operation{true, "apart"}, 20*time.Millisecond)
		require.Error(t, err)
		_, err = operate(few[1].client, few[1].addr, fmt.Sprint("key-", i), operation{}, 20*time.Millisecond)
		require.Error(t, err)
	}
	c.rejoin(t, few...)
	c.settle(t, c.nodes...)
	for _, m := range c.nodes {
		c.read(t, m, keys, "after")
	}
}

// A nemesis does something to a cluster and undoes it.
var nemesis = map[string]func(t *testing.T, c *cluster, random *rand.Rand){
	"kill and restart": func(t *testing.T, c *cluster, random *rand.Rand) {
		killed := pick(c, random)
		c.kill(t, killed...)
		wait(random, 2*time.Second)
		c.launch(t, killed...)
	},
	"stop and continue": func(t *testing.T, c *cluster, random *rand.Rand) {
		stopped := pick(c, random)
		c.signal(t, syscall.SIGSTOP, stopped...)
		wait(random, 6*time.Second)
		c.signal(t, syscall.SIGCONT, stopped...)
	},
	"cut and heal": func(t *testing.T, c *cluster, random *rand.Rand) {
		cut := pick(c, random)
		c.part(t, cut...)
		wait(random, 6*time.Second)
		c.rejoin(t, cut...)
	},
	"stop one, kill another": func(t *testing.T, c *cluster, random *rand.Rand) {
		order := random.Perm(5)
		stopped, killed := c.nodes[order[0]], c.nodes[order[1]]
		c.signal(t, syscall.SIGSTOP, stopped)
		wait(random, 2*time.Second)
		c.kill(t, killed)
		wait(random, 3*time.Second)
		c.signal(t, syscall.SIGCONT, stopped)
		wait(random, time.Second)
		c.launch(t, killed)
	},
	"join two, kill one and let one leave": func(t *testing.T, c *cluster, random *rand.Rand) {
		c.launch(t, c.nodes[5:]...)
		wait(random, 3*time.Second)
		c.kill(t, c.nodes[5])
		c.nodes[6].run.waitFor(t, c.nodes[6].name)
		c.signal(t, syscall.SIGTERM, c.nodes[6])
		status, _, log := c.nodes[6].run.exit(t)
		require.Zero(t, status, log)
		c.nodes[6].run = nil
	},
}

// pick returns one or two of the five nodes that there are most of the time.
func pick(c *cluster, random *rand.Rand) (picked []*member) {
	for _, i := range random.Perm(5)[:1+random.IntN(2)] {
		picked = append(picked, c.nodes[i])
	}
	return picked
}

// wait lets a fault last: how long it does is a part of the fault.
func wait(random *rand.Rand, most time.Duration) {
	time.Sleep(time.Duration(random.Int64N(int64(most))))
}

// Clients read and write while the nemesis is at work. Each key is a register whatever
// it does.
func TestNemesis(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	w := newNetwork(t, 7)
	c := newCluster(t, w, 7)
	five := c.nodes[:5]
	c.launch(t, five[0])
	c.settle(t, five[0])
	c.launch(t, five[1:]...)
	c.settle(t, five...)

	const clients, keys = 8, 200
	r := newRecorder()
	var running sync.WaitGroup
	var stop atomic.Bool
	for i := range clients {
		running.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(i+1)))
			for number := 0; !stop.Load(); number++ {
				m, op := five[random.IntN(len(five))], randomOperation(random, i, number)
				key := fmt.Sprint("key-", min(random.IntN(keys), random.IntN(keys)))
				if r.do(i, key, op, func() (string, error) { return operate(m.client, m.addr, key, op, time.Second) }) != nil {
					time.Sleep(10 * time.Millisecond) // a node that is dead answers soon
				}
			}
		})
	}
	// The clients end with the test, also when it fails.
	defer running.Wait()
	defer stop.Store(true)
	faults := map[string]int{}
	for begin := time.Now(); time.Since(begin) < 20*time.Second; {
		names := slices.Sorted(maps.Keys(nemesis))
		random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		for _, name := range names {
			nemesis[name](t, c, random)
			c.settle(t, five...)
			faults[name]++
		}
	}
	stop.Store(true)
	running.Wait()
	t.Logf("%d reads, %d writes, %d unknown; namespaces: %t; %v", r.reads, r.writes, r.unknown, w != nil, faults)
	require.Greater(t, r.reads, 100)
	require.Greater(t, r.writes, 100)
	r.check(t)
	c.kill(t, five...)
}
