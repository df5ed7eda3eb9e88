package replay

import (
	"bytes"
	"io"
)

// chunkSize is how much a worker gets at once. A chunk ends with the end of a line, but
// for the last one.
const chunkSize = 1 << 20

// A chunk is some whole lines of the log.
type chunk struct {
	number int // from 0
	data   []byte
	buffer []byte // to be given back
}

// A reader cuts the log into chunks. It has a fixed number of buffers, so that memory
// stays flat.
type reader struct {
	from   io.Reader
	chunks chan chunk
	free   chan []byte
	err    error // of the log; set before chunks is closed
	long   int64 // lines that are longer than a chunk, which are left out; likewise
}

func newReader(from io.Reader, workers int) *reader {
	buffers := 2*workers + 2
	r := &reader{from: from, chunks: make(chan chunk, workers), free: make(chan []byte, buffers)}
	for range buffers {
		r.free <- make([]byte, chunkSize)
	}
	return r
}

// run reads to the end, or until nobody wants more.
func (r *reader) run(ended <-chan struct{}) {
	defer close(r.chunks)
	var rest []byte // of the last chunk: the beginning of a line
	tooLong := false
	for number := 0; ; {
		var buffer []byte
		select {
		case buffer = <-r.free:
		case <-ended:
			return
		}
		n := copy(buffer, rest)
		read, err := fill(r.from, buffer[n:])
		data := buffer[:n+read]
		last := err == io.EOF
		if err != nil && !last {
			r.err = err
			return
		}
		if tooLong {
			if end := bytes.IndexByte(data, '\n'); end >= 0 {
				data, tooLong = data[end+1:], false
			} else {
				data = nil
			}
		}
		rest = rest[:0]
		if !last && !tooLong {
			end := bytes.LastIndexByte(data, '\n') + 1
			if end == 0 && len(data) == len(buffer) {
				r.long++
				tooLong, data = true, nil
			} else {
				rest = append(rest, data[end:]...)
				data = data[:end]
			}
		}
		if len(data) == 0 {
			r.free <- buffer
		} else {
			select {
			case r.chunks <- chunk{number, data, buffer}:
				number++
			case <-ended:
				return
			}
		}
		if last {
			return
		}
	}
}

// fill reads until the buffer is full or the log ends. Other than io.ReadFull, it tells the
// end of the log from a log that is cut short, as gzip reports.
func fill(from io.Reader, buffer []byte) (n int, err error) {
	for n < len(buffer) && err == nil {
		var read int
		read, err = from.Read(buffer[n:])
		n += read
	}
	return n, err
}
