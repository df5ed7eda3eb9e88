package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// adminTimeout is the time limit of a request to the admin address, beside its health
// check.
const adminTimeout = 10 * time.Second

// A service is a running proxy: the pool, and the servers.
type service struct {
	config config
	pool   *pool
	proxy  *proxy
	front  *server // the proxy's
	back   *server // the admin's, nil without one
}

// newService listens and waits until every backend has been checked once, so that the
// first request meets no state but the true one. It serves nothing before run.
func newService(ctx context.Context, c config, log *slog.Logger) (s *service, err error) {
	p, err := newPool(c, log)
	if err != nil {
		return nil, err
	}
	s = &service{config: c, pool: p}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.proxy, err = newProxy(p, c, log); err != nil {
		return s, err
	}
	errorLog := slog.NewLogLogger(log.Handler(), slog.LevelWarn)
	s.front, err = listen(c.listen, &http.Server{
		Handler:           s.proxy,
		ErrorLog:          errorLog,
		ReadHeaderTimeout: c.limits.clientHeader,
		IdleTimeout:       c.limits.idle,
	})
	if err != nil || c.admin == "" {
		return s, errors.Join(err, p.wait(ctx))
	}
	s.back, err = listen(c.admin, &http.Server{
		Handler:      newAdmin(p, s.proxy, c, log),
		ErrorLog:     errorLog,
		ReadTimeout:  adminTimeout,
		WriteTimeout: adminTimeout + c.health.timeout,
	})
	return s, errors.Join(err, p.wait(ctx))
}

// run serves until ctx is done or a server fails, and then drains.
func (s *service) run(ctx context.Context) error {
	var running sync.WaitGroup
	failed := make(chan error, 2) // a place for each server, so that none waits
	for _, server := range s.servers() {
		running.Add(1)
		go func() {
			defer running.Done()
			if err := server.Serve(server.listener); !errors.Is(err, http.ErrServerClosed) {
				failed <- err
			}
		}()
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	// Requests in flight outlive ctx, and with them the checks that guide their retries.
	err = errors.Join(err, s.drain())
	running.Wait()
	return errors.Join(err, s.close())
}

func (s *service) servers() (servers []*server) {
	// In the order of their end: the admin address shows what is still draining.
	for _, server := range []*server{s.front, s.back} {
		if server != nil {
			servers = append(servers, server)
		}
	}
	return servers
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

// close ends the checks and gives back what is open.
func (s *service) close() error {
	for _, server := range s.servers() {
		_ = server.listener.Close() // closed already if it has served
	}
	if s.proxy != nil {
		s.proxy.access.close()
	}
	return s.pool.close()
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
