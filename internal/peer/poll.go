package peer

import (
	"context"
	"sync"
	"time"
)

// Poll calls done at once and then every interval until it reports true or an error, or until ctx ends; a ctx
// without a deadline may wait for ever. It is the one way in which tests wait for something that sends no signal.
func Poll(ctx context.Context, interval time.Duration, done func() (bool, error)) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// logLimit is how much of a server's output is kept.
const logLimit = 256 << 10

// logBuffer keeps the end of what a process writes.
type logBuffer struct {
	mu  sync.Mutex // guards buf
	buf []byte
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buf = append(b.buf, p...)
	if over := len(b.buf) - logLimit; over > 0 {
		b.buf = append(b.buf[:0], b.buf[over:]...)
	}
	return len(p), nil
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.buf)
}
