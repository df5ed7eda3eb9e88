// Command proxy is an HTTP reverse proxy that sends every client to a backend of
// its own: what identifies the client is the key of a lookup in a Maglev table.
// It checks its backends' health, repeats at the key's next candidate what a
// backend left without an answer, and takes backends in and out while it runs.
//
// Without flags it demonstrates that on loopback; -h lists the flags.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal drains. With the handler gone, a second one kills.
	context.AfterFunc(ctx, stop)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "proxy:", err)
	}
	os.Exit(exitCode(err))
}

func exitCode(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errUsage):
		return 2
	}
	return 1
}

// run is the program: it returns when ctx is done and the requests in flight
// have ended, or at the end of the demonstration.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	c, err := parseFlags(args, stdout)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	if c.demo {
		return demonstrate(ctx, c, stdout, stderr)
	}
	s, err := newService(ctx, c, slog.New(slog.NewTextHandler(stderr, nil)))
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "proxy on %s\n", s.front.url())
	if s.back != nil {
		fmt.Fprintf(stdout, "admin on %s\n", s.back.url())
	}
	return s.run(ctx)
}

const (
	headerTimeout = 10 * time.Second // for a request's header to arrive
	idleTimeout   = 2 * time.Minute  // of a connection between two requests
	adminTimeout  = 10 * time.Second // of a request to the admin address, beside its health check
)

// A service is a running proxy: the pool, its health checks, and the servers.
type service struct {
	config  config
	pool    *pool
	checker *checker
	proxy   *proxy
	front   *server // the proxy's
	back    *server // the admin's, nil without one
}

// newService listens and checks every backend once, so that the first request
// meets no state but the true one. It serves nothing before run.
func newService(ctx context.Context, c config, log *slog.Logger) (*service, error) {
	p, err := newPool(c, log)
	if err != nil {
		return nil, err
	}
	s := &service{config: c, pool: p, checker: newChecker(p, c.health)}
	if s.proxy, err = newProxy(p, c, log); err != nil {
		return nil, err
	}
	errorLog := slog.NewLogLogger(log.Handler(), slog.LevelWarn)
	s.front, err = listen(c.listen, &http.Server{
		Handler:           s.proxy,
		ErrorLog:          errorLog,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       serverTimeout(c.requestTimeout),
		WriteTimeout:      serverTimeout(c.requestTimeout),
		IdleTimeout:       idleTimeout,
	})
	if err != nil {
		return nil, err
	}
	if c.admin != "" {
		s.back, err = listen(c.admin, &http.Server{
			Handler:      newAdmin(p, s.checker),
			ErrorLog:     errorLog,
			ReadTimeout:  adminTimeout,
			WriteTimeout: adminTimeout + c.health.timeout,
			IdleTimeout:  idleTimeout,
		})
		if err != nil {
			return nil, errors.Join(err, s.front.listener.Close())
		}
	}
	s.checker.round(ctx)
	return s, nil
}

// serverTimeout leaves time to say that a request has reached its time limit: with
// either of its own timeouts the server cuts the connection off.
func serverTimeout(limit time.Duration) time.Duration {
	if limit == 0 {
		return 0
	}
	return limit + 5*time.Second
}

// run serves until ctx is done or a server fails, and then drains.
func (s *service) run(ctx context.Context) error {
	// Requests in flight outlive ctx, and with them the checks that guide their
	// retries.
	checks, stopChecks := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	start := func(f func()) {
		running.Add(1)
		go func() { defer running.Done(); f() }()
	}
	failed := make(chan error, 2) // a place for each server, so that none waits
	start(func() { s.checker.run(checks) })
	for _, server := range s.servers() {
		start(func() {
			if err := server.Serve(server.listener); !errors.Is(err, http.ErrServerClosed) {
				failed <- err
			}
		})
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	err = errors.Join(err, s.drain())
	stopChecks()
	running.Wait()
	return errors.Join(err, s.proxy.close())
}

func (s *service) servers() []*server {
	if s.back == nil {
		return []*server{s.front}
	}
	// In the order of their end: the admin address shows what is still draining.
	return []*server{s.front, s.back}
}

// drain stops accepting, waits until the requests in flight have ended, and cuts
// off those that have not within the time limit.
func (s *service) drain() error {
	ctx, cancel := context.WithTimeout(context.Background(), s.config.drainTimeout)
	defer cancel()
	var errs []error
	for _, server := range s.servers() {
		if err := server.Shutdown(ctx); err != nil {
			errs = append(errs, fmt.Errorf("draining %s: %w", server.url(), err), server.Close())
		}
	}
	return errors.Join(errs...)
}

// A server is an HTTP server and where it listens.
type server struct {
	*http.Server
	listener net.Listener
}

func listen(address string, s *http.Server) (*server, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	return &server{s, l}, nil
}

func (s *server) url() string { return "http://" + s.listener.Addr().String() }
