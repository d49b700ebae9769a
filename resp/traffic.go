package resp

import (
	"io"
	"sync/atomic"
)

// traffic counts what has passed through a server since its start.
type traffic struct {
	in, out  atomic.Int64 // bytes
	rejected atomic.Int64 // connections
}

// Traffic is how many bytes of requests the server has read and how many bytes of replies it has written since its start.
// Those that TLS adds are not counted.
func (s *Server) Traffic() (in, out int64) { return s.traffic.in.Load(), s.traffic.out.Load() }

// Rejected is how many connections were refused since the start because there were too many.
func (s *Server) Rejected() int64 { return s.traffic.rejected.Load() }

// countedReader adds up what is read from src.
type countedReader struct {
	src   io.Reader
	total *atomic.Int64
}

func (r countedReader) Read(b []byte) (int, error) {
	n, err := r.src.Read(b)
	if n > 0 {
		r.total.Add(int64(n))
	}
	return n, err
}
