package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"strconv"
	"text/tabwriter"

	"github.com/chash-go/chash"
)

// A phase is a part of the demonstration's requests.
type phase struct {
	title      string // over its column
	begin, end int    // requests: from begin to before end

	answers []string // by request: the backend that answered it, empty if it failed
	homes   []string // by client: the backend of its first request in the phase
}

// A report is what came of the demonstration. It is in three phases: before a
// backend was stopped, after that, and after another was added.
type report struct {
	clients int
	stopped string
	added   string
	phases  [3]phase
	before  *chash.Maglev[*url.URL] // the table when the backend was to be added
	after   *chash.Maglev[*url.URL] // and when it was there
	members []member                // at the end
	retries uint64
	lookup  float64 // nanoseconds
}

func newReport(requests, clients int, stopped, added string) *report {
	return &report{
		clients: clients,
		stopped: stopped,
		added:   added,
		phases: [...]phase{
			{title: "three backends", begin: 0, end: requests / 2},
			{title: stopped + " stopped", begin: requests / 2, end: requests * 3 / 4},
			{title: added + " added", begin: requests * 3 / 4, end: requests},
		},
	}
}

// take takes in which backend answered each request.
func (r *report) take(answers []string) {
	for i := range r.phases {
		p := &r.phases[i]
		p.answers = answers[p.begin:p.end]
		p.homes = make([]string, r.clients)
		for i, name := range p.answers[:r.clients] {
			p.homes[(p.begin+i)%r.clients] = name
		}
	}
}

func (r *report) failed() int {
	failed := 0
	for _, p := range r.phases {
		failed += count(p.answers)[""]
	}
	return failed
}

// moved returns the clients whose home in a phase is not that in the one before.
func (r *report) moved(phase int) []int {
	var moved []int
	for client, home := range r.phases[phase].homes {
		if home != r.phases[phase-1].homes[client] {
			moved = append(moved, client)
		}
	}
	return moved
}

// fewest returns how many clients had to move: those of the backend that was
// stopped, and those that the added one got.
func (r *report) fewest(phase int) int {
	if phase == 1 {
		return count(r.phases[0].homes)[r.stopped]
	}
	return count(r.phases[2].homes)[r.added]
}

// reason reports whether a client had one to move: that its backend was stopped,
// or that the tables with and without the added backend give it different ones.
// That is so for the clients which the added one gets and, rarely, for one more:
// a Maglev table trades a little movement for balance.
func (r *report) reason(phase, client int) bool {
	if phase == 1 {
		return r.phases[0].homes[client] == r.stopped
	}
	key := demoClient(client)
	before, err1 := r.before.Get(key)
	after, err2 := r.after.Get(key)
	return err1 == nil && err2 == nil && before != after
}

// unreasoned returns the clients that moved without a reason, or strayed, in a phase.
func (r *report) unreasoned(phase int) map[int]bool {
	clients := make(map[int]bool)
	if phase > 0 {
		for _, client := range r.moved(phase) {
			if !r.reason(phase, client) {
				clients[client] = true
			}
		}
	}
	for _, client := range r.strayed(phase) {
		clients[client] = true
	}
	return clients
}

// strayed returns, for each request of a phase that neither its client's home nor
// the next phase's answered, the client. The next phase's may have, where the
// request was in flight when the phase ended.
func (r *report) strayed(phase int) []int {
	next := r.phases[min(phase+1, len(r.phases)-1)]
	var strayed []int
	p := r.phases[phase]
	for i, name := range p.answers {
		client := (p.begin + i) % r.clients
		if name != "" && name != p.homes[client] && name != next.homes[client] {
			strayed = append(strayed, client)
		}
	}
	return strayed
}

// verdict returns an error if something happened that must not.
func (r *report) verdict() error {
	var errs []error
	if n := r.failed(); n > 0 {
		errs = append(errs, fmt.Errorf("%d requests failed", n))
	}
	unreasoned := make(map[int]bool)
	for phase := range r.phases {
		maps.Copy(unreasoned, r.unreasoned(phase))
	}
	if n := len(unreasoned); n > 0 {
		errs = append(errs, fmt.Errorf("%d clients moved without a reason", n))
	}
	return errors.Join(errs...)
}

func (r *report) print(w io.Writer) {
	r.printTable(w)
	fmt.Fprintf(w, "\nThe proxy sent %d requests again, to another backend, that the stopped one left without an answer.\n", r.retries)
	fmt.Fprintf(w, "One lookup in the table took %.1f ns.\n\n", r.lookup)
	if err := r.verdict(); err != nil {
		fmt.Fprintln(w, "NOT AS IT MUST BE.")
		return
	}
	fmt.Fprintln(w, "As it must be: no request failed, and no client moved without a reason.")
}

// printTable prints where the clients were in each phase, and what happened to them: a
// phase is a column. A dash is for what cannot be.
func (r *report) printTable(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	row := func(title string, cell func(phase int) string, end string) {
		fmt.Fprintf(t, "%-25s\t", title) // as wide as the widest, and so to the left
		for i := range r.phases {
			fmt.Fprintf(t, "%s\t", cell(i))
		}
		fmt.Fprintf(t, "%s\t\n", end)
	}
	numbers := func(title string, first int, of func(phase int) int) {
		row(title, func(phase int) string {
			if phase < first {
				return "-"
			}
			return strconv.Itoa(of(phase))
		}, "")
	}
	row("", func(phase int) string { return r.phases[phase].title }, "at the end")
	for _, m := range r.members {
		row("clients at "+m.Name, func(phase int) string {
			if m.Name == r.added && phase < len(r.phases)-1 {
				return "-"
			}
			return strconv.Itoa(count(r.phases[phase].homes)[m.Name])
		}, m.State)
	}
	numbers("all clients", 0, func(phase int) int { return r.clients - count(r.phases[phase].homes)[""] })
	numbers("clients that had to move", 1, r.fewest)
	numbers("clients that moved", 1, func(phase int) int { return len(r.moved(phase)) })
	numbers("moved without a reason", 0, func(phase int) int { return len(r.unreasoned(phase)) })
	numbers("requests", 0, func(phase int) int { return len(r.phases[phase].answers) })
	numbers("failed requests", 0, func(phase int) int { return count(r.phases[phase].answers)[""] })
	t.Flush()
}

// count returns how often each value occurs.
func count(values []string) map[string]int {
	counts := make(map[string]int)
	for _, v := range values {
		counts[v]++
	}
	return counts
}
