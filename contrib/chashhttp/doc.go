// Package chashhttp sends HTTP requests by consistent hashing: all requests of one
// key, a client or an object, go to one backend, and when backends come, go or fail,
// few keys move. It needs nothing but the standard library and chash.
//
// A [Transport] is an [http.RoundTripper] over a Maglev or a Ring whose values are the
// URLs of the backends. It serves an [http.Client], as the package's example shows,
// and an [httputil.ReverseProxy], as that of [WithKey] does, alike:
//
//	table, err := chash.NewMaglev([]chash.Backend[*url.URL]{{Name: "a", Value: a}, {Name: "b", Value: b}})
//	...
//	transport, err := chashhttp.NewTransport(table, chashhttp.Header("X-User"), chashhttp.Options{})
//
// The table stays the caller's: who changes its backends changes where the next
// request goes. A [Follower] keeps it as DNS ([SRV], [Hosts]), a [File] or any other [Source]
// lists them, and where a list cannot be had, as it is.
//
// # Which requests
//
// The host of a request's URL stands for the backends: http://service/path goes to the
// backend of its key. Options.Hosts says which hosts do that. A request for another one
// is refused: a redirect to another site must not reach a backend, with the cookies of
// that site. Requests that a server has read, as under a ReverseProxy, are all for the
// backends.
//
// # Keys
//
// A [Key] finds the key of a request: [Header], [Cookie], [Query], [Host], [Path],
// [PathSegments] or [URI]; the address of the client, by [RemoteAddr], [ForwardedFor] or
// [ForwardedForTrusted], or the [Network] of it; the beginning of the body or a field in
// it, by [BodyPrefix] or [BodyField]; what the context has, by [FromContext]. [First]
// takes the first that there is of several, [Join] takes several together. A
// [StickyCookie] gives a key to browsers that have none. Requests without a key go to the
// healthy backends in turn, as the Next of a Maglev says.
//
// All requests of a key go to its backend, however many they are, unless
// Options.LoadFactor bounds how many a backend has at once.
//
// # What a backend gets
//
// The scheme and the host of a request's URL are replaced by the backend's, and the path
// and the query are joined to those of the backend, as by the SetURL of
// [httputil.ProxyRequest]. The Host header is the backend's own, unless the request has
// another Host than its URL, as net/http too tells one that was set from one that was
// not. Under a ReverseProxy, whose requests have the Host that came in, it is therefore
// the Rewrite that decides: pr.Out.Host = "" gives the backend its own. The user and the
// password of a backend's URL become basic authentication where the request has no
// Authorization. An opaque URL, which has no path to join, is refused.
//
// Bodies are not kept in memory, in either direction, except those that
// Options.KeepBody is for. What Options.Base can do works through a Transport:
// HTTP/2, trailers, informational responses, and upgrades such as that to
// WebSocket.
//
// # Attempts
//
// An attempt is one sending to one backend. net/http sends some requests again by
// itself where a connection is lost; a Transport does not let it. A connection that the
// backend has closed is found before the request goes out, as far as the operating system
// knows, and another is taken: that is no attempt. A request that cannot be repeated
// takes a connection that was used a moment ago, or a new one, so that it is not lost to
// a backend that closes idle connections.
//
// An attempt fails if it ends without an answer, if the backend gives no sign for
// Options.AttemptTimeout, or if the answer has a status that Options.FailureStatus
// names. The request then goes on to the first healthy backend in its key's order of
// preference, the order of Candidates, that it has not met yet, without delay, where
// that is safe:
//   - If there was no connection, nothing was sent. Then any request is repeated,
//     provided that its body was not read either. A Base that does not report to
//     [httptrace] is taken to have had one.
//   - Otherwise the backend may have done what it was asked for. Then requests are
//     repeated whose methods RFC 9110, section 9.2.2, calls idempotent (GET, HEAD,
//     OPTIONS, TRACE, PUT and DELETE) or that have an Idempotency-Key or
//     X-Idempotency-Key header, provided that the body was not read, or that there is
//     a GetBody to have it again from the beginning.
//
// A request that waits for an answer of a backend which is marked Unhealthy meanwhile,
// by whomever, goes on in the same way.
//
// A request is sent MaxAttempts times at most, and to each backend once. All retries of a
// Transport together are bounded by a budget of 100 and a fifth of the requests, by
// default, so that an outage is not made worse by them. A request that its caller
// has canceled, or whose time is over, is not repeated, nor one whose body cannot be
// read, or which cannot be sent to anybody, for a line break in a header, say, or for an
// Upgrade where Base speaks HTTP/2.
//
// Where no healthy backend is left for a request, Options.Backup has others. Where those
// have failed too, the backends are tried that the Transport itself has marked, the one
// first that has been marked for the longest: it may be back. If it answers, it is.
//
// # Health
//
// FailureThreshold failures in a row mark a backend [chash.Unhealthy], or a share of
// failures of FailureRatio; so its keys, and no others, go on to their next backends.
// What counts:
//   - A request that was sent counts once, against the first backend that failed it,
//     however many it meets. So a request that no backend survives counts as little as
//     it can, and MaxEjected bounds what it can do.
//   - Whoever cancels a request says nothing about the backend. A deadline of the caller's
//     that expires does, where the backend has said nothing for ten milliseconds or more;
//     but only in a row, so that a backend which answers others meanwhile stays.
//   - A connection that is lost after it was idle is nobody's fault, nor is what the
//     request itself is to blame for.
//   - An answer that breaks off is a failure, of which the caller has to take care.
//
// A marked backend is left alone for EjectionTime, longer each time, and then probed until
// one probe passes. That makes it Healthy again and brings the same keys back, gently: at
// first one request at a time, as Options.ReturnTime says. With Options.ProbeAll, all
// backends are probed at all times. Backends at one address are one server: they fail
// together, and a request meets them once. Addresses are compared as RFC 3986,
// section 6, normalizes them, and without the user.
//
// Failures of requests do not mark the last server that is healthy, however often it
// fails: a request is better sent where it may fail than nowhere. Failed probes of
// ProbeAll do; Options.FailOpen then sends requests nevertheless.
//
// A Transport changes no state but from Healthy to Unhealthy, and back if it was the
// one that made it so, or was asked to Adopt the backend. A backend that its user drains stays so; one that was removed
// is forgotten; one whose Value changed is probed where it is now. To take a backend
// out by hand, make it Draining: a Transport cannot tell an Unhealthy of its user's
// from its own where it has marked the backend too. A Set whose list has a marked
// backend as Healthy, which is the zero State, makes it so until it has failed as often
// again; a Reconcile keeps the mark.
//
// Where the caller has checks of its own, they report to the table by its
// CompareAndSwapState, and Options.NoProbe leaves it to them to bring a backend back.
//
// # Cost
//
// Beside what Base takes, a request that succeeds costs its key, one lookup, a copy of
// its URL, and a timer; to the budget and to health, a read each, however many backends
// there are. While a backend has failed lately, a success costs one more lookup. A
// goroutine runs only while a backend is marked, with ProbeAll always, and with OnMove
// while answers are open. Close ends all of them.
package chashhttp
