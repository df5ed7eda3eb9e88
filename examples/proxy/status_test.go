package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// converse sends a request as it is written, over a connection of its own, and returns
// the status of the answer.
func converse(t *testing.T, server, request string) int {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(server, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, request)
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer resp.Body.Close()
	return resp.StatusCode
}

// A client that asks for http:path, which a server takes, is told that it is wrong.
func TestProxy_OpaqueURL(t *testing.T) {
	t.Parallel()
	p := start(t, startTestBackends(t, "a").flags()...)
	require.Equal(t, http.StatusBadRequest, converse(t, p.proxy, "GET http:path HTTP/1.1\r\nHost: x\r\n\r\n"))
}
