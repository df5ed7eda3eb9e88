package main

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"text/tabwriter"

	"github.com/chash-go/chash"
)

// A phase is a part of the demonstration's requests.
type phase struct {
	title      [2]string // one word over each of its columns
	begin, end int       // requests: from begin to before end

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
			{title: [2]string{"three", "up"}, begin: 0, end: requests / 2},
			{title: [2]string{stopped, "stopped"}, begin: requests / 2, end: requests * 3 / 4},
			{title: [2]string{added, "added"}, begin: requests * 3 / 4, end: requests},
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

// unreasoned returns how many clients moved without a reason.
func (r *report) unreasoned() int {
	clients := make(map[int]bool)
	for phase := 1; phase < len(r.phases); phase++ {
		for _, client := range r.moved(phase) {
			if !r.reason(phase, client) {
				clients[client] = true
			}
		}
	}
	for phase := range r.phases {
		for _, client := range r.strayed(phase) {
			clients[client] = true
		}
	}
	return len(clients)
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
	if n := r.unreasoned(); n > 0 {
		errs = append(errs, fmt.Errorf("%d clients moved without a reason", n))
	}
	return errors.Join(errs...)
}

func (r *report) print(w io.Writer) {
	r.printTable(w)
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "failed requests\t%d\t(%d attempts repeated at another backend)\n", r.failed(), r.retries)
	for i, p := range r.phases[1:] {
		fmt.Fprintf(t, "clients moved, %s %s\t%d\t(fewest possible %d)\n", p.title[0], p.title[1], len(r.moved(i+1)), r.fewest(i+1))
	}
	fmt.Fprintf(t, "clients moved without a reason\t%d\t\n", r.unreasoned())
	fmt.Fprintf(t, "one lookup\t%.1f ns\t\n", r.lookup)
	t.Flush()
}

// printTable prints the requests and the clients of each backend in each phase.
func (r *report) printTable(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "\t\t\t")
	for _, p := range r.phases {
		fmt.Fprintf(t, "%s\t%s\t", p.title[0], p.title[1])
	}
	fmt.Fprint(t, "\nbackend\tstate\tshare\t")
	for range r.phases {
		fmt.Fprint(t, "requests\tclients\t")
	}
	fmt.Fprintln(t)
	for _, m := range r.members {
		fmt.Fprintf(t, "%s\t%s\t%.2f %%\t", m.Name, m.State, 100*m.Share)
		r.printCounts(t, func(values []string) int { return count(values)[m.Name] })
	}
	fmt.Fprint(t, "all\t\t\t")
	r.printCounts(t, func(values []string) int { return len(values) - count(values)[""] })
	t.Flush()
}

func (r *report) printCounts(w io.Writer, of func(values []string) int) {
	for _, p := range r.phases {
		fmt.Fprintf(w, "%d\t%d\t", of(p.answers), of(p.homes))
	}
	fmt.Fprintln(w)
}

// count returns how often each value occurs.
func count(values []string) map[string]int {
	counts := make(map[string]int)
	for _, v := range values {
		counts[v]++
	}
	return counts
}
