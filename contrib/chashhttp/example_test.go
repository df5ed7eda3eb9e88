package chashhttp_test

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashhttp"
)

// serve starts a server that answers with its name, and returns where.
func serve(name string) (at *url.URL, stop func()) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, name)
	}))
	at, err := url.Parse(s.URL)
	if err != nil {
		log.Fatal(err)
	}
	return at, s.Close
}

// ask sends a request of a user and prints who answered it.
func ask(client *http.Client, target, user string) {
	req, err := http.NewRequest(http.MethodGet, target, nil)
	if err != nil {
		log.Fatal(err)
	}
	req.Header.Set("X-User", user)
	resp, err := client.Do(req)
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %s\n", user, body)
}

// A client whose requests go to a server of their user's own.
func Example() {
	a, stopA := serve("server a")
	defer stopA()
	b, stopB := serve("server b")
	defer stopB()

	table, err := chash.NewMaglev([]chash.Backend[*url.URL]{
		{Name: "a", Value: a},
		{Name: "b", Value: b},
	})
	if err != nil {
		log.Fatal(err)
	}
	transport, err := chashhttp.NewTransport(table, chashhttp.Header("X-User"), chashhttp.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer transport.Close()
	client := &http.Client{Transport: transport}

	for _, user := range []string{"ann", "bob", "cyd", "ann", "bob", "cyd"} {
		ask(client, "http://service/hello", user)
	}
	// Output:
	// ann: server b
	// bob: server b
	// cyd: server a
	// ann: server b
	// bob: server b
	// cyd: server a
}

// A reverse proxy takes the key from the request as it came in: the one that goes out
// has lost its X-Forwarded-For, for one.
func ExampleWithKey() {
	a, stopA := serve("server a")
	defer stopA()
	b, stopB := serve("server b")
	defer stopB()
	ring, err := chash.NewRing([]chash.Backend[*url.URL]{{Name: "a", Value: a}, {Name: "b", Value: b}})
	if err != nil {
		log.Fatal(err)
	}

	transport, err := chashhttp.NewTransport(ring, chashhttp.FromContext(), chashhttp.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer transport.Close()
	key := chashhttp.First(chashhttp.Header("X-User"), chashhttp.RemoteAddr())
	handler := &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(pr *httputil.ProxyRequest) {
			chashhttp.SetKey(pr, key)
			pr.Out.Host = "" // the backend's own
			pr.SetXForwarded()
		},
	}

	proxy := httptest.NewServer(handler)
	defer proxy.Close()

	for _, user := range []string{"ann", "bob", "cyd", "ann", "bob", "cyd"} {
		ask(http.DefaultClient, proxy.URL, user)
	}
	// Output:
	// ann: server a
	// bob: server b
	// cyd: server a
	// ann: server a
	// bob: server b
	// cyd: server a
}

// Where one server fails, its users go on to another until a probe passes.
func ExampleOptions() {
	var broken atomic.Bool
	fragile := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if broken.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = io.WriteString(w, "the fragile server")
	}))
	defer fragile.Close()
	a, err := url.Parse(fragile.URL)
	if err != nil {
		log.Fatal(err)
	}
	b, stopB := serve("the other server")
	defer stopB()
	table, err := chash.NewMaglev([]chash.Backend[*url.URL]{{Name: "a", Value: a}, {Name: "b", Value: b}})
	if err != nil {
		log.Fatal(err)
	}

	changed := make(chan struct{}, 2)
	transport, err := chashhttp.NewTransport(table, chashhttp.Header("X-User"), chashhttp.Options{
		FailureThreshold: 2,
		FailureStatus:    func(status int) bool { return status == http.StatusServiceUnavailable },
		ProbePath:        "/healthz",
		ProbeInterval:    10 * time.Millisecond,
		OnChange: func(c chashhttp.Change) {
			fmt.Println(c.Name, "is", c.State, c.Err)
			changed <- struct{}{}
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer transport.Close()
	client := &http.Client{Transport: transport}

	ask(client, "http://service/", "cyd")
	broken.Store(true)
	ask(client, "http://service/", "cyd") // is retried
	ask(client, "http://service/", "cyd")
	<-changed
	ask(client, "http://service/", "cyd") // need not be
	broken.Store(false)
	<-changed
	ask(client, "http://service/", "cyd")
	fmt.Println(transport.Stats().Retries, "retries")
	// Output:
	// cyd: the fragile server
	// cyd: the other server
	// a is unhealthy chashhttp: status 503 Service Unavailable
	// cyd: the other server
	// cyd: the other server
	// a is healthy <nil>
	// cyd: the fragile server
	// 2 retries
}

// One tenant's requests go to one server, whatever they ask of it.
func ExamplePathSegments() {
	key := chashhttp.PathSegments(2)
	for _, target := range []string{"/tenant/7/orders", "/tenant/7", "//tenant/7/?page=2", "/tenant%2F7/orders", "/"} {
		fmt.Printf("%q\n", key(httptest.NewRequest(http.MethodGet, target, nil)))
	}
	// Output:
	// "/tenant/7"
	// "/tenant/7"
	// "/tenant/7"
	// "/tenant%2F7/orders"
	// ""
}
