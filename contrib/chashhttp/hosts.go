package chashhttp

import (
	"fmt"
	"net/http"
)

// hosts are the hosts that stand for the backends: those of Options.Hosts.
type hosts struct {
	all   bool
	names map[hostOf]bool
}

// A hostOf is a host as the URLs of a scheme name it.
type hostOf struct{ scheme, host string }

func newHosts(names []string) hosts {
	h := hosts{names: make(map[hostOf]bool, len(names))}
	for _, name := range names {
		h.all = h.all || name == "*"
		for _, scheme := range []string{"http", "https"} {
			h.names[hostOf{scheme, authority(scheme, name)}] = true
		}
	}
	return h
}

// have reports whether a request is for the backends. An http.Client sends each redirect
// that it follows to its Transport, with the cookies of the host that it leads to: were
// that not looked at, any site that a backend's answer names would have its cookies sent
// to a backend. What a server has read is another matter: it names a host only as its
// client likes, and nothing but the backends was ever meant.
func (h *hosts) have(req *http.Request) bool {
	u := req.URL
	if h.all || u.Host == "" || req.RequestURI != "" || h.names[hostOf{u.Scheme, u.Host}] {
		return true
	}
	return h.names[hostOf{u.Scheme, authority(u.Scheme, u.Host)}]
}

// foreign returns the error for a request that is not for the backends.
func foreign(req *http.Request) error {
	return fmt.Errorf("%w: %q is not one of Options.Hosts", ErrForeignHost, req.URL.Host)
}
