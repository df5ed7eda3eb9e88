//go:build live && linux

package servers

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashcompat"
	"github.com/chash-go/chash/contrib/chashcompat/live"
)

// nginx sends each key where the ring says, through its own proxy.
func TestNginx(t *testing.T) {
	const pools, keys = 20, 1000
	path := program(t, "nginx")
	s := live.NewSource(t)
	servers := serveNames(t, s, 24, 4)
	dir := workDir(t)

	var upstreams, locations strings.Builder
	var drawn []live.Pool
	for i := range pools {
		p := s.Pool(servers, 12, []int{1, 9, 200}[s.IntN(3)])
		s.Down(p, chash.Unhealthy)
		drawn = append(drawn, p)
		variable := "$arg_k"
		if i%2 == 1 {
			variable = "$http_x_key"
		}
		fmt.Fprintf(&upstreams, "upstream u%d {\n hash %s consistent;\n", i, variable)
		for _, b := range p {
			fmt.Fprintf(&upstreams, " server %s weight=%d%s;\n", b.Name, live.Weight(b), map[chash.State]string{chash.Unhealthy: " down"}[b.State])
		}
		fmt.Fprintf(&upstreams, " keepalive 8;\n}\n")
		fmt.Fprintf(&locations, "location = /%d { proxy_pass http://u%d; }\n", i, i)
	}
	socket := filepath.Join(dir, "front")
	config := writeFile(t, dir, "nginx.conf", fmt.Sprintf(`
daemon off; master_process off; pid %[1]s/pid; error_log stderr warn;
events { worker_connections 512; }
http {
access_log off; keepalive_requests 1000000;
client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/fastcgi;
uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;
proxy_http_version 1.1; proxy_set_header Connection "";
%[2]s
server { listen unix:%[3]s; %[4]s }
}`, dir, &upstreams, socket, &locations))
	start(t, path, "-p", dir, "-c", config, "-e", "stderr")
	f := newFront(t, socket)

	var count live.Tally
	for i, p := range drawn {
		ring, err := chash.NewRing(p, chashcompat.Nginx(p.Names()...))
		require.NoError(t, err)
		ask := byQuery(fmt.Sprintf("/%d", i))
		if i%2 == 1 {
			ask = byHeader(fmt.Sprintf("/%d", i))
		}
		f.compare(t, &count, ring, s.Keys(keys, live.Long), ask)
	}
	count.Done(t, version(path, "-v"))
}
