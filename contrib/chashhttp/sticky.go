package chashhttp

import (
	"crypto/rand"
	"net/http"
	"net/http/httputil"
	"time"
)

// A StickyCookie is a cookie that keeps a browser at its backend. The value is random
// and says nothing about backends, which may come and go. The zero value of each
// field other than Name is the safe choice.
type StickyCookie struct {
	Name   string
	MaxAge time.Duration // how long the browser keeps it, 0 for until it is closed
	Path   string        // below which it is sent, "/" by default
	Domain string        // whose hosts get it too, by default only the one that set it

	Insecure bool          // it is sent without TLS too
	Scripts  bool          // scripts may read it: it is not HttpOnly
	SameSite http.SameSite // http.SameSiteLaxMode by default
}

// Handler returns a handler in front of next. It gives a cookie to each client that
// has none. It passes on the value of the cookie as the key of WithKey, which
// FromContext reads. So the first request of a client goes where the next ones go.
//
// It panics if the name, the path or the domain is not valid in a cookie.
func (c StickyCookie) Handler(next http.Handler) http.Handler {
	if err := c.cookie("value").Valid(); err != nil {
		panic("chashhttp: StickyCookie: " + err.Error())
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := Cookie(c.Name)(r)
		if key == "" {
			key = rand.Text()
			http.SetCookie(w, c.cookie(key))
		}
		next.ServeHTTP(w, r.WithContext(WithKey(r.Context(), key)))
	})
}

func (c StickyCookie) cookie(value string) *http.Cookie {
	cookie := &http.Cookie{
		Name:     c.Name,
		Value:    value,
		MaxAge:   int((c.MaxAge + time.Second - 1) / time.Second),
		Path:     c.Path,
		Domain:   c.Domain,
		Secure:   !c.Insecure,
		HttpOnly: !c.Scripts,
		SameSite: c.SameSite,
	}
	setDefault(&cookie.Path, "/")
	setDefault(&cookie.SameSite, http.SameSiteLaxMode)
	return cookie
}

// SetKey is for the Rewrite of an httputil.ReverseProxy over a Transport with the Key
// of FromContext. It gives the outgoing request the key of the incoming one, and its
// trailers, which a ReverseProxy would leave empty. With a nil Key, the request keeps
// the key that it has, from StickyCookie for example.
func SetKey(pr *httputil.ProxyRequest, key Key) {
	ctx := pr.Out.Context()
	if key != nil {
		in := *pr.In
		in.Body = pr.Out.Body
		ctx = WithKey(ctx, key(&in))
		pr.Out.Body = in.Body // a Key of the body has put what it read before the rest
	}
	pr.Out = pr.Out.WithContext(ctx)
	pr.Out.Trailer = pr.In.Trailer // the server fills it in when the body has ended
}
