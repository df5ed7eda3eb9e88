package replay

import (
	"bufio"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"
)

// A Log is a log that is open.
type Log struct {
	io.Reader       // what is in it, unpacked
	Size      int64 // bytes of the file as it is, or -1 if not known
	close     []func() error
}

// Open opens a file, or takes standard input for "-". What begins as gzip does is
// unpacked, whatever its name. Progress is told of each read how many bytes of the file
// it took; it may be nil.
func Open(path string, stdin io.Reader, progress func(bytes int)) (*Log, error) {
	log := &Log{Reader: stdin, Size: -1}
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		log.close = append(log.close, file.Close)
		log.Reader = file
		info, err := file.Stat()
		if err != nil {
			return nil, err
		}
		if info.IsDir() {
			return nil, fmt.Errorf("%s: it is a folder", path)
		}
		if info.Mode().IsRegular() {
			log.Size = info.Size()
		}
	}
	if progress != nil {
		log.Reader = &counted{log.Reader, progress}
	}
	buffered := bufio.NewReaderSize(log.Reader, 256<<10)
	log.Reader = buffered
	if magic, err := buffered.Peek(2); err == nil && magic[0] == 0x1F && magic[1] == 0x8B {
		unpacked, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, fmt.Errorf("%s: expected gzip: %w", path, err)
		}
		log.close = append(log.close, unpacked.Close)
		log.Reader = unpacked
	}
	return log, nil
}

// Close closes the file.
func (l *Log) Close() error {
	var first error
	for i := len(l.close) - 1; i >= 0; i-- {
		if err := l.close[i](); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// counted tells of each read.
type counted struct {
	from io.Reader
	tell func(bytes int)
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.tell(n)
	return n, err
}
