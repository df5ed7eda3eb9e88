package main

import (
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net/url"
	"strings"
	"time"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashhttp"
)

// errUsage is returned for flags that cannot be meant.
var errUsage = errors.New("wrong usage (-h lists the flags)")

// config is what the flags say.
type config struct {
	listen     string
	admin      string
	adminToken string
	backends   []spec
	roots      *x509.CertPool // that certificates of backends come from, nil for the system's
	tableSize  int
	seed       uint64
	key        chashhttp.Key

	attempts     int
	retryBody    int64
	limits       limits
	drainTimeout time.Duration
	health       healthConfig
	healthz      string
	accessLog    string

	demo         bool
	demoRequests int
	demoClients  int
}

// healthConfig is how the backends are checked.
type healthConfig struct {
	path     string
	interval time.Duration
	timeout  time.Duration
	up, down int // results in a row that mark a backend healthy, unhealthy
}

// A spec is a backend to be.
type spec struct {
	name   string
	url    *url.URL
	weight uint32
}

// parseFlags returns the configuration in args. Asked for help it prints it to
// help and returns flag.ErrHelp; any other error is an errUsage.
func parseFlags(args []string, help io.Writer) (config, error) {
	c := config{key: chashhttp.RemoteAddr(), demo: len(args) == 0}
	f := c.flags()
	f.SetOutput(io.Discard) // the error that it prints is the one that it returns
	err := f.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(help, "Without flags the proxy demonstrates itself. Flags:")
		f.SetOutput(help)
		f.PrintDefaults()
		return c, flag.ErrHelp
	}
	if err == nil && f.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if err == nil {
		err = c.validate()
	}
	if err != nil {
		return c, fmt.Errorf("%w: %w", errUsage, err)
	}
	return c, nil
}

func (c *config) flags() *flag.FlagSet {
	f := flag.NewFlagSet("proxy", flag.ContinueOnError)
	f.StringVar(&c.listen, "listen", "127.0.0.1:8080", "`address` to serve on")
	f.StringVar(&c.admin, "admin", "127.0.0.1:8081",
		"`address` of the admin API and of /metrics; empty for none")
	f.Func("admin-token", "`token` that the admin API asks for, or @file with it; needed where -admin is not on loopback",
		func(s string) (err error) {
			c.adminToken, err = parseToken(s)
			return err
		})
	f.Func("backend", "a backend as `name=url[,weight]`; repeat it for each", func(s string) error {
		b, err := parseBackend(s)
		c.backends = append(c.backends, b)
		return err
	})
	f.Func("ca", "`file` of the certificates, in PEM, by which https backends are known, in place of the system's",
		func(s string) (err error) {
			c.roots, err = readRoots(s)
			return err
		})
	f.IntVar(&c.tableSize, "table-size", chash.DefaultTableSize, "`slots` of the table, a prime")
	f.Uint64Var(&c.seed, "seed", 0, "`seed` of the table; proxies that shall agree use the same")
	f.Func("key", "what identifies a client: header:`name`, cookie:name or address (the default)", func(s string) error {
		key, err := parseKey(s)
		c.key = key
		return err
	})
	f.IntVar(&c.attempts, "attempts", 3, "`number` of backends to try for one request, at most")
	f.Int64Var(&c.retryBody, "retry-body", 64<<10,
		"`bytes` of a request's body to keep for another attempt; longer ones are sent once")
	f.DurationVar(&c.drainTimeout, "drain-timeout", 15*time.Second,
		"time `limit` of the requests in flight after SIGINT or SIGTERM")
	c.limits.flags(f)
	f.StringVar(&c.health.path, "health-path", "/healthz", "`path` on a backend that answers 2xx if it is healthy")
	f.DurationVar(&c.health.interval, "health-interval", time.Second, "`time` between health checks")
	f.DurationVar(&c.health.timeout, "health-timeout", time.Second, "time `limit` of a health check")
	f.IntVar(&c.health.up, "health-up", 2, "`checks` passed in a row that make a backend healthy")
	f.IntVar(&c.health.down, "health-down", 3,
		"`checks` failed in a row, or attempts without an answer, that make a backend unhealthy")
	f.StringVar(&c.healthz, "healthz", "/healthz",
		"`path` on -listen that the proxy answers itself: 200 while it has a healthy backend, else 503; empty for none")
	f.StringVar(&c.accessLog, "access-log", "", "`file` to append a line for each request to, or - for standard output")
	f.BoolVar(&c.demo, "demo", c.demo, "demonstrate the proxy on loopback; takes -table-size and -seed")
	f.IntVar(&c.demoRequests, "demo-requests", 20000, "`number` of requests of the demonstration")
	f.IntVar(&c.demoClients, "demo-clients", 2000, "`number` of clients that send them")
	return f
}

// flags are those of the time limits. None is of a request or an answer as a whole.
func (l *limits) flags(f *flag.FlagSet) {
	f.DurationVar(&l.connect, "connect-timeout", 2*time.Second, "time `limit` of a connection to a backend; 0 for none")
	f.DurationVar(&l.clientHeader, "client-header-timeout", 10*time.Second,
		"time `limit` of a client to send the header of a request; 0 for none")
	f.DurationVar(&l.header, "header-timeout", 30*time.Second,
		"time `limit` of a backend to send the header of its answer, once it has the request; 0 for none")
	f.DurationVar(&l.idle, "idle-timeout", time.Minute,
		"time `limit` of a client or backend that stops in the midst of a body, and between two requests; 0 for none")
	f.DurationVar(&l.tunnel, "tunnel-timeout", time.Hour,
		"time `limit` of an upgraded connection, such as WebSocket, on which nothing moves; 0 for none")
}

func (c *config) validate() error {
	for _, rule := range []struct {
		kept bool
		text string
	}{
		{c.attempts >= 1, "-attempts is below 1"},
		{c.retryBody >= 0, "-retry-body is below 0"},
		{c.retryBody <= math.MaxInt32, "-retry-body is above 2147483647"},
		{c.limits.connect >= 0, "-connect-timeout is below 0"},
		{c.limits.clientHeader >= 0, "-client-header-timeout is below 0"},
		{c.limits.header >= 0, "-header-timeout is below 0"},
		{c.limits.idle >= 0, "-idle-timeout is below 0"},
		{c.limits.tunnel >= 0, "-tunnel-timeout is below 0"},
		{c.admin == "" || isLoopback(c.admin) || c.adminToken != "", "-admin is not on loopback and there is no -admin-token"},
		{c.healthz == "" || strings.HasPrefix(c.healthz, "/"), "-healthz does not begin with a slash"},
		{c.drainTimeout > 0, "-drain-timeout is not above 0"},
		{strings.HasPrefix(c.health.path, "/"), "-health-path does not begin with a slash"},
		{c.health.interval > 0, "-health-interval is not above 0"},
		{c.health.timeout > 0, "-health-timeout is not above 0"},
		{c.health.up >= 1, "-health-up is below 1"},
		{c.health.down >= 1, "-health-down is below 1"},
		{c.demoClients >= leastClients, fmt.Sprintf("-demo-clients is below %d", leastClients)},
		{c.demoRequests/leastRounds >= c.demoClients, fmt.Sprintf("-demo-requests is below %d for each client", leastRounds)},
	} {
		if !rule.kept {
			return errors.New(rule.text)
		}
	}
	return nil
}
