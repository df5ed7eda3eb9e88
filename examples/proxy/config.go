package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashhttp"
)

// errUsage is returned for flags that cannot be meant.
var errUsage = errors.New("wrong usage (-h lists the flags)")

// config is what the flags say.
type config struct {
	listen    string
	admin     string
	backends  []spec
	tableSize int
	seed      uint64
	key       chashhttp.Key

	attempts       int
	retryBody      int64
	requestTimeout time.Duration
	connectTimeout time.Duration
	drainTimeout   time.Duration
	health         healthConfig

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
		"`address` of the admin API, which asks for no password; empty for none")
	f.Func("backend", "a backend as `name=url[,weight]`; repeat it for each", func(s string) error {
		b, err := parseBackend(s)
		c.backends = append(c.backends, b)
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
	f.DurationVar(&c.requestTimeout, "request-timeout", time.Minute,
		"time `limit` of a request, from its header to the end of its answer; 0 for none")
	f.DurationVar(&c.connectTimeout, "connect-timeout", 2*time.Second, "time `limit` of a connection to a backend")
	f.DurationVar(&c.drainTimeout, "drain-timeout", 15*time.Second,
		"time `limit` of the requests in flight after SIGINT or SIGTERM")
	f.StringVar(&c.health.path, "health-path", "/healthz", "`path` on a backend that answers 2xx if it is healthy")
	f.DurationVar(&c.health.interval, "health-interval", time.Second, "`time` between health checks")
	f.DurationVar(&c.health.timeout, "health-timeout", time.Second, "time `limit` of a health check")
	f.IntVar(&c.health.up, "health-up", 2, "`checks` passed in a row that make a backend healthy")
	f.IntVar(&c.health.down, "health-down", 3,
		"`checks` failed in a row, or attempts without an answer, that make a backend unhealthy")
	f.BoolVar(&c.demo, "demo", c.demo, "demonstrate the proxy on loopback; takes -table-size and -seed")
	f.IntVar(&c.demoRequests, "demo-requests", 20000, "`number` of requests of the demonstration")
	f.IntVar(&c.demoClients, "demo-clients", 2000, "`number` of clients that send them")
	return f
}

func (c *config) validate() error {
	for _, rule := range []struct {
		kept bool
		text string
	}{
		{c.attempts >= 1, "-attempts is below 1"},
		{c.retryBody >= 0, "-retry-body is below 0"},
		{c.retryBody <= math.MaxInt32, "-retry-body is above 2147483647"},
		{c.requestTimeout >= 0, "-request-timeout is below 0"},
		{c.connectTimeout > 0, "-connect-timeout is not above 0"},
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

// parseKey parses header:name, cookie:name or address.
func parseKey(s string) (chashhttp.Key, error) {
	kind, name, named := strings.Cut(s, ":")
	switch {
	case kind == "header" && name != "":
		return chashhttp.Header(name), nil
	case kind == "cookie" && name != "":
		return chashhttp.Cookie(name), nil
	case kind == "address" && !named:
		return chashhttp.RemoteAddr(), nil
	}
	return nil, fmt.Errorf("%q is none of header:name, cookie:name and address", s)
}

// parseBackend parses name=url[,weight].
func parseBackend(s string) (spec, error) {
	name, rest, found := strings.Cut(s, "=")
	if !found {
		return spec{}, errors.New("want name=url[,weight]")
	}
	address, weight := rest, uint64(1)
	if comma := strings.LastIndexByte(rest, ','); comma >= 0 {
		var err error
		if weight, err = strconv.ParseUint(rest[comma+1:], 10, 32); err != nil || weight == 0 {
			return spec{}, fmt.Errorf("weight %q is not a number from 1 to 4294967295", rest[comma+1:])
		}
		address = rest[:comma]
	}
	u, err := parseURL(address)
	return spec{name, u, uint32(weight)}, err
}

// parseURL parses where a backend is: scheme, host and perhaps a path, below
// which it has what the proxy is asked for.
func parseURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("url %q is not http://host or https://host", s)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("url %q has more than a scheme, a host and a path", u.Redacted())
	}
	return u, nil
}
