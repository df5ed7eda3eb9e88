package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashhttp"
)

const (
	demoHeader  = "X-Client"
	demoWorkers = 64 // requests in flight at a time

	// A client's first request of a phase must not be in flight when the phase
	// ends, nor be missing: a phase is a quarter of the requests, so it has at
	// least two of each client, and in flight are fewer than there are clients.
	leastClients = demoWorkers
	leastRounds  = 8
)

// demonstrate runs a proxy before three backends on loopback, loads it, stops
// one backend under load, adds a fourth, and prints what became of the clients.
// It returns an error if a request failed or a client moved without a reason.
func demonstrate(ctx context.Context, c config, stdout, stderr io.Writer) error {
	d := &demo{requests: c.demoRequests, clients: c.demoClients, stdout: stdout}
	defer d.close()
	fmt.Fprintf(stdout, "Starting three backends and a proxy before them, on loopback.\n")
	if err := d.start(ctx, c, stderr); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "The proxy is %s, its admin API %s.\n%d clients send %d requests, %d at a time.\n\n",
		d.service.front.url(), d.service.back.url(), d.clients, d.requests, demoWorkers)
	r, err := d.run(ctx)
	if err != nil {
		return err
	}
	r.print(stdout)
	return r.verdict()
}

// A demo is a demonstration under way.
type demo struct {
	requests int
	clients  int
	stdout   io.Writer
	backends []*demoBackend // the last is not added before its time
	service  *service
	client   *http.Client
	shutdown func() error
}

// start starts the backends and the proxy, which knows all but the last.
func (d *demo) start(ctx context.Context, c config, stderr io.Writer) error {
	for i := range 4 {
		b, err := startBackend(fmt.Sprintf("backend-%d", i+1))
		if err != nil {
			return err
		}
		d.backends = append(d.backends, b)
	}
	c.listen, c.admin, c.key, c.backends = "127.0.0.1:0", "127.0.0.1:0", chashhttp.Header(demoHeader), nil
	// Generous limits: the machine is busy with the load, and may be with more.
	c.limits.connect = 10 * time.Second
	c.health = healthConfig{
		path:     "/healthz",
		interval: 100 * time.Millisecond,
		timeout:  10 * time.Second,
		up:       2,
		down:     3,
	}
	for _, b := range d.backends[:3] {
		s, err := parseBackend(b.name + "=" + b.url)
		if err != nil {
			return err
		}
		c.backends = append(c.backends, s)
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	s, err := newService(ctx, c, log)
	if err != nil {
		return err
	}
	d.service = s
	d.client = &http.Client{
		Timeout:   30 * time.Second,
		Transport: &http.Transport{MaxIdleConnsPerHost: demoWorkers},
	}
	d.serve(ctx)
	return nil
}

// serve runs the proxy until shutdown, which returns how it ended.
func (d *demo) serve(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- d.service.run(ctx) }()
	d.shutdown = sync.OnceValue(func() error {
		d.client.CloseIdleConnections()
		cancel()
		return <-ended
	})
}

func (d *demo) close() {
	if d.shutdown != nil {
		_ = d.shutdown() // run returned the error if it got so far
	}
	for _, b := range d.backends {
		b.stop()
	}
}

// run sends the requests and returns what came of them.
func (d *demo) run(ctx context.Context) (*report, error) {
	stopped, added := d.backends[1], d.backends[3]
	table := d.service.pool.table
	r := newReport(d.requests, d.clients, stopped.name, added.name)
	r.lookup = lookupTime(table, d.clients)
	change := func(request int) error {
		d.progress(r, request)
		switch request {
		case r.phases[1].begin:
			stopped.stop()
		case r.phases[2].begin:
			r.before = table.Clone()
			err := d.add(ctx, added)
			r.after = table.Clone()
			return err
		}
		return nil
	}
	answers, err := d.load(ctx, change)
	if err != nil {
		return nil, err
	}
	r.take(answers)
	if r.members, err = d.members(ctx); err != nil {
		return nil, err
	}
	r.retries = d.service.pool.transport.Stats().Retries
	fmt.Fprintln(d.stdout)
	return r, d.shutdown()
}

// progress says how far the demonstration is, ten times in all.
func (d *demo) progress(r *report, request int) {
	for i, p := range r.phases {
		if request == p.begin {
			fmt.Fprintf(d.stdout, "%d of %d: %s\n", i+1, len(r.phases), p.title)
		}
	}
	if tenth := d.requests / 10; request > 0 && request%tenth == 0 {
		fmt.Fprintf(d.stdout, "   %d requests sent\n", request)
	}
}

// load sends the requests, those of a client in turn, and returns for each the
// name of the backend that answered it, empty if it failed. Before each, change
// is called with its number: no request starts meanwhile, but those in flight
// stay in flight.
func (d *demo) load(ctx context.Context, change func(request int) error) ([]string, error) {
	answers := make([]string, d.requests)
	next := make(chan int)
	var workers sync.WaitGroup
	for range demoWorkers {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for i := range next {
				answers[i] = d.send(ctx, demoClient(i%d.clients))
			}
		}()
	}
	var err error
	for i := 0; i < d.requests && err == nil; i++ {
		if err = errors.Join(ctx.Err(), change(i)); err == nil {
			next <- i
		}
	}
	close(next)
	workers.Wait()
	return answers, err
}

func demoClient(i int) string { return fmt.Sprintf("client-%04d", i) }

// send sends one request and returns the name of the backend that answered it,
// empty if it failed.
func (d *demo) send(ctx context.Context, client string) string {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.service.front.url(), nil)
	if err != nil {
		return ""
	}
	req.Header.Set(demoHeader, client)
	body, status, err := d.do(req)
	if err != nil || status != http.StatusOK {
		return ""
	}
	return string(body)
}

func (d *demo) do(req *http.Request) (body []byte, status int, err error) {
	resp, err := d.client.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	return body, resp.StatusCode, err
}

// add adds a backend through the admin API.
func (d *demo) add(ctx context.Context, b *demoBackend) error {
	in, err := json.Marshal(map[string]string{"name": b.name, "url": b.url})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.service.back.url()+"/members", bytes.NewReader(in))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	body, status, err := d.do(req)
	if err == nil && status != http.StatusCreated {
		err = fmt.Errorf("POST /members: status %d: %s", status, body)
	}
	return err
}

// members asks the admin API for all backends.
func (d *demo) members(ctx context.Context) (members []member, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.service.back.url()+"/members", nil)
	if err != nil {
		return nil, err
	}
	body, status, err := d.do(req)
	if err != nil {
		return nil, err
	}
	if status != http.StatusOK {
		return nil, fmt.Errorf("GET /members: status %d: %s", status, body)
	}
	return members, json.Unmarshal(body, &members)
}

// A demoBackend is an HTTP server that answers with its name.
type demoBackend struct {
	name string
	url  string
	stop func() // closes its listener and its connections, whatever is in flight
}

func startBackend(name string) (*demoBackend, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, name)
		}),
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.Serve(l) // always ErrServerClosed
	}()
	return &demoBackend{name, "http://" + l.Addr().String(), func() {
		_ = s.Close()
		<-ended
	}}, nil
}

// lookupTime returns how many nanoseconds one lookup takes.
func lookupTime(table *chash.Maglev[*url.URL], clients int) float64 {
	keys := make([]string, clients)
	for i := range keys {
		keys[i] = demoClient(i)
	}
	const rounds = 1 << 18
	begin := time.Now()
	for i, k := 0, 0; i < rounds; i++ {
		if _, err := table.Get(keys[k]); err != nil { // asked, so that no compiler leaves the call out
			return math.NaN()
		}
		if k++; k == len(keys) {
			k = 0
		}
	}
	return float64(time.Since(begin).Nanoseconds()) / rounds
}
