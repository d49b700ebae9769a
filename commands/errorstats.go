package commands

import (
	"bytes"
	"maps"
	"slices"
	"sync"
)

// maxErrorCodes bounds the codes that are told apart. Scripts can make up any; those that come later count only in the
// total.
const maxErrorCodes = 128

// maxErrorCode is how long a code may be, as in Redis.
const maxErrorCode = 32

// errorCounts counts error replies by their code, which is their first word.
type errorCounts struct {
	mu     sync.Mutex
	total  int64
	byCode map[string]int64
}

// countError counts an error reply, given as it is on the wire.
func (s *Server) countError(reply []byte) {
	code := []byte("ERR")
	if i := bytes.IndexByte(reply[:min(len(reply), maxErrorCode)], ' '); i > 1 {
		code = reply[1:i]
	}
	e := &s.errors
	e.mu.Lock()
	defer e.mu.Unlock()
	e.total++
	if e.byCode == nil {
		e.byCode = make(map[string]int64)
	}
	if n, known := e.byCode[string(code)]; known || len(e.byCode) < maxErrorCodes {
		e.byCode[string(code)] = n + 1
	}
}

// all returns the total and the counts by code.
func (e *errorCounts) all() (total int64, codes []string, byCode map[string]int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.total, slices.Sorted(maps.Keys(e.byCode)), maps.Clone(e.byCode)
}

// reset sets everything back to zero.
func (e *errorCounts) reset() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.total = 0
	clear(e.byCode)
}
