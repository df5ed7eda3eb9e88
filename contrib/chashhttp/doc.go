// Package chashhttp sends HTTP requests by consistent hashing. All requests of one
// key, such as a client or an object, go to one backend. When backends come, go or
// fail, few keys move. The package needs only the standard library and chash.
//
// A [Transport] is an [http.RoundTripper] over a Maglev or a Ring whose values are
// the URLs of the backends. A Transport serves an [http.Client], as in the example of
// the package, or an [httputil.ReverseProxy], as in the example of [WithKey].
//
//	table, err := chash.NewMaglev([]chash.Backend[*url.URL]{{Name: "a", Value: a}, {Name: "b", Value: b}})
//	...
//	transport, err := chashhttp.NewTransport(table, chashhttp.Header("X-User"), chashhttp.Options{})
//
// The table stays the caller's. A change of its backends applies from the next
// request on. A [Follower] keeps the table equal to a list of backends from DNS
// ([SRV], [Hosts]), a [File] or any other [Source]. Without a list, the table stays
// as it is.
//
// # Which requests
//
// The host of a request's URL stands for the backends: http://service/path goes to
// the backend of its key. Options.Hosts lists such hosts. A request for another host
// is refused, since a redirect to another site must not bring the cookies of that
// site to a backend. Requests that a server has read, as under a ReverseProxy, are
// always for the backends.
//
// # Keys
//
// A [Key] finds the key of a request:
//   - in the request: [Header], [Cookie], [Query], [Host], [Path], [PathSegments],
//     [URI]
//   - in the address of the client: [RemoteAddr], [ForwardedFor],
//     [ForwardedForTrusted], or the [Network] of one of these
//   - in the body: [BodyPrefix], [BodyField]
//   - in the context: [FromContext]
//
// [First] takes the first of several keys that the request has. [Join] takes several
// together. A [StickyCookie] gives a key to browsers that have none. Requests without
// a key go to the healthy backends in turn, as Next of a Maglev does.
//
// All requests of a key go to its backend, however many there are. Options.LoadFactor
// bounds how many requests a backend has at once.
//
// # What a backend gets
//
// The backend's scheme and host replace those of the request's URL. The path and the
// query are joined to the backend's, as SetURL of [httputil.ProxyRequest] does. The
// user and the password of a backend's URL become basic authentication if the request
// has no Authorization. An opaque URL has no path to join, and is refused.
//
// The Host header is the backend's own, unless the Host of the request differs from
// its URL's. Under a ReverseProxy, requests have the Host that came in. In Rewrite,
// pr.Out.Host = "" gives the backend its own.
//
// Bodies are not kept in memory, in either direction, except with Options.KeepBody.
// HTTP/2, trailers, informational responses and upgrades, such as to WebSocket, work
// if Options.Base can do them.
//
// # Attempts
//
// An attempt sends a request to one backend, once. A Transport does not let net/http
// repeat requests by itself. Before a request goes out, the Transport replaces a
// connection that the backend has closed, as far as the operating system knows. This
// is no attempt. A request that cannot be repeated takes a connection that was used a
// moment ago, or a new one, because a backend may close idle connections at any time.
//
// An attempt fails if it ends without an answer, if the backend gives no sign for
// Options.AttemptTimeout, or if Options.FailureStatus names the status of the answer.
// If the request is safe to repeat, it goes on without delay to the first healthy
// backend that it has not met, in the order of Candidates:
//   - Without a connection, nothing was sent. Any request is repeated, if its body
//     was not read. If Base does not report to [httptrace], the Transport assumes
//     that there was a connection.
//   - With a connection, the backend may have done what the request asks for. A
//     request is repeated if its method is idempotent by RFC 9110, section 9.2.2
//     (GET, HEAD, OPTIONS, TRACE, PUT, DELETE), or if it has an Idempotency-Key or
//     X-Idempotency-Key header. Its body must be unread, or GetBody must give the
//     body again.
//
// A request also goes on in this way if its backend is marked Unhealthy, by anyone,
// while the request waits for the answer.
//
// A request is sent at most MaxAttempts times, and at most once to each backend. A
// budget bounds all retries of a Transport together, so that they do not make an
// outage worse. By default it is 100 plus a fifth of the requests. These requests are
// not repeated: a request that is canceled or whose time is over, a request whose
// body cannot be read, and a request that cannot be sent to any backend. The last has
// a line break in a header, for example, or an Upgrade while Base speaks HTTP/2.
//
// If no healthy backend is left for a request, the backends of Options.Backup are
// tried. The last to be tried are the backends that the Transport itself has marked,
// the one marked longest ago first. An answer brings such a backend back, as a
// passing probe does.
//
// # Health
//
// FailureThreshold failures in a row, or a share of failures of FailureRatio, mark a
// backend [chash.Unhealthy]. Its keys go on to their next backends, and no other key
// moves. What counts:
//   - A request that was sent counts once, against the first backend that failed it.
//     So a request that makes every backend fail does little harm. MaxEjected bounds
//     the harm.
//   - A request that its caller cancels does not count. An expired deadline of the
//     caller counts if the backend gave no sign for ten milliseconds or more, but
//     only for failures in a row. So a backend that answers others stays.
//   - A connection that is lost after it was idle does not count, and neither does a
//     fault of the request itself.
//   - An answer that breaks off counts as a failure. The caller must handle it.
//
// A marked backend is left alone for EjectionTime, longer each time. Then it is
// probed until one probe passes, which makes it Healthy. Its keys come back gently,
// at first one request at a time: see Options.ReturnTime. With Options.ProbeAll, all
// backends are probed at all times. Backends at one address are one server: they fail
// together, and a request meets them once. Addresses are compared without the user,
// and as RFC 3986, section 6, normalizes them.
//
// Failed requests never mark the last healthy server. Failed probes of ProbeAll do.
// Options.FailOpen then sends requests all the same.
//
// A Transport marks Healthy backends Unhealthy. It makes only those Healthy again
// that it has marked or was asked to Adopt. It changes no other state: a Draining
// backend stays so. A removed backend is forgotten. A backend with a new Value is
// probed at the new URL. To take a backend out by hand, make it Draining, since a
// Transport cannot tell your Unhealthy from its own if it has marked the backend too.
// A Set with the zero State makes a marked backend Healthy until it has failed as
// often again. A Reconcile keeps the mark.
//
// Health checks of your own report to the table by CompareAndSwapState. With
// Options.NoProbe, they alone bring backends back.
//
// # Cost
//
// A request that succeeds costs what Base takes, its key, one lookup, a copy of its
// URL, a timer, and one read each for the budget and for health. The number of
// backends does not matter. If a backend has failed lately, a success costs one more
// lookup. A goroutine runs only while a backend is marked, with ProbeAll always, and
// with OnMove while answers are open. Close ends all goroutines.
package chashhttp
