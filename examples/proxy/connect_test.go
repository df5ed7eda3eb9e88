package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A CONNECT with a body reached a backend as a request without one: what was its body
// was read there as the next request, and answered to the next client.
func TestConnect_Refused(t *testing.T) {
	t.Parallel()
	b := startTestBackend(t, "a")
	seen := make(chan string, 100)
	hook := func(_ http.ResponseWriter, r *http.Request) { seen <- r.Method + " " + r.URL.Path }
	b.hook.Store(&hook)
	p := start(t, "-backend=a="+b.url)
	smuggled := "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
	for name, request := range map[string]string{
		"path":      "CONNECT /x HTTP/1.1\r\nHost: x\r\n",
		"authority": "CONNECT x:80 HTTP/1.1\r\nHost: x:80\r\n",
	} {
		for _, framing := range []string{
			fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(smuggled), smuggled),
			fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(smuggled), smuggled),
			"\r\n" + smuggled,
		} {
			conn, err := net.Dial("tcp", strings.TrimPrefix(p.proxy, "http://"))
			require.NoError(t, err)
			_, err = io.WriteString(conn, request+framing)
			require.NoError(t, err)
			reader := bufio.NewReader(conn)
			resp, err := http.ReadResponse(reader, nil)
			require.NoError(t, err)
			require.Equal(t, http.StatusMethodNotAllowed, resp.StatusCode, name)
			_, _ = io.Copy(io.Discard, resp.Body)
			_, err = reader.ReadByte()
			require.Error(t, err, "%s: the connection is closed, and nothing more was answered", name)
			conn.Close()
		}
	}
	require.Equal(t, answer{http.StatusOK, "a", ""}, p.get(t, "key"))
	require.Equal(t, "GET /", <-seen)
	require.Empty(t, seen)
}
