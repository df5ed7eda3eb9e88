package chashgrpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/resolver"
)

// ErrInvalidFile is wrapped by the errors of OpenFile and Reload for a file whose
// content is not of its form: change the file. The text names the address.
var ErrInvalidFile = errors.New("chashgrpc: invalid file of endpoints")

// A File is an [Annotator] that has weights and hash keys from a file. It is a JSON
// object by address; each field may be left out:
//
//	{
//		"10.0.0.7:50051": {"weight": 3},
//		"10.0.0.9:50051": {"weight": 1, "hashKey": "pod-1"}
//	}
//
// An endpoint has what stands for one of its addresses, the first of them in byte order
// that is there, and keeps what its resolver says where the file says nothing. A weight
// is an integer from 1 to 2^32-1. Make one with [OpenFile]; it is safe for concurrent
// use by multiple goroutines and must not be copied.
type File struct {
	*Annotator
	path    string
	entries atomic.Pointer[map[string]member] // hashKey empty and weight 0 for none

	mu      sync.Mutex
	content []byte // that Reload has seen last
	err     error  // of it

	stop    func()
	stopped chan struct{}
}

// OpenFile reads a file, and reads it again in intervals until Close is called; with an
// interval of 0 or below only in Reload. A file that is not there, or not of its form,
// is an error here; later it is logged, Err returns why, and the last good content stays
// in use.
func OpenFile(path string, interval time.Duration) (*File, error) {
	f := &File{path: path, stopped: make(chan struct{})}
	f.Annotator = NewAnnotator(f.annotate)
	if err := f.Reload(); err != nil {
		return nil, err
	}
	done := make(chan struct{})
	f.stop = sync.OnceFunc(func() { close(done) })
	if interval <= 0 {
		close(f.stopped)
		return f, nil
	}
	go f.watch(interval, done)
	return f, nil
}

// watch reads the file again and again. It looks at the content, not at the time of the
// last change, so that it also sees a file that is replaced with its folder, as
// Kubernetes does it.
func (f *File) watch(interval time.Duration, done <-chan struct{}) {
	defer close(f.stopped)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case <-ticker.C:
			before := f.Err()
			if err := f.Reload(); err != nil && (before == nil || before.Error() != err.Error()) {
				logger.Warningf("the endpoints' file stays as it was: %v", err)
			}
		}
	}
}

// Reload reads the file now. Where its content has changed, all channels know the new
// weights and hash keys when it returns. The errors are those of os.ReadFile and
// ErrInvalidFile.
func (f *File) Reload() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	content, err := os.ReadFile(f.path)
	if err != nil {
		f.content, f.err = nil, err
		return err
	}
	if f.entries.Load() != nil && bytes.Equal(content, f.content) {
		return f.err
	}
	entries, err := parseEntries(content)
	f.content, f.err = content, err
	if err != nil {
		f.err = fmt.Errorf("%w %s: %w", ErrInvalidFile, f.path, err)
		return f.err
	}
	f.entries.Store(&entries)
	f.Refresh()
	return nil
}

// Err returns why the file as it is now is not in use, or nil if it is.
func (f *File) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// Close ends the reading of the file. What it said last stays in use.
func (f *File) Close() {
	f.stop()
	<-f.stopped
}

// annotate returns the endpoint with what the file says of it.
func (f *File) annotate(e resolver.Endpoint) resolver.Endpoint {
	entries := *f.entries.Load()
	name, entry := "", member{}
	for _, a := range e.Addresses {
		if at, found := entries[a.Addr]; found && (name == "" || a.Addr < name) {
			name, entry = a.Addr, at
		}
	}
	if entry.hashKey != "" {
		e = SetHashKey(e, entry.hashKey)
	}
	if entry.weight != 0 {
		e = SetWeight(e, entry.weight)
	}
	return e
}

func parseEntries(content []byte) (map[string]member, error) {
	all, err := parseObject(content)
	if err != nil {
		return nil, err
	}
	entries := make(map[string]member, len(all))
	for _, one := range all {
		entry, err := parseEntry(one.value)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", one.name, err)
		}
		entries[one.name] = entry
	}
	return entries, nil
}

func parseEntry(content []byte) (entry member, err error) {
	fields, err := parseObject(content)
	if err != nil {
		return member{}, err
	}
	for _, field := range fields {
		switch field.name {
		case "weight":
			err = parseWeight(field.value, &entry.weight)
		case "hashKey":
			err = json.Unmarshal(field.value, &entry.hashKey)
		default:
			err = errors.New("unknown field; the fields are hashKey, weight")
		}
		if err != nil {
			return member{}, fmt.Errorf("%s: %w", field.name, err)
		}
	}
	return entry, nil
}
