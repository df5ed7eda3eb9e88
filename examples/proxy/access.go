package main

import (
	"io"
	"log/slog"
	"net/http"
	"os"
	"time"
)

// An accessLog has a line for each request. A nil one has none.
type accessLog struct {
	log  *slog.Logger
	file io.Closer
}

// openAccessLog opens a file to append to, or standard output for a dash. Without a path
// there is no log.
func openAccessLog(path string) (*accessLog, error) {
	switch path {
	case "":
		return nil, nil
	case "-":
		return &accessLog{slog.New(slog.NewTextHandler(os.Stdout, nil)), io.NopCloser(nil)}, nil
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o640)
	if err != nil {
		return nil, err
	}
	return &accessLog{slog.New(slog.NewTextHandler(file, nil)), file}, nil
}

// write writes the line of a request. The handler quotes what a client could write a
// line of its own with.
func (a *accessLog) write(e *exchange, r *http.Request, took time.Duration) {
	if a == nil {
		return
	}
	a.log.LogAttrs(r.Context(), slog.LevelInfo, "request",
		slog.String("client", r.RemoteAddr),
		slog.String("method", r.Method),
		slog.String("host", r.Host),
		slog.String("uri", r.RequestURI),
		slog.Int("status", e.status),
		slog.Int64("bytes", e.bytes),
		slog.Duration("took", took),
		slog.String("backend", e.backend))
}

func (a *accessLog) close() {
	if a != nil {
		_ = a.file.Close()
	}
}
