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

// ErrInvalidFile is wrapped by errors of OpenFile and Reload for a file with wrong
// content. Change the file. The text names the address.
var ErrInvalidFile = errors.New("chashgrpc: invalid file of endpoints")

// A File is an [Annotator] with weights and hash keys from a file. The file is a JSON
// object by address. Each field may be left out:
//
//	{
//		"10.0.0.7:50051": {"weight": 3},
//		"10.0.0.9:50051": {"weight": 1, "hashKey": "pod-1"}
//	}
//
// An endpoint with several addresses takes the entry of the first one, in byte order,
// that has an entry. Where the file says nothing, the resolver's attributes stay. A
// weight is an integer from 1 to 2^32-1.
//
// Make a File with [OpenFile]. It is safe for concurrent use by multiple goroutines
// and must not be copied.
type File struct {
	*Annotator
	path    string
	entries atomic.Pointer[map[string]member] // hashKey empty and weight 0 for none

	mu      sync.Mutex
	content []byte // of the last Reload
	err     error  // of content

	stop    func()
	stopped chan struct{}
}

// OpenFile reads a file, and reads it again after each interval until Close. With an
// interval of 0 or below, only Reload reads it again. A missing or invalid file is an
// error here. Later such a file is logged, Err returns why, and the last good content
// stays in use. The errors are those of Reload.
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

// watch reads the file after each interval. It compares the content, not the time of
// the last change. So it also sees a file that is replaced with its folder, as in
// Kubernetes.
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

// Reload reads the file now. If the content has changed, all channels know the new
// weights and hash keys when Reload returns. The errors are those of os.ReadFile, and
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

// Err returns why the present file is not in use, or nil if it is.
func (f *File) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// Close stops the reading of the file. The last good content stays in use.
func (f *File) Close() {
	f.stop()
	<-f.stopped
}

// annotate returns the endpoint with its entry of the file.
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
